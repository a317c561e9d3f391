"""ReproMPI's output, of both current versions and in all its forms, and its rows."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.dataset.importers.protocol import ParsedOutput, TimeKind
from colltune.dataset.importers.reprompi import ReproMpiOutput, parse, parse_output, parse_runs
from colltune.domain import Collective, RunStatus
from colltune.errors import DataError
from tests.dataset.importers.samples import REPROMPI
from tests.refusals import refused

SHARED = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[4] / "shared")) / "data"
recorded = pytest.mark.skipif(
    not (SHARED / "reprompi").is_dir(), reason=f"no recorded ReproMPI output in {SHARED}"
)
VERSIONS = ("dev-master-2022", "reprompi-main-2025")
BCAST, ALLREDUCE = Collective.BCAST, Collective.ALLREDUCE

RAW = "test nrep count runtime_sec"
WINDOW = "test nrep count errorcode runtime_sec"
VERBOSE = "process test nrep count loc_tstart_sec loc_tend_sec"
SUMMARY = "test count total_nrep valid_nrep mean_sec median_sec min_sec max_sec"
END = "# Benchmark started at Fri Nov 20 18:31:48 2026\n# Execution time: 0s\n"


def output(
    columns: str,
    *rows: str,
    calls: str = "MPI_Bcast",
    sizes: str = "8",
    end: str = END,
    **facts: str,
) -> str:
    """Return what mpibenchmark prints: its header, a table padded as it pads, and its end."""
    known = {"datatype_size_bytes": "1", "nprocs": "2", "clocksync": "HCA3O"}
    known |= {"procsync": "MPI_Barrier", "runtime_type": "local"} | facts
    lines = ["#Command-Line Arguments: mpibenchmark --nrep=3", "#MPI calls:"]
    lines += [f"#\t{call}" for call in calls.split(",")] + ["#Message sizes:"]
    lines += [f"#\t{size}" for size in sizes.split(",")]
    lines += [f"#@{name}={value}" for name, value in known.items()]
    lines += ["".join(f"{word:>14} " for word in row.split()) for row in (columns, *rows)]
    return "\n".join(lines) + "\n" + end


def test_raw_times_are_kept_in_order_and_counts_become_bytes() -> None:
    """Raw repetitions are kept as they came; 256 elements of 4 bytes are 1024 bytes."""
    rows = ("MPI_Bcast 0 256 0.0000300000", "MPI_Bcast 1 256 0.0000100000")
    read = parse_output(output(RAW, *rows, sizes="1024", datatype_size_bytes="4"), "f")
    (cell,) = read.rows.values()
    assert (cell.collective, cell.msize_bytes, cell.times_s) == (BCAST, 1024, [3e-5, 1e-5])
    assert (cell.n_valid, cell.n_total, cell.summary) == (2, 2, None)
    assert (read.complete, read.nprocs, read.missing) == (True, 2, ())
    assert (read.facts["clocksync"], read.facts["procsync"]) == ("HCA3O", "MPI_Barrier")


def test_sizes_that_were_compiled_to_be_bytes_are_bytes() -> None:
    """The column msize_bytes is taken as it is, whatever the datatype."""
    text = output(
        "test nrep msize_bytes runtime_sec", "MPI_Bcast 0 64 1e-5", datatype_size_bytes="8"
    )
    assert list(parse_output(text, "f").rows) == [(BCAST, 64)]


def test_window_errors_are_not_valid_repetitions() -> None:
    """A repetition with an error code counts as done, but its time is left out."""
    rows = ("MPI_Bcast 0 8 0 1e-5", "MPI_Bcast 1 8 3 2e-3", "MPI_Bcast 2 8 1 2e-5")
    cell = parse_output(output(WINDOW, *rows, procsync="window"), "f").rows[BCAST, 8]
    assert (cell.times_s, cell.n_valid, cell.n_total) == ([1e-5], 1, 3)


def test_verbose_times_are_the_maximum_over_ranks() -> None:
    """Each repetition's local time is that of the slowest rank."""
    first = ("0 MPI_Bcast 0 8 1.0 1.5", "0 MPI_Bcast 1 8 2.0 2.25")
    second = ("1 MPI_Bcast 0 8 5.0 5.25", "1 MPI_Bcast 1 8 6.0 6.5")
    assert parse_output(output(VERBOSE, *first, *second), "f").rows[BCAST, 8].times_s == [0.5, 0.5]


def test_verbose_global_times_are_last_end_minus_first_start() -> None:
    """With global run-times the synchronised stamps of all ranks count."""
    columns = f"{VERBOSE} gl_tstart_sec gl_tend_sec"
    rows = ("0 MPI_Bcast 0 8 1 2 10.0 10.5", "1 MPI_Bcast 0 8 1 2 10.25 11.0")
    text = output(columns, *rows, runtime_type="global")
    assert parse_output(text, "f").rows[BCAST, 8].times_s == [1.0]


def test_verbose_stamps_beyond_the_first_chunk_are_not_global() -> None:
    """ReproMPI prints local stamps as global ones from repetition 3000 on: they are not valid."""
    columns = f"{VERBOSE} gl_tstart_sec gl_tend_sec"
    rows = [f"{p} MPI_Bcast {r} 8 1 2 1 2" for p in (0, 1) for r in (0, 3000)]
    cell = parse_output(output(columns, *rows, runtime_type="global"), "f").rows[BCAST, 8]
    assert (cell.n_valid, cell.n_total) == (1, 2)
    cell = parse_output(output(columns, *rows, runtime_type="local"), "f").rows[BCAST, 8]
    assert (cell.n_valid, cell.n_total) == (2, 2)


def test_verbose_repetitions_that_a_rank_did_not_tell_of_are_left_out() -> None:
    """Cut off before all ranks' rows are there, a repetition has no maximum over ranks."""
    rows = ("0 MPI_Bcast 0 8 1.0 1.5", "0 MPI_Bcast 1 8 2.0 2.5", "1 MPI_Bcast 0 8 5.0 5.25")
    read = parse_output(output(VERBOSE, *rows, end=""), "f")
    assert read.rows[BCAST, 8].times_s == [0.5]
    assert not read.complete
    assert "some processes" in read.remarks[0]


def test_a_job_that_is_repeated_adds_to_its_cell() -> None:
    """The same call and size twice in a run (an input file may say so) is one cell."""
    visits = ("MPI_Bcast 0 8 1e-5", "MPI_Bcast 1 8 2e-5", "MPI_Bcast 0 8 3e-5")
    cell = parse_output(output(RAW, *visits), "f").rows[BCAST, 8]
    assert (cell.times_s, cell.visits) == ([1e-5, 2e-5, 3e-5], [0, 2])
    job = ("0 MPI_Bcast 0 8 1.0 1.5", "1 MPI_Bcast 0 8 1.0 1.25")
    assert parse_output(output(VERBOSE, *job, *job), "f").rows[BCAST, 8].times_s == [0.5, 0.5]


def test_summary_statistics_are_taken_and_absent_ones_are_nan() -> None:
    """The median is the time; what was not asked for is NaN, and so is the 90th percentile."""
    text = output(SUMMARY, "MPI_Bcast 8 20 18 4e-6 3e-6 1e-6 9e-6")
    cell = parse_output(text, "f").rows[BCAST, 8]
    assert cell.summary is not None
    assert (cell.n_valid, cell.n_total, cell.times_s) == (18, 20, [])
    found = cell.summary
    assert (found.n_reps, found.time_s, found.time_mean_s) == (18, 3e-6, 4e-6)
    assert (found.time_min_s, found.time_max_s) == (1e-6, 9e-6)
    assert math.isnan(found.time_p90_s)
    mean = output("test count total_nrep valid_nrep mean_sec", "MPI_Bcast 8 20 20 4e-6")
    only = parse_output(mean, "f").rows[BCAST, 8].summary
    assert only is not None
    assert (only.time_s, only.time_mean_s) == (4e-6, 4e-6)


def test_no_valid_repetition_is_missing_and_never_zero() -> None:
    """valid_nrep 0 has no time; a requested cell without rows is listed as missing."""
    cell = parse_output(output(SUMMARY, "MPI_Bcast 8 20 0 0 0 0 0"), "f").rows[BCAST, 8]
    assert (cell.summary, cell.n_valid, cell.n_total) == (None, 0, 20)
    none = parse_output(output(RAW, calls="MPI_Bcast,MPI_Allreduce", sizes="8,16"), "f")
    assert none.rows == {}
    assert none.missing == ((BCAST, 8), (ALLREDUCE, 8), (BCAST, 16), (ALLREDUCE, 16))


def test_times_of_zero_or_below_are_not_valid() -> None:
    """A clock step that gives a time of zero or less is no measurement."""
    rows = ("MPI_Bcast 0 8 0.0000000000", "MPI_Bcast 1 8 -0.0000010000", "MPI_Bcast 2 8 0.5")
    cell = parse_output(output(RAW, *rows), "f").rows[BCAST, 8]
    assert (cell.times_s, cell.n_valid, cell.n_total) == ([0.5], 1, 3)


def test_sizes_are_ours() -> None:
    """Reduce_scatter's block becomes the whole buffer; a barrier has no size; blocks stay."""
    calls = ("MPI_Reduce_scatter", "MPI_Reduce_scatter_block", "MPI_Allgather", "MPI_Barrier")
    text = output(RAW, *(f"{call} 0 8 1e-5" for call in calls), calls=",".join(calls))
    read = parse_output(text, "f")
    assert {c.value: m for c, m in read.rows} == {
        "reduce_scatter": 16,
        "reduce_scatter_block": 8,
        "allgather": 8,
        "barrier": 0,
    }
    assert read.missing == ()


def test_calls_that_are_no_collectives_are_left_out_with_a_remark() -> None:
    """Ping-pongs and the empty call are no collectives."""
    rows = ("Empty 0 8 1e-7", "Send_Recv 0 8 1e-6", "MPI_Bcast 0 8 1e-5")
    read = parse_output(output(RAW, *rows), "f")
    assert list(read.rows) == [(BCAST, 8)]
    assert [remark.split()[0] for remark in read.remarks] == ["Empty", "Send_Recv"]


def test_aborted_runs_keep_what_is_there() -> None:
    """Without the line of the execution time a run is not complete, and a cut row is left out."""
    rows = ("MPI_Bcast 0 8 0.0000100000", "MPI_Bcast 1 8 0.0000200000")
    text = output(RAW, *rows, end="").rstrip()[:-5]
    read = parse_output(text, "f")
    assert not read.complete
    assert read.rows[BCAST, 8].times_s == [1e-5]
    assert "incomplete" in read.remarks[0]
    assert parse_output("#Command-line arguments: mpibenchmark --summary=var\n", "f").rows == {}


def test_other_programs_lines_and_the_programs_errors() -> None:
    """What mpirun says between the rows is skipped; ReproMPI's own errors are kept."""
    text = output(RAW, "MPI_Bcast 0 8 1e-5", end="MPI_ABORT was invoked on rank 0\n" + END)
    text = "mpirun: warning\n" + text + "ERROR: Message size 3 is not a multiple\n"
    read = parse_output(text, "f")
    assert read.rows[BCAST, 8].n_total == 1
    assert read.errors == ("ERROR: Message size 3 is not a multiple",)


def test_windows_line_ends_are_read() -> None:
    """Carriage returns change nothing."""
    text = output(RAW, "MPI_Bcast 0 8 1e-5")
    assert parse_output(text.replace("\n", "\r\n"), "f") == parse_output(text, "f")


def test_runs_after_each_other_are_told_apart() -> None:
    """A file of several runs gives one output each; `parse` takes only one."""
    first = output(RAW, "MPI_Bcast 0 8 1e-5")
    second = output(RAW, "MPI_Bcast 0 8 2e-5", nprocs="4")
    runs = parse_runs((first + second).splitlines(keepends=True), "f")
    assert [(run.nprocs, run.rows[BCAST, 8].times_s) for run in runs] == [
        (2, [1e-5]),
        (4, [2e-5]),
    ]
    with refused("several-runs", DataError, runs="2 runs"):
        parse_output(first + second, "f")


def test_a_run_that_was_aborted_in_its_header_does_not_disturb_the_next() -> None:
    """A list of sizes that was incomplete belongs to its own run."""
    cut = "#Command-Line Arguments: mpibenchmark\n#MPI calls:\n#\tMPI_Bcast\n#Message sizes:\n"
    text = f"{cut}#Command-Line Arguments: mpibenchmark\n#\t8\n" + output(RAW, "MPI_Bcast 0 8 1e-5")
    runs = parse_runs(text.splitlines(keepends=True), "f")
    assert [(run.complete, len(run.rows)) for run in runs] == [(False, 0), (False, 0), (True, 1)]


def test_the_summary_beside_an_output_file_has_no_header() -> None:
    """With --output-file the table follows the command line, which tells the datatype."""
    command = "#Command-Line Arguments: mpibenchmark --datatype=MPI_INT --output-file=x --summary\n"
    read = parse_output(f"{command}{SUMMARY}\nMPI_Bcast 2 5 5 1e-5 1e-5 1e-5 1e-5\n", "f")
    assert list(read.rows) == [(BCAST, 8)]
    assert read.nprocs is None


def test_malformed_rows_name_their_line(subtests: pytest.Subtests) -> None:
    """A row that cannot be read is refused with file and line."""
    for row, message in (
        ("MPI_Bcast 0 8 abc", "malformed-row"),
        ("MPI_Bcast 0 8", "malformed-row"),
        ("MPI_Bcast 0 8 1e-5 7", "malformed-row"),
        ("MPI_Bcast 0 -8 1e-5", "malformed-row"),
        ("MPI_Bcast 0 8.5 1e-5", "malformed-row"),
        ("MPI_Bcast", "malformed-row"),
        ("MPI_Bcast 0 999999999999999999 1e-5", "impossible-size"),
        ("MPI_Reduce_scatter 0 8 1e-5", "nprocs-missing"),
    ):
        with subtests.test(row=row, message=message):
            text = output(RAW, row, nprocs="?", datatype_size_bytes="64")
            with refused(message, DataError) as caught:
                parse_output(text, "run.txt")
            assert "run.txt, line 12: " in str(caught.value)


def test_tables_and_sizes_that_cannot_be_understood_are_refused() -> None:
    """Unknown columns, elements of unknown size, and more valid repetitions than there are."""
    with refused("no-such-table", DataError):
        parse_output(output("test count speed"), "f")
    with refused("element-size-missing", DataError):
        parse_output(f"#@nprocs=2\n{RAW}\nMPI_Bcast 0 8 1e-5\n", "f")
    with refused("too-many-valid", DataError):
        parse_output(output(SUMMARY, "MPI_Bcast 8 5 6 1 1 1 1"), "f")
    with refused("not-output", DataError):
        parse_output("nothing\n", "f")


WORDS = [*VERBOSE.split(), *SUMMARY.split(), "errorcode", "runtime_sec", "MPI_Bcast", "MPI_Foo"]
WORDS += ["MPI_Reduce_scatter", "Empty", "0", "1", "8", "1e-5", "nan", "inf", "9" * 19, "ERROR"]
WORDS += ["#@nprocs=2", "#@datatype_size_bytes=4", "#MPI calls:", "#Message sizes:", "#\t8"]
LINES = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=8).map(" ".join)


@given(st.lists(LINES, max_size=25), st.booleans())
def test_whatever_is_read_gives_data_or_a_data_error(lines: list[str], framed: bool) -> None:
    """No text makes the parser fail in any other way, and every time it gives is positive."""
    text = output(RAW, *lines) if framed else "\n".join(lines)
    try:
        runs = parse_runs(text.splitlines(keepends=True), "f")
    except DataError:
        return
    for run in runs:
        assert all(t > 0 for cell in run.rows.values() for t in cell.times_s)


@recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_raw_output(version: str) -> None:
    """Real raw output of both versions: all cells, three repetitions each."""
    read = _recorded(version, "raw_barrier")
    assert sorted((c.value, m) for c, m in read.rows) == [
        ("allreduce", 1),
        ("allreduce", 1024),
        ("bcast", 1),
        ("bcast", 1024),
    ]
    assert {len(cell.times_s) for cell in read.rows.values()} == {3}
    assert (read.nprocs, read.complete, read.missing) == (4, True, ())
    assert read.facts["clocksync"] == {"dev-master-2022": "None"}.get(version, "HCA3O")


@recorded
@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_special_output(version: str) -> None:
    """Real window, roundtime, datatype, empty-call and input-file output of both versions."""
    assert _recorded(version, "window").rows[BCAST, 1024].n_valid == 0
    assert _recorded(version, "window_summary").rows[BCAST, 1024].n_total == 20
    assert {c.n_valid for c in _recorded(version, "roundtime").rows.values()} == {0}
    assert _recorded(version, "roundtime_raw").missing == ((BCAST, 1024),)
    half = _recorded(version, "roundtime_barriercount").rows
    assert [half[BCAST, size].n_valid for size in (16, 1024)] == [0, 500]
    assert set(_recorded(version, "datatype_int").rows) == {(ALLREDUCE, 4), (ALLREDUCE, 1024)}
    assert list(_recorded(version, "empty").rows) == [(Collective.BARRIER, 0)]
    assert len(_recorded(version, "inputfile").rows[ALLREDUCE, 16].times_s) == 3
    default = _recorded(version, "summary_default").rows[BCAST, 16].summary
    assert default is not None
    assert default.time_min_s <= default.time_s <= default.time_max_s


def _recorded(version: str, name: str) -> ReproMpiOutput:
    return parse_output((SHARED / "reprompi" / version / f"{name}.txt").read_text(), name)


HEADER = REPROMPI.split("          test")[0]


def _parsed(text: str) -> ParsedOutput:
    return parse(text.splitlines(keepends=True), "f")


def _run(columns: str, *rows: str, header: str = HEADER, end: str = END) -> str:
    return header + "\n".join([columns, *rows]) + "\n" + end


def test_raw_times_are_kept_and_summarised() -> None:
    """A row holds the raw repetitions, their median, where they stand, and what they mean."""
    row = _parsed(REPROMPI).rows[0]
    assert row.times_s == (9e-6, 3e-6, 4e-6)
    assert row.summary is not None
    assert row.summary.time_s == 4e-6
    assert (row.nprocs, row.line, row.conditions["datatype"]) == (8, 16, "MPI_BYTE")
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
    assert "1 requested cell missing" in read.remarks[0]
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
    with refused("sizes-mixed", DataError):
        _parsed(elements + sizes)


def test_all_runs_facts_are_kept() -> None:
    """The headers of several runs are provenance, each value once."""
    second = REPROMPI.replace("clocksync=HCA3O", "clocksync=None")
    facts = _parsed(REPROMPI + second).facts
    assert (facts["clocksync"], facts["procsync"]) == ("HCA3O; None", "MPI_Barrier")


def test_round_trips_of_the_file_are_known() -> None:
    """The shortest ping-pong of a small message counts; its file's times are held against it."""
    rows = ("Send_Recv 0 8 5e-3", "Send_Recv 1 8 4e-3", "Send_Recv 0 100000 1e-3")
    read = parse_output(output(RAW, *rows, "MPI_Bcast 0 8 1e-5"), "f")
    assert read.round_trip_s == 4e-3
