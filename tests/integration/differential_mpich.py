"""What a real MPICH ran, by its traffic, beside what its selection file was said to choose.

Random decision tables are written as files; one launch makes random calls with them, a second one
makes the same calls without any file, each with the algorithm forced that `decide` promises. The
messages of each call, by rank, in order and size, have to be the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import library
from colltune.mpi.formats import FORMATS
from colltune.mpi.programs import ANY_LEGAL
from colltune.mpi.rules import Call, Rules
from colltune.mpi.running import Promises
from tests.integration.real import ALL_VISIBLE, RealMpich, Traffic

MPICH, FORMAT = library("mpich"), FORMATS["mpich-json"]
NPROCS = 6
SIZES = (1, 5, 16, 60, 240, 960, 2400, 4800, 15_360, 40_320, 130_560)
LARGEST = 40_320
_SILENT = "set:MPIR_CVAR_COLLECTIVE_FALLBACK=2"
_VARIANTS = ("plain", "plain", "plain", "inplace", "noncommutative")
_IN_PLACE = (Collective.ALLGATHER, Collective.ALLGATHERV, Collective.ALLREDUCE, Collective.REDUCE)
_ORDERED = (Collective.ALLREDUCE, Collective.REDUCE)
_MATRIX_BYTES = 16


@dataclass(frozen=True)
class Layout:
    """How the processes lie: the variables that make it so, and on how many nodes."""

    nodes: int
    variables: Mapping[str, str]

    def nodes_of(self, ranks: int) -> int:
        """Return over how many nodes the first `ranks` processes lie."""
        return min(self.nodes, ranks)


FLAT = Layout(NPROCS, ALL_VISIBLE)
TWO_NODES = Layout(2, ALL_VISIBLE | {"MPIR_CVAR_NOLOCAL": "0", "MPIR_CVAR_NUM_CLIQUES": "2"})


@dataclass(frozen=True)
class Trial:
    """One call, what `decide` says that it runs, and both launches' messages of it."""

    call: Call
    said: Configuration
    ran: Traffic
    forced: Traffic

    @property
    def agrees(self) -> bool:
        """Whether the same messages were sent."""
        return self.ran == self.forced


def trials(mpich: RealMpich, folder: Path, n_calls: int, seed: int) -> Iterator[Trial]:
    """Yield `n_calls` calls on single processes per node, and as many on two nodes."""
    for layout in (FLAT, TWO_NODES):
        yield from _trials(mpich, folder, layout, random.Random(f"{seed} {layout.nodes}"), n_calls)


def _trials(
    mpich: RealMpich, folder: Path, layout: Layout, rng: random.Random, n_calls: int
) -> Iterator[Trial]:
    table = random_table(rng, mpich.release, layout)
    written = FORMAT.write(table, mpich.release)
    paths = {end: str(folder / f"tree{layout.nodes}{end}.json") for end in written.texts}
    for end, path in paths.items():
        Path(path).write_text(written.texts[end], encoding="utf-8")
    environment = FORMAT.activation(mpich.release, paths, table.shape)
    parsed = FORMAT.parse(written.text, paths[""], mpich.release)
    calls = [_call(rng, layout) for _ in range(n_calls)]
    said = [_runs(parsed, call, environment) for call in calls]
    ran = _sent(mpich, calls, [_step(c) for c in calls], environment, layout)
    steps = [
        s for c, what in zip(calls, said, strict=True) for s in _forced(mpich.release, c, what)
    ]
    forced = _sent(mpich, calls, steps, {}, layout)
    for call, what, seen, wanted in zip(calls, said, ran, forced, strict=True):
        yield Trial(call, what, seen, wanted)


def _sent(
    mpich: RealMpich,
    calls: Sequence[Call],
    steps: Sequence[str],
    environment: Mapping[str, str],
    layout: Layout,
) -> list[Traffic]:
    """Return the messages of calls, each of which the first ranks make."""
    by_rank = mpich.by_rank(NPROCS, steps, environment, layout.variables)
    queues = [iter(each) for each in by_rank]
    found = [tuple(next(queue) for queue in queues[: call.comm_size]) for call in calls]
    assert not any(list(queue) for queue in queues)
    return found


def _runs(parsed: Rules, call: Call, environment: Mapping[str, str]) -> Configuration:
    outcome = parsed.decide(call, environment)
    assert not outcome.ends_program
    return outcome.configuration


def _forced(release: str, call: Call, what: Configuration) -> Sequence[str]:
    back = Configuration.default("mpich", call.collective)
    if what.is_default:
        return [_step(call)]
    return [
        *(f"set:{name}={value}" for name, value in MPICH.at(release).force(what).items()),
        _SILENT,
        _step(call),
        *(f"set:{name}={value}" for name, value in MPICH.at(release).force(back).items()),
    ]


def random_table(rng: random.Random, release: str, layout: Layout) -> DecisionTable:
    """Return choices for most communicators, by layout where there are two nodes."""
    job = Shape(layout.nodes, NPROCS // layout.nodes)
    rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {}
    by_layout: dict[tuple[Collective, Shape], tuple[Interval, ...]] = {}
    for collective in Collective:
        for size in range(2, NPROCS + 1):
            if rng.random() < 1 / 6:
                continue
            intervals = _intervals(rng, release, collective, size)
            if layout.nodes == 2 and size % 2 == 0 and rng.random() < 1 / 2:
                by_layout[collective, Shape(2, size // 2)] = intervals
            else:
                rules[collective, size] = intervals
    return DecisionTable("mpich", job, rules, by_layout)


def one_choice(names: Mapping[int, Sequence[str]]) -> DecisionTable:
    """Return a table with choices for all messages on communicators of some sizes."""
    rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {
        (choice.collective, size): (Interval(0, None, choice),)
        for size, texts in names.items()
        for choice in (Configuration.parse(f"mpich.{text}") for text in texts)
    }
    return DecisionTable("mpich", Shape(max(names), 1), rules)


def _intervals(
    rng: random.Random, release: str, collective: Collective, size: int
) -> tuple[Interval, ...]:
    portfolio = MPICH.at(release).portfolio(collective, (0, 1024), (2, 3, 4))
    possible = {
        c: MPICH.at(release).runs(c, size).first_bytes
        for c in portfolio.configurations
        if MPICH.at(release).settable_at_runtime(c)
        and not MPICH.at(release).runs(c, promises=Promises(ANY_LEGAL)).refusal
    }
    n_switches = 0 if collective in MPICH.at(release).one_rule else rng.randrange(4)
    firsts = [0, *sorted(rng.sample([s + 1 for s in SIZES], k=n_switches))]
    lasts = [*(first - 1 for first in firsts[1:]), None]
    found = []
    for first, last in zip(firsts, lasts, strict=True):
        fitting = [c for c, least in possible.items() if least is not None and least <= first]
        chosen = [c for c in fitting if not c.is_default]
        found.append(Interval(first, last, rng.choice(chosen or fitting)))
    return tuple(found)


def _call(rng: random.Random, layout: Layout) -> Call:
    collective, variant = rng.choice(list(Collective)), rng.choice(_VARIANTS)
    size = rng.randrange(2, NPROCS + 1)
    msize = rng.choice(SIZES)
    if collective in (Collective.REDUCE_SCATTER, Collective.SCAN, Collective.EXSCAN):
        msize = min(msize, LARGEST) // size * size
    ordered = variant == "noncommutative" and collective in _ORDERED
    if ordered:
        msize = max(_MATRIX_BYTES, msize // _MATRIX_BYTES * _MATRIX_BYTES)
    if collective is Collective.BARRIER:
        msize = 0
    return Call(
        collective,
        size,
        msize,
        layout.nodes_of(size),
        is_world=False,
        in_place=variant == "inplace" and collective in _IN_PLACE,
        commutative=not ordered,
        builtin_operation=not ordered,
        element_bytes=_MATRIX_BYTES if ordered else 1,
    )


def _step(call: Call) -> str:
    variant = "plain" if call.commutative else "noncommutative"
    variant = "inplace" if call.in_place else variant
    return f"{call.collective}:{call.msize_bytes}:{variant}:{call.comm_size}"
