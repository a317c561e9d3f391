"""A real Open MPI runs exactly what a written file says, and programs stay right."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import library, trace
from colltune.mpi.file_format import Written
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.programs import MOST_PROMISED, SAME_TYPES
from colltune.mpi.rules import Call
from tests.integration.real import RealMpi
from tests.mpi.tables import intervals, table

pytestmark = pytest.mark.mpi
OPENMPI = library("openmpi")
CLASSIC = FORMATS["openmpi-classic"]
FOUR = {
    (Collective.BCAST, 4): intervals(
        (0, "bcast.binomial:segsize=0"),
        (1000, "bcast.default"),
        (4096, "bcast.chain:fanout=2,segsize=1024"),
        (32768, "bcast.scatter_allgather_ring"),
    ),
    (Collective.ALLREDUCE, 4): intervals(
        (0, "allreduce.nonoverlapping"),
        (2048, "allreduce.ring"),
        (16384, "allreduce.segmented_ring:segsize=1024"),
    ),
    (Collective.ALLTOALL, 4): intervals(
        (0, "alltoall.modified_bruck"), (100, "alltoall.pairwise"), (3000, "alltoall.default")
    ),
    (Collective.ALLGATHER, 4): intervals(
        (0, "allgather.default"), (64, "allgather.neighbor"), (4000, "allgather.ring")
    ),
    (Collective.REDUCE, 4): intervals(
        (0, "reduce.in-order_binary:segsize=0"), (500, "reduce.pipeline:segsize=256")
    ),
    (Collective.BCAST, 2): intervals((0, "bcast.basic_linear"), (512, "bcast.pipeline")),
    (Collective.ALLTOALL, 2): intervals((0, "alltoall.two_proc")),
}
TABLE = table(Shape(1, 4), FOUR)


def activate(mpi: RealMpi, text: str, folder: Path) -> dict[str, str]:
    """Write a rules file and return the environment that puts it into effect."""
    rules = folder / "rules"
    rules.write_text(text, encoding="utf-8")
    return CLASSIC.activation(mpi.release, {"": str(rules)}, Shape(1, 4))


def thresholds(ranks: int) -> list[str]:
    """Return a step for every size around every threshold of the table's entries for `ranks`."""
    return [
        f"{collective}:{size}:plain:{ranks}"
        for (collective, comm_size), found in FOUR.items()
        if comm_size == ranks
        for first in sorted({i.first_bytes for i in found} - {0} | {8})
        for size in (first - 1, first, first + 1)
    ]


def expected(
    mpi: RealMpi, written: Written, defaults: list[trace.Observation]
) -> list[trace.Observation]:
    """Return what must be seen with a file, where `defaults` is seen without."""
    rules = CLASSIC.parse(written.text, "rules", mpi.release)
    found = []
    for default in defaults:
        call = default[:3]
        chosen = rules.decide(Call(*call)).chosen
        symbols = OPENMPI.at(mpi.release).expected_symbols(chosen) or {default.symbol}
        (symbol,) = symbols
        found.append(trace.Observation(*call, symbol))
    return found


@pytest.mark.parametrize(("nprocs", "ranks"), [(4, 4), (2, 2), (4, 2)])
def test_exactly_the_written_algorithms_run(
    mpi: RealMpi, tmp_path: Path, nprocs: int, ranks: int
) -> None:
    """Around every threshold, on the world and on a sub-communicator, the table is obeyed."""
    written = CLASSIC.write(TABLE, mpi.release, programs=MOST_PROMISED)
    steps = thresholds(ranks)
    without = mpi.observe(nprocs, steps, {})
    seen = mpi.observe(nprocs, steps, activate(mpi, written.text, tmp_path))
    assert len(seen) == len(steps)
    assert seen == expected(mpi, written, without)
    assert seen != without


def test_the_parameter_file_is_a_channel_too(mpi: RealMpi, tmp_path: Path) -> None:
    """`mpirun --tune` with our parameter file puts the same rules into effect."""
    written = CLASSIC.write(TABLE, mpi.release, programs=SAME_TYPES)
    rules, tune = tmp_path / "rules", tmp_path / "tune"
    rules.write_text(written.text)
    tune.write_text(
        OPENMPI.parameter_file(CLASSIC.activation(mpi.release, {"": str(rules)}, Shape(1, 4)))
    )
    seen = mpi.observe(4, ["bcast:8", "bcast:4096"], {}, ["--oversubscribe", "--tune", str(tune)])
    assert [o.symbol for o in seen] == [
        "ompi_coll_base_bcast_intra_binomial",
        "ompi_coll_base_bcast_intra_chain",
    ]


def test_forcing_at_runtime_runs_every_configuration(mpi: RealMpi) -> None:
    """Within one launch, each configuration of each collective runs after setting its variables."""
    steps, wanted = [], []
    collectives = {"allgather", "allreduce", "alltoall", "barrier", "bcast"}
    for collective in map(Collective, sorted(collectives | {"gather", "reduce", "scatter"})):
        portfolio = OPENMPI.at(mpi.release).portfolio(collective, (0, 1024), (2,))
        for c in portfolio.configurations[1:]:
            msize = 0 if collective is Collective.BARRIER else 8192
            if OPENMPI.at(mpi.release).runs(c, 4).why_not(msize):
                continue
            variables = OPENMPI.at(mpi.release).force(c)
            steps += [f"set:{name}={value}" for name, value in variables.items()]
            steps.append(f"{collective}:{msize}")
            wanted.append((collective, OPENMPI.at(mpi.release).expected_symbols(c)))
        restore = OPENMPI.at(mpi.release).force(portfolio.default)
        steps += [f"set:{name}={value}" for name, value in restore.items()]
    seen = mpi.observe(4, steps, OPENMPI.at(mpi.release).base_environment())
    assert [(o.collective, frozenset({o.symbol})) for o in seen] == wanted
    assert len(wanted) > 40


def test_restoring_the_default_restores_it(mpi: RealMpi) -> None:
    """After the default's variables a new communicator decides as if nothing had been set."""
    base = OPENMPI.at(mpi.release).base_environment()
    forced = OPENMPI.at(mpi.release).force(Configuration.parse("openmpi.bcast.pipeline:segsize=64"))
    restored = OPENMPI.at(mpi.release).force(Configuration.default("openmpi", Collective.BCAST))
    sizes = [f"bcast:{size}" for size in (8, 700, 5000, 70000)]
    there_and_back = [f"set:{n}={v}" for n, v in (*forced.items(), *restored.items())]
    assert mpi.observe(4, [*there_and_back, *sizes], base) == mpi.observe(4, sizes, {})


@pytest.mark.parametrize("collective", ["allgatherv", "allreduce", "bcast", "reduce"])
def test_a_whole_launch_runs_one_configuration(mpi: RealMpi, collective: str) -> None:
    """Under the environment of a configuration it runs; the other collectives stay as they are."""
    steps = [f"{collective}:8192", "alltoall:64"]
    _, untouched = mpi.observe(4, steps, {})
    portfolio = OPENMPI.at(mpi.release).portfolio(Collective(collective), (1024,), (2,))
    found = [
        c
        for c in portfolio.configurations[1:]
        if not OPENMPI.at(mpi.release).runs(c, 4).why_not(8192)
    ]
    assert len(found) >= 4
    for c in found:
        seen = mpi.observe(4, steps, OPENMPI.at(mpi.release).forced_environment(c))
        assert frozenset({seen[0].symbol}) == OPENMPI.at(mpi.release).expected_symbols(c)
        assert seen[1] == untouched
    assert OPENMPI.at(mpi.release).forced_environment(portfolio.default) == {}


TRAPS = {
    "gather": ("plain", "inplace", "null"),
    "scatter": ("plain", "inplace", "null"),
    "allgather": ("plain", "inplace"),
    "alltoall": ("plain", "inplace"),
    "allreduce": ("plain", "inplace", "noncommutative"),
    "reduce": ("plain", "inplace", "noncommutative"),
    "allgatherv": ("plain", "inplace", "types"),
}
"""Calls that a legal program may make."""


def every_algorithm(mpi: RealMpi, collective: Collective) -> list[str]:
    """Return one configuration of each algorithm."""
    found = OPENMPI.at(mpi.release).portfolio(collective, (256,), (2,)).configurations
    return [c.id.removeprefix("openmpi.") for c in found if not c.is_default]


@pytest.mark.parametrize("turn", range(7))
def test_legal_programs_stay_right_under_any_table(mpi: RealMpi, tmp_path: Path, turn: int) -> None:
    """In-place, null and typed arguments and operations that do not commute give right results.

    In turn, every algorithm stands in a table of the default policy: for all sizes where only one
    rule is safe, else below a threshold with its neighbour above it.
    """
    rules = {}
    for collective in map(Collective, TRAPS):
        algorithms = every_algorithm(mpi, collective)
        low, high = (algorithms[at % len(algorithms)] for at in (turn, turn + 1))
        one_rule = catalogue_of(mpi.release).collectives[collective].one_rule
        rules[collective, 4] = intervals((0, low), *([] if one_rule else [(64, high)]))
    written = CLASSIC.write(table(Shape(1, 4), rules), mpi.release)
    named = {r.collective for r in CLASSIC.parse(written.text, "rules", mpi.release).rules}
    assert {Collective.GATHER, Collective.SCATTER} <= named
    # the library's own decision hangs when ranks name the blocks of allgatherv by different types
    hangs = {"types"} if Collective.ALLGATHERV not in named else set()
    steps = [
        f"{collective}:{size}:{variant}"
        for collective, variants in TRAPS.items()
        for variant in variants
        if variant not in hangs
        for size in (16, 96, 4096)
    ]
    assert len(mpi.observe(4, steps, activate(mpi, written.text, tmp_path))) == len(steps)


def test_the_traps_are_real(mpi: RealMpi, tmp_path: Path) -> None:
    """What the writer refuses to write does end or corrupt programs."""
    two_rules = activate(mpi, "1 9 1 0 2 0 1 0 0 1024 2 0 0\n", tmp_path)
    crashed = mpi.call(4, ["gather:1024:inplace"], two_rules)
    assert not crashed.ok
    ring = activate(mpi, "1 2 1 0 1 0 4 0 0\n", tmp_path)
    assert "WRONG" in mpi.call(4, ["allreduce:4096:noncommutative"], ring).stderr
