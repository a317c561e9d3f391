"""colltune doctor with real MPIs, and from inside a job of a real Slurm."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from colltune.mpi import installation
from tests.cli.conftest import Verb, colltune  # noqa: F401 (a fixture)
from tests.integration.hooked_slurm import HookedSlurm, hooked_slurm
from tests.integration.install import VARIABLES
from tests.integration.test_catalog_check import named
from tests.server.slurm.fake_service import good

_PROGRAM = Path(sys.executable).parent / "colltune"
_STARTED = ("mpi", "compiler", "start")


@pytest.mark.mpi
@pytest.mark.parametrize("library", VARIABLES)
def test_an_mpi_that_works_has_no_problem(
    colltune: Verb,  # noqa: F811
    library: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It compiles and starts, and libcolltune fits the MPI that it was compiled for, alone."""
    mpirun = named(library)
    monkeypatch.chdir(tmp_path)
    ours = build.interposed_library(installation.find(mpirun), tmp_path / "cache")
    for preloaded, said in (
        (ours, "is preloaded and fits this MPI"),
        (tmp_path / "libcolltune-none.so", "libcolltune-none.so is not there"),
    ):
        monkeypatch.setenv("LD_PRELOAD", str(preloaded))
        answer = colltune("doctor", "--json", "--mpi", mpirun)
        found = answer.json["checks"]
        assert [name for name in _STARTED if found[name]["status"] == "problem"] == []
        assert said in found["libcolltune"]["finding"]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.mpi
@pytest.mark.parametrize("library", VARIABLES)
def test_a_script_starts_what_an_mpi_named_apart_compiles(
    colltune: Verb,  # noqa: F811
    library: str,
    tmp_path: Path,
) -> None:
    """doctor and measure start their programs by it, whatever folder it lies in."""
    mpirun, log = named(library), tmp_path / "log"
    script = tmp_path / "our launch"
    script.write_text(f'#!/bin/sh\necho "$@" >>"{log}"\nexec "{mpirun}" "$@"\n')
    script.chmod(0o755)
    named_apart = ("--mpi", mpirun, "--launcher", script)
    answer = colltune("doctor", "--json", *named_apart)
    found = answer.json["checks"]
    assert [name for name in _STARTED if found[name]["status"] == "problem"] == []
    assert "canary" in log.read_text()
    log.unlink()
    campaign = tmp_path / "campaign.toml"
    campaign.write_text(
        '[space]\ncollectives = ["bcast"]\nnodes = [1]\nppn = [2]\nmsizes_bytes = [64]\n'
    )
    out = ("--out", tmp_path / "dataset", "--budget", "15")
    assert colltune("measure", campaign, *out, *named_apart).status == 0
    assert "collbench" in log.read_text()


@pytest.fixture(scope="module")
def bed() -> Iterator[HookedSlurm]:
    """Return a Slurm with two nodes and the hooks."""
    with hooked_slurm() as bed:
        yield bed


@pytest.mark.mpi
@pytest.mark.root
@pytest.mark.slurm
def test_a_job_is_looked_at_on_all_its_nodes(bed: HookedSlurm) -> None:
    """The hooks are in effect, and all processes of the job read what they prepared."""
    mpi = installation.find(named("openmpi"))
    bed.service.answer = good
    bed.site.configure(LIBRARIES=f"openmpi/{mpi.release}", DEFAULT=f"openmpi/{mpi.release}")
    folder = bed.slurm.folder / "doctor"
    folder.mkdir()
    look = f"{_PROGRAM} doctor --job --json --mpi {mpi.mpirun}"
    script = f'cd {folder}\n{look}\n[ -z "$(ls -A)" ] || echo left'
    _, text = bed.sbatch(script, "--nodes=2", "--ntasks-per-node=2")
    found = json.loads(text)["checks"]
    for name in ("start", "slurm", "hooks", "job", "ranks", "env"):
        assert found[name]["status"] != "problem", found[name]
    assert found["job"]["finding"].endswith(": 2x2 (nodes x ppn)")
    assert found["ranks"]["finding"] == "all 4 processes on 2 nodes read 2x2"
    outcome: process.ProcessResult = bed.slurm.run(
        "srun", "-n2", "-N2", "-Q", _PROGRAM, "doctor", "--job"
    )
    assert outcome.stdout.count("ranks") == 1
