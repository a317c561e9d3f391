"""What mpibenchmark is asked, and how its rows are matched with it."""

from __future__ import annotations

from colltune.bench.backends import mpibenchmark
from colltune.bench.backends.mpibenchmark import BYTES, INTEGERS, BenchmarkJob, BenchmarkMode
from colltune.bench.schedule import Cell
from colltune.dataset.importers.reprompi import ReproMpiCell, ReproMpiOutput
from colltune.domain import Collective, Configuration, Instance, Shape

SHAPE = Shape(1, 4)


def _instance(collective: Collective, msize_bytes: int, shape: Shape = SHAPE) -> Instance:
    return Instance(collective, shape, msize_bytes)


def _cell(collective: Collective, msize_bytes: int) -> Cell:
    return Cell(Configuration.default("openmpi", collective), _instance(collective, msize_bytes))


def _output(visits: dict[Cell, int]) -> ReproMpiOutput:
    rows = {}
    for cell, n in visits.items():
        key = mpibenchmark.key_of(cell)
        rows[key] = ReproMpiCell(*key, n, n, [1e-6] * n, None, list(range(n)))
    return ReproMpiOutput({}, 4, complete=False, rows=rows)


def _options(mode: BenchmarkMode) -> list[str]:
    words = mpibenchmark.options(mode, INTEGERS, 0.05)
    asked = ("--datatype=MPI_INT", "--operation=MPI_SUM")
    assert (words[:2], words[-1]) == (asked, "--runtime-type=local")
    return list(words[2:-1])


def test_options_of_each_mode() -> None:
    """Timed jobs end by their time, others by their count alone; only clocks are synchronised."""
    timed = ["--proc-sync=roundtime", "--rt-bench-time-ms=50.000"]
    # a barrier starts a repetition whatever the size
    assert _options(BenchmarkMode.TIMED) == [*timed, "--clock-sync=None", "--rt-barrier-count=0"]
    clocks = ["--clock-sync=SKaMPI", "--params=alg:skampi@skampi_offset@5@20"]
    assert _options(BenchmarkMode.CLOCKS) == [*timed, *clocks]
    assert _options(BenchmarkMode.COUNTED) == ["--proc-sync=dissem_barrier", "--clock-sync=None"]
    # releases before 2025 are told how to synchronise; later ones do it by themselves
    assert BenchmarkMode.TIMED.environment == {"MPITS_PARAMS": "--clock-sync=None"}
    assert BenchmarkMode.CLOCKS.environment == {}


def test_the_job_file_speaks_of_mpibenchmarks_sizes() -> None:
    """reduce_scatter is asked for by its block per process, a barrier by some size above 0."""
    cells = (
        _cell(Collective.BCAST, 5),
        _cell(Collective.REDUCE_SCATTER, 4096),
        _cell(Collective.REDUCE_SCATTER_BLOCK, 4096),
        _cell(Collective.BARRIER, 0),
    )
    assert mpibenchmark.job_file(BenchmarkJob(cell, 7) for cell in cells) == (
        "MPI_Bcast 5 7\n"
        "MPI_Reduce_scatter 1024 7\n"
        "MPI_Reduce_scatter_block 4096 7\n"
        "MPI_Barrier 1 7\n"
    )


def test_elements_are_those_of_the_native_benchmark() -> None:
    """Reductions of whole integers add integers; everything else moves bytes."""
    wanted = {
        (Collective.ALLREDUCE, 8): INTEGERS,
        (Collective.ALLREDUCE, 7): BYTES,
        (Collective.SCAN, 4): INTEGERS,
        (Collective.BCAST, 8): BYTES,
        (Collective.BARRIER, 0): BYTES,
    }
    assert {at: mpibenchmark.elements_of(_instance(*at)) for at in wanted} == wanted


def test_what_mpibenchmark_cannot_measure() -> None:
    """Each refusal says why."""
    reasons = {
        (Collective.ALLTOALLV, 8): "no MPI_Alltoallv",
        (Collective.ALLGATHERV, 8): "no MPI_Allgatherv",
        (Collective.BCAST, 0): "cannot measure empty messages",
        (Collective.REDUCE_SCATTER, 8): "equal blocks",
        (Collective.REDUCE_SCATTER, 6): "equal blocks",
        (Collective.ALLTOALL, 1 << 29): "more elements",
        (Collective.BARRIER, 8): "no message",
    }
    for at, reason in reasons.items():
        assert reason in mpibenchmark.why_not(_instance(*at)), at


def test_what_mpibenchmark_can_measure() -> None:
    """Every collective but the two vector ones, of sizes above 0."""
    able = {c for c in Collective if not mpibenchmark.why_not(_instance(c, 64 * (c != "barrier")))}
    assert able == set(Collective) - {Collective.ALLTOALLV, Collective.ALLGATHERV}
    assert not mpibenchmark.why_not(_instance(Collective.BCAST, (1 << 31) - 2))


def test_the_first_repetition_of_a_visit_is_left_out() -> None:
    """It is cold; a visit's only repetition is kept all the same."""
    times = (9.0, 1.0, 2.0, 8.0, 9.0, 3.0)
    cell = _cell(Collective.BCAST, 8)
    rows = {
        (times, (0, 3, 4)): (1.0, 2.0, 8.0, 3.0),
        ((), (0, 0)): (),
    }
    for (row_times, visits), warm in rows.items():
        row = ReproMpiCell(Collective.BCAST, 8, 6, 6, list(row_times), None, list(visits))
        output = ReproMpiOutput({}, 4, complete=True, rows={mpibenchmark.key_of(cell): row})
        assert mpibenchmark.warm_times_s(output, cell) == warm, visits


def test_the_job_in_flight_follows_the_last_one_that_was_written() -> None:
    """Visits are counted, so that a cell that is visited again is not taken for its first visit."""
    a, b = _cell(Collective.BCAST, 8), _cell(Collective.BCAST, 16)
    jobs = [BenchmarkJob(a, 1), BenchmarkJob(b, 1), BenchmarkJob(a, 1), BenchmarkJob(b, 1)]
    assert mpibenchmark.in_flight(jobs, None) == a
    assert mpibenchmark.in_flight(jobs, _output({a: 1})) == b
    assert mpibenchmark.in_flight(jobs, _output({a: 1, b: 1})) == a
    assert mpibenchmark.in_flight(jobs, _output({a: 2, b: 1})) == b
    assert mpibenchmark.in_flight(jobs, _output({a: 2, b: 2})) is None


def test_contradictions_are_what_was_done_otherwise() -> None:
    """An option that was ignored shows in the header; a header that was lost does not."""
    facts = {"nprocs": "4", "datatype": "MPI_BYTE", "procsync": "roundtime"}
    output = ReproMpiOutput(facts, 4, complete=True, rows={})
    bcast, allreduce = (
        BenchmarkJob(_cell(c, 8), 1) for c in (Collective.BCAST, Collective.ALLREDUCE)
    )
    assert mpibenchmark.contradictions(output, BenchmarkMode.TIMED, [bcast]) == ""
    assert mpibenchmark.contradictions(output, BenchmarkMode.COUNTED, [allreduce]) == (
        "datatype is MPI_BYTE instead of MPI_INT, procsync is roundtime instead of dissem_barrier"
    )
