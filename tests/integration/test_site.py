"""A site in a real Slurm: what `site init` writes, `install` puts into force, `check` tries."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Collective
from colltune.models.fitting import fit
from colltune.mpi import installation
from colltune.production.store import Store
from colltune.registry import Registry
from colltune.site.folder import site_of
from tests.integration.real import QUIET, SOURCES
from tests.integration.slurmbed import Slurmbed, slurmbed
from tests.models.machines import measured

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.slurm]
COLLTUNE = (sys.executable, "-m", "colltune.cli")
SERVE = """
COLLTUNE_SERVER_REGISTRY={site}/registry nohup {python} -m colltune.cli serve --port 8765 {more} \
    >{site}/log/serve 2>&1 </dev/null &
"""
JOB = """#!/bin/sh
umask {mask:o}
{mpirun} -n 4 --map-by ppr:2:node {program} bcast:100:4:30 allreduce:8:4:30 2>&1
"""
ROOT = Path(os.environ.get("MPI_ROOT", Path(__file__).parents[2] / ".mpi"))
AGAIN = "kill $(cat {folder}/slurmctld.pid); sleep 2; slurmctld -f {folder}/slurm.conf"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a new folder that every user may enter."""
    found = Path(tempfile.mkdtemp(prefix="ctsite"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture
def slurm(folder: Path) -> Iterator[Slurmbed]:
    """Return a Slurm without hooks."""
    (folder / "slurm").mkdir()
    options = "PropagateResourceLimits=NONE\n"
    with slurmbed(folder / "slurm", 2, 2, munge=True, scheduler="backfill", extra=options) as bed:
        yield bed


def test_three_commands_tune_the_jobs_of_a_slurm(slurm: Slurmbed, folder: Path) -> None:
    """Before a bundle is in force nothing is a problem; afterwards a job gets its variables."""
    site = folder / "site"
    answers = ("--yes", "--mpi", "openmpi/4.1.4", "--nodes", "2", "--ppn", "2", "--budget", "1m")
    local = ("--service", "http://127.0.0.1:8765", "--collectives", "bcast", "--nightly", "none")
    slurm.ask(*COLLTUNE, "site", "init", site, *answers, *local)
    before = (slurm.folder / "slurm.conf").read_text()
    slurm.ask("sh", site / "install", "--print")
    assert (slurm.folder / "slurm.conf").read_text() == before
    slurm.ask("sh", site / "install")
    assert (slurm.folder / "slurm.conf").read_text().startswith(before)
    assert (slurm.folder / "slurm.conf.before-colltune").read_text() == before
    assert "has the hooks already" in slurm.ask("sh", site / "install")
    start(slurm, site)

    found = checked(slurm, site)
    assert {name for name, said in found.items() if said[0] == "problem"} == set(), found
    assert found["bundles"][0] == found["job"][0] == found["service"][0] == "note"
    assert found["files"] == ("note", "edited by somebody, and kept: slurm/site.sh")

    bundle = fit(measured(collectives=(Collective.BCAST,)), "knn")
    registry = Registry(site / "registry")
    registry.promote(registry.add(bundle), by="test")
    served = ("curl", "-sf", "http://127.0.0.1:8765/health/ready")
    slurm.wait_until(lambda: slurm.run(*served).ok, "the bundle")
    found = checked(slurm, site)
    assert found["job"][0] == "ok", found
    assert "OMPI_MCA_coll_tuned_dynamic_rules_filename" in found["job"][1]
    assert found["bundles"][0] == found["service"][0] == "ok"


def start(slurm: Slurmbed, site: Path, *more: str) -> None:
    """Start the service, and the controller anew, with hooks that are patient."""
    # a busy machine may answer late
    hooks = site / "slurm/site.sh"
    slow = hooks.read_text().replace("LIMIT_S=0.2", "LIMIT_S=9").replace("TOTAL_S=2", "TOTAL_S=20")
    hooks.write_text(slow)
    slurm.ask("sh", "-c", SERVE.format(site=site, python=sys.executable, more=" ".join(more)))
    ready = ("curl", "-sf", "http://127.0.0.1:8765/health/live")
    slurm.wait_until(lambda: slurm.run(*ready).ok, "the service")
    slurm.ask("sh", "-c", AGAIN.format(folder=slurm.folder))
    slurm.wait_until(lambda: "idle" in slurm.run("sinfo", "--noheader").stdout, "the controller")


@pytest.mark.mpi
@pytest.mark.parametrize("mask", [0o002, 0o077], ids=oct)
def test_a_users_job_is_recorded_under_any_umask(slurm: Slurmbed, folder: Path, mask: int) -> None:
    """Root's umask at the set-up, and the user's in the job, keep nobody from the library."""
    mpirun = ROOT / "openmpi-4.1.8" / "bin" / "mpirun"
    if not mpirun.exists():
        pytest.skip(f"{mpirun} is not there; MPI_ROOT names the folder with openmpi-4.1.8")
    mpi = installation.find(str(mpirun), None)
    site, program, output = folder / "site", folder / "program", folder / "out"
    compile_it: list[str | Path] = [mpi.mpicc, "-O2", SOURCES / "timed_calls.c", "-o", program]
    env = dict(os.environ) | dict(mpi.launch_environment())
    process.check(process.run(compile_it, timeout_s=120, env=env), "compiling")
    output.mkdir()
    output.chmod(0o1777)

    words = ("--yes", "--mpi", mpirun, "--nodes", "2", "--ppn", "2", "--nightly", "none")
    local = ("--service", "http://127.0.0.1:8765", "--collectives", "bcast", "--user", "root")
    masked = ("sh", "-c", f'umask {mask:o}; "$@"', "sh")
    init = (*masked, *COLLTUNE, "site", "init", site)
    slurm.ask(*init, *words, *local)
    text = (site / "site.toml").read_text()
    assert "\nrecord = false" in text
    (site / "site.toml").write_text(text.replace("\nrecord = false", "\nrecord = true"))
    slurm.ask(*init)
    slurm.ask(*masked, "sh", site / "install")
    start(slurm, site, f"--site {site}/site.toml", f"--tokens {site}/tokens")
    registry = Registry(site / "registry")
    bundle = fit(measured(collectives=(Collective.BCAST,)), "knn")
    registry.promote(registry.add(bundle), by="test")
    served = ("curl", "-sf", "http://127.0.0.1:8765/health/ready")
    slurm.wait_until(lambda: slurm.run(*served).ok, "the bundle")

    script = output / "job.sh"
    script.write_text(JOB.format(mask=mask, mpirun=mpirun, program=program))
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    submit = ("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=2", f"--chdir={output}")
    environment = QUIET | dict(mpi.launch_environment()) | {"HOME": str(output)}
    job = slurm.ask(
        *as_nobody, *submit, f"--output={output}/job.log", script, **environment
    ).strip()
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL")["JobState"]
    said = (output / "job.log").read_text()
    assert state == "COMPLETED", said + slurm.logs()
    assert "colltune" not in said
    production = site_of(site).production
    store = Store(production.store, production.archive)
    slurm.wait_until(lambda: job in {told.job for told in store.newest()}, "the job's report")
    (told,) = (told for told in store.newest() if told.job == job)
    (run,) = told.runs
    assert {use.kind.collective for use in run.uses} >= {Collective.BCAST, Collective.ALLREDUCE}
    found = checked(slurm, site)
    assert found["recording"][0] == found["reports"][0] == found["hooks"][0] == "ok", found


def checked(slurm: Slurmbed, site: Path) -> dict[str, tuple[str, str]]:
    """Return status and finding of each check."""
    outcome = slurm.run(*COLLTUNE, "site", "check", site, "--json")
    told = json.loads(outcome.stdout)
    return {check["id"]: (check["status"], check["finding"]) for check in told["checks"]}
