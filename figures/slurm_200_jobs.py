"""Job starts through a real Slurm while the service is killed and started again at random."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from colltune.domain import Collective
from colltune.models.fitting import fit
from figures.figure import Figure
from tests.integration.hooked_slurm import RULES, HookedSlurm, hooked_slurm
from tests.models.machines import measured

_JOBS = 200
_LIMIT_S = 240.0
_POLL_S = 0.5
# each job starts a step, too, and says in a file of its own what both were told
_SCRIPT = """#!/bin/sh
srun --quiet sh -c 'echo "${RULES:-nothing}"' >"OUT/$SLURM_ARRAY_TASK_ID.step" || exit 1
echo "${RULES:-nothing}" >"OUT/$SLURM_ARRAY_TASK_ID.job"
"""


def run() -> Figure:
    """Return how many of 200 jobs ran; ``ours`` were told rules, ``baseline`` nodes drained."""
    with tempfile.TemporaryDirectory() as name, hooked_slurm(2, 8) as bed:
        folder = Path(name)
        bundle = fit(measured(collectives=(Collective.BCAST,)), "knn").save(folder / "bundle")
        served = bed.slurm.folder / "served"
        bed.site.configure(SOCKET=str(served), LIMIT_S="0.2", TOTAL_S="2")
        out = bed.slurm.folder / "jobs"
        out.mkdir()
        done = threading.Event()
        killer = threading.Thread(target=_kill_at_random, args=(bundle, served, done))
        killer.start()
        try:
            _submit(bed, out)
            _await(bed)
        finally:
            done.set()
            killer.join()
        ran, told = _counted(out)
        drained = bed.drained()
    print(
        f"{ran} of {_JOBS} ran, {told} of them with rules, {drained or 'no nodes'} drained",
        file=sys.stderr,
    )
    return Figure("slurm_200_jobs", ran, "jobs", told, len(drained))


def _kill_at_random(bundle: Path, path: Path, done: threading.Event) -> None:
    """Serve, and end the service by SIGKILL after a random time, sometimes before it is ready."""
    chance = random.Random(1)  # noqa: S311
    command: list[str | Path] = [sys.executable, "-m", "colltune.cli", "serve", "--bundle", bundle]
    while not done.is_set():
        with subprocess.Popen(
            [*command, "--uds", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as served:
            if chance.random() < 0.8:
                while not _is_ready(path) and not done.wait(0.1):
                    pass
            done.wait(chance.uniform(0.0, 6.0))
            served.kill()
        done.wait(chance.uniform(0.0, 2.0))


def _is_ready(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"GET /health/ready HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(100)
        except OSError:
            return False


def _submit(bed: HookedSlurm, out: Path) -> None:
    script = bed.slurm.folder / "many.sh"
    script.write_text(_SCRIPT.replace("RULES", RULES).replace("OUT", str(out)))
    options = (
        f"--array=1-{_JOBS}",
        "-N2",
        "--ntasks-per-node=2",
        "--output=/dev/null",
        "--parsable",
    )
    bed.slurm.ask("sbatch", *options, script)


def _await(bed: HookedSlurm) -> None:
    """Wait until no job is left, but not for ever."""
    ends = time.monotonic() + _LIMIT_S
    while bed.slurm.run("squeue", "--noheader").stdout.strip():
        if time.monotonic() > ends:
            return
        time.sleep(_POLL_S)


def _counted(out: Path) -> tuple[int, int]:
    """Return how many jobs ran to their end, and how many of them were told rules."""
    ran = told = 0
    for file in out.glob("*.job"):
        job = file.read_text().strip()
        tasks = file.with_suffix(".step").read_text().split()
        # all tasks are told the same as the job, or the job does not count
        if tasks == 4 * [job]:
            ran += 1
            told += job != "nothing"
    return ran, told
