"""Calls in a job that the rules of a file should decide, on communicators that the job can form."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from colltune.domain import Collective, Shape
from colltune.mpi.rules import Call, Outcome, Rule, Rules
from colltune.verify.canary import CanaryCall

MOST_BYTES = 64 << 20
"""Largest buffer of a call that is tried, per process."""
_SMALL_BYTES = 64
_AFTER_LAST_BYTES = 4096
_PER_COMMUNICATOR = 2
_COMMUNICATORS_PER_RULE = 4
_SEARCH_S = 20.0


@dataclass(frozen=True)
class Communicator:
    """Processes that lie evenly on the first `nodes` nodes; ``is_whole``: all of the job's."""

    size: int
    nodes: int
    is_whole: bool = False

    @property
    def text(self) -> str:
        on = "one node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{self.size} processes on {on}"


@dataclass(frozen=True)
class JobLayout:
    """How many processes of the job lie on each of its nodes."""

    processes: tuple[int, ...]

    @property
    def nprocs(self) -> int:
        return sum(self.processes)

    @property
    def regular(self) -> Shape:
        """The largest shape that the job holds on all its nodes."""
        return Shape(len(self.processes), min(self.processes))

    @property
    def is_regular(self) -> bool:
        return len(set(self.processes)) == 1

    def holds(self, size: int, nodes: int) -> bool:
        """Tell whether `size` processes can lie evenly on the first `nodes` nodes."""
        if not 1 <= nodes <= min(size, len(self.processes)):
            return False
        needed = (size // nodes + (node < size % nodes) for node in range(nodes))
        return all(n <= there for n, there in zip(needed, self.processes, strict=False))

    def shape_of(self, communicator: Communicator) -> Shape | None:
        """Return the shape that the benchmark would measure it as; None if it has none."""
        size, nodes = communicator.size, communicator.nodes
        regular = size % nodes == 0 and size // nodes <= min(self.processes)
        return Shape(nodes, size // nodes) if regular else None

    def communicators(self, sizes: Iterable[int]) -> tuple[Communicator, ...]:
        """Return those worth trying, by descending size and number of nodes."""
        found = {Communicator(self.nprocs, len(self.processes), is_whole=True)}
        for size in {*self._usual(), *sizes}:
            if 2 <= size <= self.nprocs:
                found.update(self._spread(size))
        return tuple(sorted(found, key=lambda c: (-c.size, -c.nodes, not c.is_whole)))

    def _usual(self) -> Iterator[int]:
        yield from (len(self.processes), self.processes[0], self.nprocs // 2)
        size = 2
        while size <= self.nprocs:
            yield size
            size *= 2

    def _spread(self, size: int) -> Iterator[Communicator]:
        """Yield one process per node, all nodes, and as few nodes as possible."""
        all_nodes = len(self.processes)
        whole = (self.nprocs, all_nodes)
        fewest = next((k for k in range(1, all_nodes + 1) if self.holds(size, k)), 1)
        for nodes in {size, all_nodes, fewest}:
            if (size, nodes) != whole and self.holds(size, nodes):
                yield Communicator(size, nodes)


@dataclass(frozen=True)
class ProbeCall:
    """A call that a rule should decide."""

    communicator: Communicator
    call: Call
    planned: Outcome
    expected: Outcome
    size: int
    is_inner: bool = False

    @property
    def canary(self) -> CanaryCall:
        where = self.communicator
        return CanaryCall(
            self.call.collective, self.call.msize_bytes, where.size, where.nodes, where.is_whole
        )


@dataclass(frozen=True)
class Search:
    probes: Mapping[int, tuple[ProbeCall, ...]]
    complete: bool


def find(
    parsed: Rules,
    layout: JobLayout,
    activation: Mapping[str, str],
    environment: Mapping[str, str],
) -> Search:
    """Return probes for the rules of `parsed`, those on the largest communicators first."""
    ends = time.monotonic() + _SEARCH_S
    numbers: dict[Rule, list[int]] = defaultdict(list)
    for number, rule in enumerate(parsed.rules):
        numbers[rule].append(number)
    found: dict[int, _Places] = defaultdict(dict)
    for collective in dict.fromkeys(rule.collective for rule in parsed.rules):
        for probe, rule in _decided(parsed, layout, collective, (activation, environment)):
            for number in numbers.get(rule, ()):
                _keep(found[number], probe)
            if time.monotonic() > ends:
                return Search(_ordered(found), complete=False)
    return Search(_ordered(found), complete=True)


_Places = dict[tuple[Communicator, bool], list[ProbeCall]]


def _keep(places: _Places, probe: ProbeCall) -> None:
    where = probe.communicator, probe.is_inner
    if where not in places and len(places) >= _COMMUNICATORS_PER_RULE:
        return
    kept = places.setdefault(where, [])
    if len(kept) < _PER_COMMUNICATOR:
        kept.append(probe)
    else:
        kept[-1] = probe  # the ends of the range tell most


def _ordered(found: Mapping[int, _Places]) -> dict[int, tuple[ProbeCall, ...]]:
    return {
        number: tuple(probe for kept in places.values() for probe in kept)
        for number, places in found.items()
    }


def _decided(
    parsed: Rules,
    layout: JobLayout,
    collective: Collective,
    environments: tuple[Mapping[str, str], Mapping[str, str]],
) -> Iterator[tuple[ProbeCall, Rule]]:
    told = parsed.comm_sizes(collective)
    for communicator in layout.communicators({*told, *(size - 1 for size in told)}):
        for msize_bytes in _msizes(parsed, collective, communicator):
            call = call_on(communicator, collective, msize_bytes)
            planned, expected = (parsed.decide(call, variables) for variables in environments)
            probe = ProbeCall(communicator, call, planned, expected, communicator.size)
            if planned.rule is not None:
                yield probe, planned.rule
            for size, rule in _inner_rules(planned):
                yield replace(probe, size=size, is_inner=True), rule


def call_on(communicator: Communicator, collective: Collective, msize_bytes: int) -> Call:
    as_int = collective.reduces and msize_bytes % 4 == 0
    return Call(
        collective,
        communicator.size,
        msize_bytes,
        communicator.nodes,
        is_world=False,
        element_bytes=4 if as_int else 1,
    )


def _inner_rules(outcome: Outcome) -> Iterator[tuple[int, Rule]]:
    for call, inner in outcome.inner:
        if inner.rule is not None:
            yield call.comm_size, inner.rule
        yield from _inner_rules(inner)


def _msizes(parsed: Rules, collective: Collective, communicator: Communicator) -> Iterator[int]:
    """Yield both ends of each range of message sizes that fits into memory."""
    most = largest_msize(collective, communicator.size)
    points = [
        point
        for point in parsed.switch_points(collective, communicator.size, communicator.nodes)
        if point <= most
    ] or [0]
    for first, following in zip(points, [*points[1:], None], strict=True):
        last = most if following is None else following - 1
        if following is None:
            last = min(most, max(2 * first, _AFTER_LAST_BYTES))
        # a library may leave without doing anything where there is nothing to send
        lower = first or min(last, _SMALL_BYTES)
        yield from dict.fromkeys((lower, last))


def largest_msize(collective: Collective, comm_size: int) -> int:
    """Return the largest message size that is tried, in the unit of `colltune.domain`."""
    if collective is Collective.BARRIER:
        return 0
    return MOST_BYTES // comm_size if collective.has_block_per_rank else MOST_BYTES


def reached_elsewhere(
    parsed: Rules, rule: Rule, layout: JobLayout, activation: Mapping[str, str]
) -> str:
    """Return what a call would need beyond those of the job, for `rule` to decide it."""
    sizes = parsed.comm_sizes(rule.collective)
    for size in sorted({*sizes, *(s - 1 for s in sizes), *(s + 1 for s in sizes)}):
        for nodes in dict.fromkeys((1, 2, size)):
            if size < 2 or nodes > size:
                continue
            need = f"a communicator of {size} processes"
            need += f" over {nodes} nodes" if nodes > 1 else ""
            for msize_bytes in parsed.switch_points(rule.collective, size, nodes):
                call = call_on(Communicator(size, nodes), rule.collective, msize_bytes)
                if parsed.decide(call, activation).rule == rule:
                    fits = layout.holds(size, nodes)
                    return f"messages of {msize_bytes} bytes or more" if fits else need
                if found := _unusual(parsed, rule, call, activation):
                    return f"{found} on {need}"
    return ""


def _unusual(parsed: Rules, rule: Rule, call: Call, activation: Mapping[str, str]) -> str:
    variants = {
        "MPI_COMM_WORLD itself": replace(call, is_world=True),
        "calls in place": replace(call, in_place=True),
        "a non-commutative operation": replace(call, commutative=False, builtin_operation=False),
        "a user-defined operation": replace(call, builtin_operation=False),
    }
    for text, variant in variants.items():
        if parsed.decide(variant, activation).rule == rule:
            return text
    return ""
