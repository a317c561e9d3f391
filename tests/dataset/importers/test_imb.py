"""The Intel MPI Benchmarks' blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from colltune.dataset.importers.imb import parse
from colltune.dataset.importers.protocol import ParsedOutput
from colltune.domain import Collective, RunStatus
from colltune.errors import DataError
from tests.dataset.importers.samples import CONTEXT, IMB, loaded, request
from tests.refusals import refused

SHARED = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[4] / "shared")) / "data"
recorded = pytest.mark.skipif(
    not (SHARED / "imb").is_dir(), reason=f"no recorded IMB output in {SHARED}"
)
COLUMNS = "#bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"


def _parsed(text: str) -> ParsedOutput:
    return parse(text.splitlines(keepends=True), "f")


def _block(benchmark: str, *rows: str, nprocs: int = 8, columns: str = COLUMNS) -> str:
    lines = [f"# Benchmarking {benchmark}", f"# #processes = {nprocs}", "#-----", f"   {columns}"]
    return "\n".join([*lines, *rows]) + "\n\n"


def _release(version: str) -> str:
    return f"#    Intel(R) MPI Benchmarks {version}, MPI-1 part\n"


def test_the_time_is_the_maximum_over_ranks() -> None:
    """t_max, the slowest rank's mean of so many repetitions, is the time, in seconds."""
    read = _parsed(IMB)
    row = read.rows[1]
    assert (row.collective, row.msize_bytes, row.nprocs) == (Collective.BCAST, 8, 8)
    assert row.summary is not None
    assert row.summary.time_s == pytest.approx(3e-6)
    assert row.summary.n_reps == 1000
    over_ranks = row.summary.time_rank_mean_s, row.summary.time_rank_min_s
    assert over_ranks == pytest.approx((2e-6, 1e-6))
    assert read.facts["version"] == "2021.11"
    assert read.facts["Machine"] == "x86_64"
    assert read.remarks == ()


def test_zero_bytes_are_left_out_with_a_remark(tmp_path: Path) -> None:
    """A call with 0 bytes shows no algorithm."""
    read = loaded("imb", IMB, tmp_path)
    assert read.dataset.frame["msize_bytes"].tolist() == [8, 1024]
    assert read.remarks == ("0 bytes: left out, because nothing is communicated",)


def test_reduce_scatter_counts_as_its_release_does(subtests: pytest.Subtests) -> None:
    """Its sizes are the whole buffer up to 2019 and the block per process afterwards."""
    for version, msize_bytes in (
        ("4.1", 64),
        ("2018", 64),
        ("2019", 64),
        ("2019 Update 1", 512),
        ("2021.11", 512),
    ):
        with subtests.test(version=version, msize_bytes=msize_bytes):
            (row,) = _parsed(_release(version) + _block("Reduce_scatter", "64 10 1 2 1.5")).rows
            assert row.msize_bytes == msize_bytes


def test_other_sizes_are_ours_already() -> None:
    """Allgather, alltoall and Reduce_scatter_block count blocks, Allreduce the whole buffer."""
    names = ("Allgather", "Alltoall", "Reduce_scatter_block", "Allreduce")
    read = _parsed(_release("2021.11") + "".join(_block(n, "64 10 1 2 1.5") for n in names))
    assert [row.msize_bytes for row in read.rows] == [64] * 4


def test_reduce_scatter_without_a_release_is_refused() -> None:
    """Nothing tells what its sizes count."""
    with refused("sizes-unclear", DataError, line=5):
        _parsed(_block("Reduce_scatter", "64 10 1 2 1.5"))


def test_a_barrier_has_no_size() -> None:
    """The barrier's block has no bytes; its size is 0."""
    columns = COLUMNS.removeprefix("#bytes ")
    (row,) = _parsed(_block("Barrier", "10 1 2.5 1.5", columns=columns)).rows
    assert row.summary is not None
    assert (row.msize_bytes, row.summary.n_reps) == (0, 10)
    assert row.summary.time_s == pytest.approx(2.5e-6)


def test_blocks_that_are_no_single_collective_are_left_out() -> None:
    """Ping-pongs, several groups at once and non-blocking ones give no rows but remarks."""
    text = _block("PingPong", "8 10 1.5 99", columns="#bytes #repetitions t[usec] Mbytes/sec")
    text += _block("Multi-Bcast", "8 10 1 2 1.5") + _block("Ibcast", "8 10 1 2 1.5")
    read = _parsed(text + _block("Reduce", "8 10 1 2 1.5"))
    assert [row.collective for row in read.rows] == [Collective.REDUCE]
    assert [remark.split()[0] for remark in read.remarks[:3]] == [
        "PingPong",
        "Multi-Bcast",
        "Ibcast",
    ]


def test_what_was_given_up_has_a_status() -> None:
    """A size that ran out of time or memory is kept without a time, a wrong one as wrong."""
    rows = ("8 time-out.; Time limit is over", "16 out-of-mem.; needed X= 1 GB")
    text = _block("Bcast", *rows) + _block(
        "Reduce", "8 10 1 2 1.5 0.00", "16 10 1 2 1.5 1.00", columns=f"{COLUMNS} defects"
    )
    assert [row.status for row in _parsed(text).rows] == [
        RunStatus.TIMEOUT,
        RunStatus.NOT_APPLICABLE,
        RunStatus.OK,
        RunStatus.WRONG_RESULT,
    ]


def test_an_aborted_run_is_kept_and_told() -> None:
    """Without the last line of a run what is there is kept; a cut row is left out."""
    read = _parsed(IMB[: IMB.index("         1024") + 40])
    assert [row.msize_bytes for row in read.rows] == [0, 8]
    assert "incomplete" in read.remarks[0]
    assert "did not finish" in read.remarks[1]


def test_numbers_of_processes_must_fit_what_is_told(tmp_path: Path) -> None:
    """Blocks on other processes than told are left out with their count; if all are, refused."""
    text = IMB + _block("Reduce", "8 10 1 2 1.5", nprocs=2)
    read = loaded("imb", text, tmp_path)
    assert [str(shape) for shape in read.dataset.shapes()] == ["4x2"]
    assert "on 2 processes, which do not fit nodes=4 and ppn=2: left out" in read.remarks
    with refused("contradicts-set", DataError, found="2 processes", told="nodes=4 and ppn=2"):
        loaded("imb", _block("Reduce", "8 10 1 2 1.5", nprocs=2), tmp_path)
    settings = CONTEXT | {"nodes": "2"}
    both = loaded("imb", text, tmp_path, request(settings)).dataset
    assert [str(shape) for shape in both.shapes()] == ["2x1", "2x4"]
    settings = CONTEXT | {"ppn": "8"}
    with refused("uneven-layout", DataError, nprocs="2 processes", layout="ppn=8"):
        loaded("imb", _block("Reduce", "8 1 1 2 1", nprocs=2), tmp_path, request(settings))
    asked = request(CONTEXT | {"ppn": "2"}, where={"nprocs": "8,2"})
    kept = loaded("imb", text + _block("Reduce", "8 1 1 2 1", nprocs=4), tmp_path, asked).dataset
    assert [str(shape) for shape in kept.shapes()] == ["1x2", "4x2"]


def test_runs_on_different_machines_are_refused() -> None:
    """Two runs of which one is of another machine are not joined."""
    other = IMB.replace("x86_64", "aarch64")
    with refused("another-machine", DataError, key="Machine", value="aarch64", before="x86_64"):
        _parsed(IMB + other)


def test_malformed_rows_name_their_line(subtests: pytest.Subtests) -> None:
    """A row that does not fit its header is refused with file and line."""
    for row in (
        "8 10 1 2\n16 10 1 2 3",
        "8 10 1 2 3 4",
        "8.5 10 1 2 3",
        "8 1.5 1 2 3",
        "8 x 1 2 3",
    ):
        with subtests.test(row=row), refused("malformed-row", DataError, line=5):
            _parsed(_block("Bcast", row))


def test_a_block_must_tell_its_processes_and_t_max() -> None:
    """Without the number of processes, or the maximum over ranks, nothing can be imported."""
    with refused("no-processes-line", DataError):
        _parsed(_block("Bcast", "8 10 1 2 1.5").replace("# #processes = 8", "#"))
    with refused("no-t-max", DataError):
        _parsed(_block("Bcast", "8 10 1", columns="#bytes #repetitions t[usec]"))


@recorded
def test_recorded_output() -> None:
    """Real output: blocks for several benchmarks and numbers of processes."""
    read = {
        file.stem: parse(file.read_text().splitlines(keepends=True), file.name)
        for file in (SHARED / "imb").glob("*.txt")
    }
    found = [(r.collective.value, r.nprocs) for r in read["default_np2_4"].rows]
    assert list(dict.fromkeys(found)) == [
        ("bcast", 2),
        ("bcast", 4),
        ("alltoall", 2),
        ("alltoall", 4),
    ]
    assert [r.msize_bytes for r in read["msglen"].rows] == [1, 100, 4096]
    assert read["impi_bcast_allreduce"].facts["MPI_Datatype for reductions"] == "MPI_FLOAT"
    assert not any(reading.remarks for reading in read.values())
