"""Writes a decision table as JSON rules for Open MPI 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.file_format import Written
from colltune.mpi.layouts import even_layouts
from colltune.mpi.openmpi.choosing import Choice, Chooser, Chosen, LayoutChoice, Steps
from colltune.mpi.openmpi.forced import library_name
from colltune.mpi.openmpi.han.writing import DISPATCH, dispatch_rules
from colltune.mpi.openmpi.json_rules.parsed import NAME
from colltune.mpi.openmpi.json_rules.rendering import Block, Row, render
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.mpi.openmpi.rules import LARGEST_SIZE, Distribution


@dataclass(frozen=True)
class _Entry:
    """Rules for communicators of one size that lie on nodes in one way."""

    collective: Collective
    comm_size: int
    distribution: Distribution
    steps: Steps


def write(table: DecisionTable, release: str, *, builtin_operations_only: bool) -> Written:
    """Return `table` as JSON rules, and the file that makes coll/han hand the calls on."""
    chooser = Chooser(release, builtin_operations_only=builtin_operations_only)
    planner = _Planner(table.shape, chooser.by_size(table), chooser.by_layout(table))
    collectives = chooser.catalogue.collectives
    blocks = [_block(collectives[entry.collective], entry) for entry in planner.entries()]
    texts = {"": render(blocks)}
    steered = {
        key: steps
        for key, steps in planner.spanning().items()
        if key[0] in chooser.catalogue.han_collectives
    }
    if steered:
        texts[DISPATCH] = dispatch_rules(steered, table.shape)
    reached = tuple(
        f"{collective} on {comm_size} processes: these rules also reach coll/han's inner"
        f" communicators, which have {comm_size} processes on {table.shape}"
        for collective, comm_size in steered
        if comm_size in (table.shape.nodes, table.shape.ppn)
    )
    return Written(NAME, release, texts, (*chooser.notes, *planner.notes, *reached))


class _Planner:
    """Finds the entries that tell layouts apart as far as the format can."""

    def __init__(self, job: Shape, by_size: Choice, by_layout: LayoutChoice) -> None:
        self.job, self.by_size, self.by_layout = job, by_size, by_layout
        keys = {*by_size, *((c, shape.nprocs) for c, shape in by_layout)}
        self.keys = sorted(key for key in keys if key[1] > 1)
        self.notes: list[str] = []

    def entries(self) -> Iterator[_Entry]:
        """Yield the entries in their order: what is told by layout goes first."""
        for collective, size in self.keys:
            one, single = Shape(size, 1), Shape(1, size)
            found = self._layouts(collective, size)
            general = self._general(collective, size, found)
            if general is None:
                general = (_left(collective),)
            for shape, distribution in (
                (one, Distribution.ONE_PER_NODE),
                (single, Distribution.SINGLE_NODE),
            ):
                if size != self.job.nprocs and found.get(shape, general) != general:
                    yield _Entry(collective, size, distribution, found[shape])
            if _chooses(general):
                yield _Entry(collective, size, Distribution.ANY, general)

    def spanning(self) -> Choice:
        """Return what coll/han has to hand on, by communicator size."""
        found: Choice = {}
        for collective, size in self.keys:
            layouts = self._layouts(collective, size)
            spans = [steps for shape, steps in layouts.items() if shape.nodes > 1]
            wanted = list(dict.fromkeys(spans or [self._of_size(collective, size)]))
            if self.job.nodes < 2 or not any(_chooses(steps) for steps in wanted):
                continue
            if len(wanted) > 1:
                self.notes.append(
                    f"{collective} on {size} processes: coll/han's file does not tell layouts"
                    " apart, so that coll/tuned decides wherever it does for one of them"
                )
            found[collective, size] = _union(collective, wanted)
        return found

    def _of_size(self, collective: Collective, size: int) -> Steps:
        return self.by_size.get((collective, size), (_left(collective),))

    def _layouts(self, collective: Collective, size: int) -> dict[Shape, Steps]:
        """Return what the table says for each way in which the processes can lie evenly."""
        other = self._of_size(collective, size)
        return {
            shape: self.by_layout.get((collective, shape), other)
            for shape in even_layouts(size, self.job)
        }

    def _general(
        self, collective: Collective, size: int, found: Mapping[Shape, Steps]
    ) -> Steps | None:
        """Return what is written for all layouts that the format cannot name."""
        if found and len(set(found.values())) == 1:
            return next(iter(found.values()))
        others = {s: steps for s, steps in found.items() if s.nodes > 1 and s.ppn > 1}
        said = set(others.values())
        if len(said) == 1:
            return said.pop()
        if said:
            shapes = ", ".join(str(shape) for shape in others)
            self.notes.append(
                f"{collective} on {size} processes: the file cannot tell {shapes} apart, so that"
                " what holds for the size as such is written for all of them"
            )
        if not others and (collective, size) not in self.by_size:
            # the library often does not notice that every process has a node of its own
            return found.get(Shape(size, 1))
        return self.by_size.get((collective, size))


def _left(collective: Collective) -> Chosen:
    return Chosen(0, Configuration.default(LIBRARY, collective))


def _chooses(steps: Steps) -> bool:
    return any(not step.configuration.is_default for step in steps)


def _union(collective: Collective, wanted: list[Steps]) -> Steps:
    """Return steps that choose wherever one of `wanted` does."""
    if len(wanted) == 1:
        return wanted[0]
    firsts = sorted({step.first_bytes for steps in wanted for step in steps})
    found = []
    for first in firsts:
        active = [[s for s in steps if s.first_bytes <= first][-1] for steps in wanted]
        chosen = next((s for s in active if not s.configuration.is_default), _left(collective))
        found.append(Chosen(first, chosen.configuration))
    return tuple(found)


def _block(entry: CollectiveEntry, of: _Entry) -> Block:
    factor = of.comm_size if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
    rows = tuple(_rows(entry, of, factor))
    return Block(of.collective, of.comm_size, of.comm_size, of.distribution, rows)


def _rows(entry: CollectiveEntry, of: _Entry, factor: int) -> Iterator[Row]:
    """Yield the rules; sizes without one are left to the library."""
    nexts = [step.first_bytes * factor - 1 for step in of.steps[1:]]
    for step, last in zip(of.steps, [*nexts, LARGEST_SIZE], strict=True):
        algorithm = entry.named(step.configuration.algorithm)
        first = step.first_bytes * factor
        if step.configuration.is_default or algorithm is None or first >= LARGEST_SIZE:
            continue
        parameters = step.configuration.numbers
        yield Row(first, min(last, LARGEST_SIZE), library_name(algorithm.name), parameters)
