"""`colltune verify` with a real MPICH and Intel MPI, which do not show what they run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.formats import FORMATS
from tests.integration.real import Real, installed
from tests.integration.verifying import verified

pytestmark = pytest.mark.mpi


@dataclass(frozen=True)
class Job:
    """A real library with a file of a format, which chooses a configuration."""

    mpi: Real
    format: str
    chosen: Configuration
    rules: Path

    def of_ours(self, report: Any) -> list[Any]:
        """Return the rules of the report that name our configuration."""
        wanted = self.chosen.id
        return [
            r for r in report["results"] if (r["rule"]["configuration"] or "").startswith(wanted)
        ]


@pytest.fixture(
    scope="module",
    params=[
        ("mpich-json", "mpich.bcast.scatter_ring_allgather"),
        ("intelmpi-json", "intelmpi.bcast.preset3"),
    ],
    ids=("mpich", "intelmpi"),
)
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return the library under test with a file, or skip with the reason."""
    name, text = request.param
    chosen = Configuration.parse(text)
    mpi = Real(installed(chosen.library), tmp_path_factory.mktemp(chosen.library))
    rows: dict[tuple[Collective, int], tuple[Interval, ...]] = {
        (Collective.BCAST, 4): (Interval(0, None, chosen),)
    }
    written = FORMATS[name].write(DecisionTable(chosen.library, Shape(1, 4), rows), mpi.release)
    for end, content in written.texts.items():
        (mpi.folder / f"rules{end}").write_text(content)
    return Job(mpi, name, chosen, mpi.folder / "rules")


def test_nothing_is_claimed_that_was_not_seen(job: Job) -> None:
    """The job runs with the file; its rules are unobserved, with the reason: that is no proof."""
    status, report, _ = verified(job.mpi, job.rules, "--no-measure")
    assert (status, report["verdict"]) == (17, "not observed")
    assert "--no-measure" in report["how_to_observe"]
    assert (report["format"], report["release"]) == (job.format, job.mpi.release)
    reached = [
        rule for rule in job.of_ours(report) if rule["assessment"]["status"] != "unreachable"
    ]
    assert [rule["assessment"]["status"] for rule in reached] == ["unobserved"] * len(reached)
    assert reached
    assert "does not show which algorithm ran" in reached[0]["assessment"]["why"]


def test_a_users_variable_is_blamed(job: Job) -> None:
    """The variable that the library prefers to the file is named."""
    variable, value = {
        "mpich": ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", "binomial"),
        "intelmpi": ("I_MPI_ADJUST_BCAST", "1"),
    }[job.chosen.library]
    status, report, _ = verified(job.mpi, job.rules, "--no-measure", env={variable: value})
    assert status == 1
    told = [
        rule["assessment"]["why"]
        for rule in job.of_ours(report)
        if rule["assessment"]["status"] == "overridden"
    ]
    assert told
    assert f"{variable}={value} (the environment)" in told[0]
