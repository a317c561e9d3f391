"""The OSU Micro-Benchmarks' tables."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from colltune.dataset import read, write_csv
from colltune.dataset.frame import RANK_COLUMNS
from colltune.dataset.importers.osu import parse
from colltune.dataset.importers.protocol import ParsedOutput, TimeKind
from colltune.dataset.parquet import append_dataset
from colltune.domain import Collective, RunStatus
from colltune.errors import DataError
from tests.dataset.importers.samples import OSU, SAMPLES, loaded, request
from tests.refusals import refused

SHARED = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[4] / "shared")) / "data"
recorded = pytest.mark.skipif(
    not (SHARED / "osu").is_dir(), reason=f"no recorded OSU output in {SHARED}"
)


def _parsed(text: str) -> ParsedOutput:
    return parse(text.splitlines(keepends=True), "f")


def _table(title: str, header: str, *rows: str, datatype: str = "") -> str:
    lines = [f"# OSU {title} Latency Test v7.4", f"# {header}", *rows]
    if datatype:
        lines.insert(1, f"# Datatype: {datatype}.")
    return "\n".join(lines) + "\n"


SIZED = "Size       Avg Latency(us)"


def test_full_output_gives_the_maximum_over_ranks() -> None:
    """With -f the time is the slowest rank's mean, a mean of so many iterations, in seconds."""
    first = _parsed(OSU).rows[0]
    assert first.summary is not None
    assert (first.summary.time_s, first.summary.time_mean_s) == pytest.approx((3e-6, 3e-6))
    assert first.summary.n_reps == 1000
    assert math.isnan(first.summary.time_min_s)
    assert first.kind is TimeKind.MAXIMUM_OF_MEANS


def test_the_mean_and_the_least_over_ranks_are_kept(tmp_path: Path) -> None:
    """Beside the maximum, which is the time, through Parquet and CSV; older files have none."""
    dataset = loaded("osu", OSU, tmp_path).dataset
    append_dataset(tmp_path / "d", dataset, {})
    write_csv(dataset, tmp_path / "d.csv")
    for path in (tmp_path / "d", tmp_path / "d.csv"):
        frame = read([path]).frame
        assert frame["time_rank_mean_s"].tolist() == pytest.approx([2e-6, 4.5e-6])
        assert frame["time_rank_min_s"].tolist() == pytest.approx([1e-6, 4e-6])
        assert frame["time_s"].tolist() == pytest.approx([3e-6, 5e-6])
    file = next((tmp_path / "d").glob("*.parquet"))
    pq.write_table(pq.read_table(file).drop(RANK_COLUMNS), file)
    assert read([file]).frame[RANK_COLUMNS].isna().all(axis=None)


def test_omb_py_prints_means(tmp_path: Path) -> None:
    """Its titles are shorter, and where its buffers lie is not told."""
    text = "# OMB Python MPI Bcast Test\n# Size (B)      Latency (us)\n8             2.00\n"
    row = _parsed(text).rows[0]
    assert (row.collective, row.msize_bytes, row.kind) == (Collective.BCAST, 8, TimeKind.MEAN)
    assert row.summary is not None
    assert row.summary.time_s == pytest.approx(2e-6)
    assert not row.conditions["memory"]
    found = loaded("osu", text, tmp_path)
    assert len(found.dataset) == 1
    assert _parsed(text.replace("Bcast", "Latency")).rows == ()


def test_short_output_gives_the_mean_and_says_so() -> None:
    """Without -f only the mean over ranks is there; it is the time but no mean of maxima."""
    (row,) = _parsed(_table("MPI Broadcast", SIZED, "8   2.50")).rows
    assert row.summary is not None
    assert row.summary.time_s == pytest.approx(2.5e-6)
    assert math.isnan(row.summary.time_mean_s)
    assert row.kind is TimeKind.MEAN


def test_percentiles_are_preferred_to_the_mean_only() -> None:
    """P50 of -z stands before the average, and behind the maximum of -f."""
    tail = "P50 Tail Lat(us)  P90 Tail Lat(us)"
    (row,) = _parsed(_table("MPI Broadcast", f"{SIZED}  {tail}", "8 9.00 2.00 3.00")).rows
    assert row.summary is not None
    assert (row.summary.time_s, row.kind) == (2e-6, TimeKind.MEDIAN_OF_RANK_MEANS)
    full = f"{SIZED}  Min Latency(us)  Max Latency(us)  Iterations  {tail}"
    (row,) = _parsed(_table("MPI Broadcast", full, "8 9 1 4 50 2 3")).rows
    assert row.summary is not None
    assert (row.summary.time_s, row.summary.n_reps) == (4e-6, 50)


def test_failed_validation_is_a_wrong_result() -> None:
    """With -c a size that fails has the status wrong_result and no time."""
    rows = ("8 1.00 Pass", "16 1.00 Fail")
    good, bad = _parsed(_table("MPI Allreduce", f"{SIZED}  Validation", *rows)).rows
    assert (good.status, bad.status, bad.summary) == (RunStatus.OK, RunStatus.WRONG_RESULT, None)


def test_a_barrier_has_no_size() -> None:
    """The barrier's table has no size column; its size is 0."""
    (row,) = _parsed(_table("MPI Barrier", "Avg Latency(us)", "   1.75")).rows
    assert (row.collective, row.msize_bytes) == (Collective.BARRIER, 0)


def test_titles_name_the_collective(subtests: pytest.Subtests) -> None:
    """The benchmark's title, with device or without MPI as in old releases, names it."""
    for title, collective in (
        ("MPI All-to-All Personalized Exchange", "alltoall"),
        ("MPI All-to-Allv Personalized Exchange", "alltoallv"),
        ("MPI Allgather", "allgather"),
        ("MPI-CUDA Reduce_scatter", "reduce_scatter"),
        ("Reduce", "reduce"),
    ):
        with subtests.test(title=title, collective=collective):
            (row,) = _parsed(_table(title, SIZED, "8 1.00")).rows
            assert row.collective.value == collective


def test_other_benchmarks_are_left_out_with_a_remark(subtests: pytest.Subtests) -> None:
    """Non-blocking, persistent, point-to-point and unsupported ones give no rows."""
    for title in ("MPI Non-blocking Allgather", "MPI Allgather Persistent", "MPI", "MPI Gatherv"):
        with subtests.test(title=title):
            read = _parsed(_table(title, SIZED, "8 1.00") + _table("MPI Reduce", SIZED, "8 1.00"))
            assert [row.collective for row in read.rows] == [Collective.REDUCE]
            assert len(read.remarks) == 1


def test_sizes_are_ours(tmp_path: Path) -> None:
    """Reduce_scatter_block's total becomes the block per process, that of others stays."""
    header, text = SIZED, ""
    for title in ("MPI Reduce_scatter", "MPI Reduce_scatter_block", "MPI Allgather"):
        text += _table(title, header, "16 1.00", "1024 2.00", datatype="MPI_FLOAT")
    read = loaded("osu", text, tmp_path)
    frame = read.dataset.frame
    sizes = {k: sorted(g["msize_bytes"]) for k, g in frame.groupby("collective")}
    assert sizes == {
        "reduce_scatter": [16, 1024],
        "reduce_scatter_block": [128],
        "allgather": [16, 1024],
    }
    assert "less than one element per process" in read.remarks[0]


def test_other_programs_lines_are_skipped() -> None:
    """What mpirun prints between the rows is no row, even where it begins with a number."""
    noise = "1 more process has sent help message help-mpi.txt\n-----\n[n0:1] error\n"
    assert len(_parsed(OSU + noise).rows) == 2
    more = _table("MPI Reduce", SIZED, "8 1.00") + "\nreading atoms ...\n  304 atoms\n16 2.00\n"
    found = _parsed(more + OSU)
    assert [row.msize_bytes for row in found.rows] == [8, 8, 1024]
    assert len(found.remarks) == 1


def test_malformed_rows_name_their_line(subtests: pytest.Subtests) -> None:
    """A row that does not fit its header is refused with file and line."""
    for row in ("8", "8 1 2 3 4 5", "8.5 1 2 3 4", "-8 1 2 3 4", "8 1 2 3 4.5"):
        with subtests.test(row=row), refused("malformed-row", DataError, line=9):
            _parsed(f"{OSU}{row}\n")


def test_tables_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    """Derived datatypes, two datatypes of one collective, and -f beside none are refused."""
    with refused("derived-types", DataError):
        _parsed(_table("MPI Reduce", f"{SIZED}  Transmit Size"))
    types = [_table("MPI Reduce", SIZED, "8 1.00", datatype=t) for t in ("MPI_INT", "MPI_FLOAT")]
    with refused("not-comparable", DataError, one="MPI_INT"):
        loaded("osu", "".join(types), tmp_path)
    with refused("kinds-of-times", DataError):
        loaded("osu", OSU + _table("MPI Reduce", SIZED, "8 1.00"), tmp_path)


def test_nodes_and_ppn_must_be_told(tmp_path: Path) -> None:
    """OSU prints no number of processes."""
    settings = {k: v for k, v in SAMPLES["osu"][1].items() if k != "ppn"}
    with refused("layout-not-said", DataError):
        loaded("osu", OSU, tmp_path, request(settings))


@recorded
def test_recorded_output() -> None:
    """Real output of 5.3 and 7.4 with -f, -z and -c: all sizes, the statistics asked for."""
    read = {
        file.stem: parse(file.read_text().splitlines(keepends=True), file.name)
        for file in (SHARED / "osu").glob("*.txt")
    }
    assert {name: len(reading.rows) for name, reading in read.items()} == {
        "allreduce_f_c": 3,
        "bcast": 11,
        "bcast_f": 11,
        "bcast_fz": 7,
        "bcast_z": 7,
        "v5_bcast-f": 7,
        "v5_bcast": 7,
    }
    assert read["allreduce_f_c"].rows[2].status is RunStatus.WRONG_RESULT
    assert read["bcast_z"].rows[0].kind is TimeKind.MEDIAN_OF_RANK_MEANS
    assert read["bcast"].facts["datatype"] == "MPI_CHAR"
