"""Random decision tables that a format can hold, and calls to ask about."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import MpiLibrary, library
from colltune.mpi.file_format import Format
from colltune.mpi.formats import FORMATS, readers
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.openmpi.han.rules import choices
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.rules import Call
from colltune.mpi.running import Promises

FEW = settings(
    max_examples=int(os.environ.get("COLLTUNE_TEST_EXAMPLES", "5")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""For all tests over formats: there are many formats and releases. The variable asks for more."""
UNSHRUNK = settings(FEW, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""For tests with so many draws that making an example smaller takes long."""
CASES = [
    (name, release)
    for name, known in FORMATS.items()
    for release in readers(known)
    # a table is the same for all releases but for the control variables in it
    if not known.interposed or release == library(known.library).current
]
DROPPED = [
    (name, release)
    for name, known in FORMATS.items()
    for release in library(known.library).releases
    if release not in readers(known)
]
OWN_CHOICES: dict[str, Callable[[str, Collective], tuple[Configuration, ...]]] = {
    "openmpi-han": lambda release, collective: choices(catalogue_of(release), collective)
}
"""Formats that choose something else than their library's portfolio, and only across nodes."""
APART = frozenset({*OWN_CHOICES, *(name for name, known in FORMATS.items() if known.interposed)})
"""Formats that cannot be converted to others of their library, nor those to them."""
FEWEST = {"intelmpi-table": 0.9}
"""How many algorithms a format can name at least: Intel MPI's own are chosen for a launch only."""
JOBS = (Shape(1, 2), Shape(1, 7), Shape(2, 1), Shape(2, 4), Shape(3, 4), Shape(4, 4), Shape(34, 32))
ELEMENT_BYTES = 8
"""Largest element of the calls for which a configuration has to run as itself."""
_SIZES = st.one_of(
    st.integers(1, 100),
    st.integers(1, 40).flatmap(lambda k: st.sampled_from([(1 << k) - 1, 1 << k, (1 << k) + 1])),
)


@cache
def candidates(
    name: str, release: str, collective: Collective, comm_size: int
) -> tuple[tuple[int, Configuration], ...]:
    """Return what a format can choose, with the message size from which on it runs as itself."""
    if name in OWN_CHOICES:
        return tuple((0, choice) for choice in OWN_CHOICES[name](release, collective))
    mpi = library_of(FORMATS[name])
    try:
        configurations = mpi.at(release).portfolio(collective).configurations
    except LibraryError:
        return ()
    found = []
    for configuration in configurations:
        promises = Promises(MOST_PROMISED, FORMATS[name], ELEMENT_BYTES)
        first = mpi.at(release).runs(configuration, comm_size, promises).first_bytes
        if first is not None:
            found.append((first, configuration))
    return tuple(found)


def library_of(known: Format) -> MpiLibrary:
    """Return the library that a format chooses from, with libcolltune where that reads it."""
    found = library(known.library)
    return with_libcolltune(found) if known.interposed else found


def tells_communicators(known: Format) -> bool:
    """Tell whether a format can say something for communicators of one size only."""
    return not known.single_algorithm and known.knows_comm_size


def layouts(comm_size: int, job: Shape) -> list[Shape]:
    """Return how so many processes can lie evenly on a job."""
    return [
        Shape(nodes, comm_size // nodes)
        for nodes in range(1, job.nodes + 1)
        if comm_size % nodes == 0 and comm_size // nodes <= job.ppn
    ]


@st.composite
def intervals(
    draw: st.DrawFn, known: Format, release: str, collective: Collective, comm_size: int
) -> tuple[Interval, ...]:
    """Draw intervals of configurations that run and are safe there."""
    possible = candidates(known.name, release, collective, comm_size)
    single = known.single_algorithm or collective in _single(known.library, release)
    switches = [] if single else draw(st.lists(_SIZES, max_size=4, unique=True))
    firsts = [0, *sorted(switches)]
    lasts = [*(first - 1 for first in firsts[1:]), None]
    default = Configuration.default(known.library, collective)
    return tuple(
        Interval(
            first,
            last,
            draw(st.sampled_from([c for low, c in possible if low <= first] or [default])),
        )
        for first, last in zip(firsts, lasts, strict=True)
    )


@cache
def _single(name: str, release: str) -> frozenset[Collective]:
    return library(name).at(release).one_rule


@st.composite
def tables(draw: st.DrawFn, known: Format, release: str) -> DecisionTable:
    """Draw a table that says no more than the format can hold."""
    job = draw(st.sampled_from(JOBS))
    collectives = draw(st.lists(st.sampled_from(list(Collective)), max_size=3, unique=True))
    rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {}
    by_layout: dict[tuple[Collective, Shape], tuple[Interval, ...]] = {}
    for collective in collectives:
        sizes = st.sampled_from([job.nprocs, *range(2, min(job.nprocs, 40) + 1)])
        wanted = (
            draw(st.lists(sizes, max_size=3, unique=True))
            if tells_communicators(known)
            else [job.nprocs]
        )
        for size in wanted:
            found = layouts(size, job) if known.knows_layout and draw(st.booleans()) else []
            for shape in found[:1] + found[-1:]:
                by_layout[collective, shape] = draw(intervals(known, release, collective, size))
            if not found:
                rules[collective, size] = draw(intervals(known, release, collective, size))
    return DecisionTable(known.library, job, rules, by_layout)


@st.composite
def calls(draw: st.DrawFn, table: DecisionTable) -> Call:
    """Draw a call on a communicator of the table's job."""
    job = table.shape
    named = {c for c, _ in (*table.rules, *table.by_layout)}
    collective = draw(st.sampled_from(sorted(named) * 3 + list(Collective)))
    sizes = {size for c, size in table.rules if c is collective}
    sizes |= {shape.nprocs for c, shape in table.by_layout if c is collective}
    near = [n for s in sizes for n in (s, s, s - 1, s + 1) if 2 <= n <= job.nprocs]
    size = draw(st.sampled_from([*sorted(near), job.nprocs, *range(2, min(job.nprocs, 9) + 1)]))
    even = [shape.nodes for shape in layouts(size, job)]
    nodes = draw(st.sampled_from(even or [-(-size // job.ppn)]))
    everything = (*table.rules.values(), *table.by_layout.values())
    firsts = {interval.first_bytes for found in everything for interval in found}
    msizes = sorted({m for first in firsts for m in (first - 1, first, first + 1) if m >= 0})
    msize = draw(st.sampled_from(msizes) | _SIZES if msizes else _SIZES)
    return Call(collective, size, msize, nodes, is_world=size == job.nprocs)


def said(table: DecisionTable, call: Call) -> Configuration:
    """Return what a table says for a call; the default where it says nothing."""
    found = table.rules.get((call.collective, call.comm_size), ())
    if call.comm_size % call.nodes == 0:
        shape = Shape(call.nodes, call.comm_size // call.nodes)
        found = table.by_layout.get((call.collective, shape), found)
    fitting = [i.configuration for i in found if i.first_bytes <= call.msize_bytes]
    return fitting[-1] if fitting else Configuration.default(table.library, call.collective)
