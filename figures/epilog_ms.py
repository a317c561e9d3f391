"""What the epilog of a job takes that was recorded: with a real service, and while that is down."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from colltune.production.arms import ArmShares, arm_of
from colltune.server.slurm import hooks
from figures.figure import Figure
from figures.loop_service_mb import Site
from figures.production_jobs import CONTROL, MACHINE
from tests.dataset.profiles import profile_text, row

_JOBS, _RUNS, _ROWS, _SECONDS = 50, 2, 20, 600
_FIRST, _DOWN, _PLAIN = 1000, 2000, 3000


def run() -> Figure:
    """Return the median ms of an epilog that reports; `baseline` is of jobs that do not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        site = Site(folder)
        hooks.install(folder / "hooks", folder, {})
        (folder / "jobs").mkdir(mode=0o755)
        with site.serving() as server:
            header = f"Authorization: Bearer {site.token}\n"
            (folder / "hooks" / hooks.HEADER).write_text(header)
            settings = {
                "URL": f"http://127.0.0.1:{server.connection().port}",
                "FOLDER": folder / "jobs",
            }
            lines = [f"COLLTUNE_SITE_{key}={value}\n" for key, value in settings.items()]
            (folder / "hooks" / hooks.SITE).write_text("".join(lines))
            told = [_epilog_ms(site, number) for number in range(_FIRST, _FIRST + _JOBS)]
            plain = [_epilog_ms(site, n, records=False) for n in range(_PLAIN, _PLAIN + _JOBS)]
        received, waiting = site.store().received(0), _waiting(folder)
        if received != _JOBS or waiting:
            raise RuntimeError(f"{received} of {_JOBS} jobs were stored, {waiting} wait")
        down = [_epilog_ms(site, number) for number in range(_DOWN, _DOWN + _JOBS)]
        if _waiting(folder) != _JOBS:
            raise RuntimeError("summaries were lost while the service was down")
        median, without = statistics.median(told), statistics.median(plain)
        facts = {"service_down_ms": round(statistics.median(down), 2), "slowest_ms": max(told)}
        return Figure("epilog_ms", median, "ms", median, without, facts)


def _waiting(folder: Path) -> int:
    return len(list((folder / "jobs/.spool").glob("[0-9]*")))


def _epilog_ms(site: Site, number: int, *, records: bool = True) -> float:
    """Return the ms of the epilog of a job that has just ended."""
    job = site.folder / "jobs" / str(number)
    part = job / "openmpi-4.1.4"
    part.mkdir(parents=True)
    if records:
        (part / "arm").write_text(f"{arm_of(MACHINE, str(number), ArmShares(CONTROL))}\n")
        (part / "bundle").write_text(f"{site.bundle}\n")
        (job / "started").write_text(f"{int(time.time()) - _SECONDS}\n")
        (job / "records").mkdir()
        rows = [row("bcast", "2x2", 2**size, 100, 1e-4) for size in range(_ROWS)]
        for turn in range(_RUNS):
            profile = profile_text(rows, job=str(number), world="4 2x2")
            (job / "records" / f"{turn}.profile").write_bytes(profile)
    environment = {
        "PATH": os.environ["PATH"],
        "SLURM_JOB_ID": str(number),
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_EXIT_CODE2": "0:0",
    }
    started = time.perf_counter()
    subprocess.run([site.folder / "hooks" / "epilog.sh"], env=environment, check=True)
    taken_ms = 1e3 * (time.perf_counter() - started)
    if job.exists():
        shutil.rmtree(job)
        raise RuntimeError("the epilog did not remove the job's folder")
    return taken_ms
