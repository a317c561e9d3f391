"""A site's folder, and a Slurm that is a few shell scripts."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Verb, bundle_path, colltune, measurements_csv

__all__ = ["bundle_path", "colltune", "measurements_csv"]
ANSWERS = {
    "--name": "hydra",
    "--partition": "batch",
    "--nodes": "2,4",
    "--ppn": "1,2",
    "--mpi": "openmpi/4.1.4",
    "--collectives": "bcast",
    "--budget": "30m",
    "--nightly": "none",
    "--user": getpass.getuser(),
    "--service": "none",
}


def options(*changes: str) -> list[str]:
    """Return options that answer everything, some of them otherwise."""
    told = ANSWERS | dict(zip(changes[::2], changes[1::2], strict=True))
    return [word for pair in told.items() for word in pair] + ["--yes"]


Init = Callable[..., Answer]


@pytest.fixture
def site(entered: Path) -> Path:
    """Return where a site's folder shall be."""
    return entered / "site"


@pytest.fixture
def init(colltune: Verb, site: Path) -> Init:
    """Return a function that makes the site's folder with further options."""
    return lambda *changes: colltune("site", "init", site, *options(*changes))


SCRIPTS = {
    "sinfo": """
case "$*" in
*%P*) echo "batch* 8 16"; echo "gpu 2 64" ;;
*) echo "batch 8 16"; echo "gpu 2 64" ;;
esac""",
    "scontrol": """
cat <<END
ClusterName             = hydra
PrologSlurmctld[0]      = {hooks}/prolog.sh
EpilogSlurmctld[0]      = {hooks}/epilog.sh
TaskProlog              = {hooks}/task_prolog.sh
SlurmUser               = {user}(0)
SlurmctldHost[0]        = head(10.0.0.1)
SLURM_VERSION           = 23.11.1
END""",
    "srun": """echo "{told}" """,
}


@pytest.fixture
def slurm(entered: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a Slurm on PATH, of which tests say what its programs print."""
    programs = entered / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs), prepend=":")

    def answer(told: str = "", **scripts: str) -> None:
        for name, text in (SCRIPTS | scripts).items():
            values = {"hooks": site / "slurm", "user": getpass.getuser(), "told": told}
            for key, value in values.items():
                text = text.replace(f"{{{key}}}", str(value))  # noqa: PLW2901
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)

    answer()
    return answer
