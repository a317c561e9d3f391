"""ReproMPI's output as measurements to be imported."""

from __future__ import annotations

import pytest

from colltune.dataset.importers.protocol import Reading, TimeKind
from colltune.dataset.importers.reprompi_rows import parse
from colltune.domain import RunStatus
from colltune.errors import DataError
from tests.dataset.importers.samples import REPROMPI

HEADER, END = REPROMPI.split("          test")[0], "# Execution time: 0s\n"


def _parsed(text: str) -> Reading:
    return parse(text.splitlines(keepends=True), "f")


def _run(columns: str, *rows: str, header: str = HEADER, end: str = END) -> str:
    return header + "\n".join([columns, *rows]) + "\n" + end


def test_raw_times_are_kept_and_summarised() -> None:
    """A row holds the raw repetitions, their median, where they stand, and what they mean."""
    row = _parsed(REPROMPI).rows[0]
    assert row.times_s == (9e-6, 3e-6, 4e-6)
    assert row.summary is not None
    assert row.summary.time_s == 4e-6
    assert (row.nprocs, row.line, row.convention) == (8, 16, "MPI_BYTE")
    assert row.kind is TimeKind.MEDIAN_OF_MAXIMA


def test_what_a_summary_means_is_told(subtests: pytest.Subtests) -> None:
    """The statistic and the kind of run-time decide what the time stands for."""
    for columns, runtime_type, kind in (
        ("median_sec", "local", TimeKind.MEDIAN_OF_MAXIMA),
        ("mean_sec", "local", TimeKind.MEAN_OF_MAXIMA),
        ("median_sec", "global", TimeKind.MEDIAN_OF_SPANS),
        ("mean_sec", "global", TimeKind.MEAN_OF_SPANS),
    ):
        with subtests.test(columns=columns, runtime_type=runtime_type, kind=kind):
            header = HEADER.replace("runtime_type=local", f"runtime_type={runtime_type}")
            table = f"test count total_nrep valid_nrep {columns}"
            (row, _) = _parsed(_run(table, "MPI_Bcast 8 5 5 1e-5", header=header)).rows
            assert row.kind is kind


def test_cells_without_a_valid_repetition_have_a_status() -> None:
    """A cell that was asked for and got no valid time is a timeout, never 0."""
    table = "test count total_nrep valid_nrep median_sec"
    rows = _parsed(_run(table, "MPI_Bcast 8 5 0 0.0000000000")).rows
    assert [(r.msize_bytes, r.status, r.summary) for r in rows] == [
        (8, RunStatus.TIMEOUT, None),
        (1024, RunStatus.TIMEOUT, None),
    ]


def test_what_an_aborted_run_did_not_reach_is_no_timeout() -> None:
    """Of an aborted run only what is there counts, and the user is told."""
    read = _parsed(_run("test nrep count runtime_sec", "MPI_Bcast 0 8 1e-5", end=""))
    assert [row.msize_bytes for row in read.rows] == [8]
    assert "1 requested cells are missing" in read.remarks[0]
    failed = _parsed("#Command-line arguments: mpibenchmark\n")
    assert failed.remarks == ("a run ended before it measured anything",)


def test_a_run_that_complained_leaves_no_timeouts() -> None:
    """What ReproMPI refused to run was not too slow; its message is told."""
    read = _parsed(
        _run("test nrep count runtime_sec", "ERROR: Message size 1024 is not a multiple")
    )
    assert read.rows == ()
    assert read.remarks == ("ERROR: Message size 1024 is not a multiple",)


def test_elements_and_bytes_are_not_mixed() -> None:
    """A file in which one table counts elements and another bytes is refused."""
    elements = _run("test nrep count runtime_sec", "MPI_Bcast 0 8 1e-5")
    sizes = _run("test nrep msize_bytes runtime_sec", "MPI_Bcast 0 8 1e-5")
    with pytest.raises(DataError, match="f: mixes tables whose sizes are elements"):
        _parsed(elements + sizes)


def test_all_runs_facts_are_kept() -> None:
    """The headers of several runs are provenance, each value once."""
    second = REPROMPI.replace("clocksync=HCA3O", "clocksync=None")
    facts = _parsed(REPROMPI + second).facts
    assert (facts["clocksync"], facts["procsync"]) == ("HCA3O; None", "MPI_Barrier")
