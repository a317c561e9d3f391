"""`colltune verify` with a real MPICH and Intel MPI, which do not show what they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.formats import FORMATS

pytestmark = pytest.mark.mpi
COLLTUNE = str(Path(sys.executable).with_name("colltune"))
PLAIN = {"I_MPI_FABRICS": "shm"}


@dataclass(frozen=True)
class Case:
    """A format of a library, a configuration for it, and the user's variable that overrides it."""

    library: str
    format: str
    configuration: str
    variable: str
    value: str
    named_by: str


CASES = {
    "mpich": Case(
        "mpich",
        "mpich-json",
        "mpich.bcast.scatter_ring_allgather",
        "MPIR_CVAR_BCAST_INTRA_ALGORITHM",
        "binomial",
        "COLLTUNE_TEST_MPICH",
    ),
    "intelmpi": Case(
        "intelmpi",
        "intelmpi-json",
        "intelmpi.bcast.preset3",
        "I_MPI_ADJUST_BCAST",
        "1",
        "COLLTUNE_TEST_INTELMPI",
    ),
}


@dataclass(frozen=True)
class Job:
    """A real library with a file that colltune wrote for it."""

    case: Case
    mpi: installation.Installation
    rules: Path
    work: Path

    def verify(self, env: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Run the verb without measuring."""
        named = ("MPIR_CVAR_", "I_MPI_ADJUST", "I_MPI_TUNING")
        free = {n: v for n, v in os.environ.items() if not n.startswith(named)}
        words = ["verify", str(self.rules), "--work", str(self.work), "--json", "--no-measure"]
        done = subprocess.run(
            [COLLTUNE, *words, "--", str(self.mpi.mpirun), "-n", "4"],
            capture_output=True,
            text=True,
            check=False,
            env=free | PLAIN | self.mpi.launch_environment() | dict(env or {}),
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def chosen(self, report: Any) -> list[Any]:
        """Return the rules of the report that name our configuration."""
        wanted = self.case.configuration
        return [r for r in report["rules"] if (r["configuration"] or "").startswith(wanted)]


@pytest.fixture(scope="module", params=sorted(CASES))
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return the library under test with a file, or skip with the reason."""
    case = CASES[request.param]
    try:
        found = installation.find(os.environ.get(case.named_by), case.library)
    except ProgramError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp(case.library)
    always = Interval(0, None, Configuration.parse(case.configuration))
    rows: dict[tuple[Collective, int], tuple[Interval, ...]] = {(Collective.BCAST, 4): (always,)}
    written = FORMATS[case.format].write(
        DecisionTable(case.library, Shape(1, 4), rows), found.release
    )
    for end, text in written.texts.items():
        (folder / f"rules{end}").write_text(text)
    return Job(case, found, folder / "rules", folder / "work")


def test_nothing_is_claimed_that_was_not_seen(job: Job) -> None:
    """The job runs with the file; its rules are unobserved, with the reason, and no failure."""
    status, report = job.verify()
    assert status == 0
    assert (report["format"], report["release"]) == (job.case.format, job.mpi.release)
    rules = job.chosen(report)
    assert rules
    reached = [rule for rule in rules if rule["status"] != "unreachable"]
    assert [rule["status"] for rule in reached] == ["unobserved"] * len(reached)
    assert reached
    assert "cannot be seen" in reached[0]["why"]


def test_a_users_variable_is_blamed(job: Job) -> None:
    """The variable that the library prefers to the file is named."""
    status, report = job.verify({job.case.variable: job.case.value})
    assert status == 1
    told = [rule["why"] for rule in job.chosen(report) if rule["status"] == "overridden"]
    assert told
    assert f"{job.case.variable}={job.case.value} (the environment)" in told[0]
