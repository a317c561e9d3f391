"""A site in a real Slurm: what `site init` writes, `install` puts into force, `check` tries."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective
from colltune.models.fitting import fit
from colltune.registry import Registry
from colltune.retraining.site_file import load
from tests.integration.slurmbed import Slurmbed, slurmbed
from tests.models.machines import CONTEXT, measured

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.slurm]
COLLTUNE = (sys.executable, "-m", "colltune.cli")
SERVE = """
COLLTUNE_SERVER_REGISTRY={site}/registry nohup {python} -m colltune.cli serve --port 8765 \
    >{site}/log/serve 2>&1 </dev/null &
"""
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
    # a busy machine may answer late
    hooks = site / "slurm/site.sh"
    slow = hooks.read_text().replace("LIMIT_S=0.2", "LIMIT_S=9").replace("TOTAL_S=2", "TOTAL_S=20")
    hooks.write_text(slow)
    slurm.ask("sh", "-c", SERVE.format(site=site, python=sys.executable))
    ready = ("curl", "-sf", "http://127.0.0.1:8765/health/live")
    slurm.wait_until(lambda: slurm.run(*ready).ok, "the service")
    slurm.ask("sh", "-c", AGAIN.format(folder=slurm.folder))
    slurm.wait_until(lambda: "idle" in slurm.run("sinfo", "--noheader").stdout, "the controller")

    found = checked(slurm, site)
    assert {name for name, said in found.items() if said[0] == "problem"} == set(), found
    assert found["bundles"][0] == found["job"][0] == found["service"][0] == "note"
    assert found["files"] == ("note", "edited by somebody, and kept: slurm/site.sh")

    ours = replace(CONTEXT, machine=load(site / "site.toml").machine)
    times = measured(collectives=(Collective.BCAST,)).measurements()
    bundle = fit(PerformanceDataset.of(ours, times), "knn")
    registry = Registry(site / "registry")
    registry.promote(registry.add(bundle), by="test")
    served = ("curl", "-sf", "http://127.0.0.1:8765/health/ready")
    slurm.wait_until(lambda: slurm.run(*served).ok, "the bundle")
    found = checked(slurm, site)
    assert found["job"][0] == "ok", found
    assert "OMPI_MCA_coll_tuned_dynamic_rules_filename" in found["job"][1]
    assert found["bundles"][0] == found["service"][0] == "ok"


def checked(slurm: Slurmbed, site: Path) -> dict[str, tuple[str, str]]:
    """Return status and finding of each check."""
    outcome = slurm.run(*COLLTUNE, "site", "check", site, "--json")
    told = json.loads(outcome.stdout)
    return {name: (check["status"], check["finding"]) for name, check in told["checks"].items()}
