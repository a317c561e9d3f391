"""Writes JSON rules for Open MPI 6: a decision table, or rules that were read from another file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, SizeUnit
from colltune.mpi.choosing import Chosen, Steps, chooses
from colltune.mpi.layouts import even_layouts
from colltune.mpi.openmpi.choosing import Choice, LayoutChoice, TunedChooser, why_not_kept
from colltune.mpi.openmpi.dispatch import DISPATCH, dispatch_rules
from colltune.mpi.openmpi.forced import library_name
from colltune.mpi.openmpi.json_rules import lint
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    Ranges,
    SizeRule,
)

_KEYS = {"fanout": "faninout", "segsize": "seg_size", "requests": "reqs"}


@dataclass(frozen=True)
class Row:
    """An algorithm, as the library spells it, for compared sizes (both ends included)."""

    first: int
    last: int
    algorithm: str
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Block:
    """The rules for communicators of `first_size` to `last_size` processes (both included)."""

    collective: Collective
    first_size: int
    last_size: int
    distribution: Distribution
    rows: tuple[Row, ...]


def render(blocks: Iterable[Block]) -> str:
    """Return the file that holds `blocks` in their order, by collective."""
    by_collective: dict[Collective, list[Block]] = {}
    for block in blocks:
        by_collective.setdefault(block.collective, []).append(block)
    texts = []
    for collective, own in sorted(by_collective.items()):
        inside = ",\n".join(_block(block) for block in own)
        texts.append(f"    {json.dumps(str(collective))}: [\n{inside}\n    ]")
    inside = "\n" + ",\n".join(texts) + "\n  " if texts else ""
    return (
        f'{{\n  "rule_file_version": 3,\n  "module": "tuned",\n  "collectives": {{{inside}}}\n}}\n'
    )


def _block(block: Block) -> str:
    head = []
    if block.first_size > 0:
        head.append(f'"comm_size_min": {block.first_size}')
    # to the library "inf" is no size of a communicator
    if block.last_size < LARGEST_COMM_SIZE:
        head.append(f'"comm_size_max": {block.last_size}')
    if block.distribution is not Distribution.ANY:
        head.append(f'"comm_rank_distribution": "{block.distribution}"')
    rows = ",\n".join(f"          {json.dumps(dict(_values(row)))}" for row in block.rows)
    inside = f"\n{rows}\n        " if rows else ""
    first = f"        {', '.join(head)},\n" if head else ""
    return f'      {{\n{first}        "rules": [{inside}]\n      }}'


def _values(row: Row) -> Iterator[tuple[str, int | str]]:
    if row.first > 0 or row.last < LARGEST_SIZE:
        yield "msg_size_min", row.first
        yield "msg_size_max", row.last if row.last < LARGEST_SIZE else "inf"
    yield "alg", row.algorithm
    for name, value in row.parameters.items():
        if value:
            yield _KEYS[name], value


@dataclass(frozen=True)
class _Entry:
    """Rules for communicators of one size that lie on nodes in one way."""

    collective: Collective
    comm_size: int
    distribution: Distribution
    steps: Steps


def write(
    table: DecisionTable, release: str, *, builtin_operations_only: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return `table` as JSON rules, and the file that makes coll/han hand the calls on."""
    chooser = TunedChooser(release, builtin_operations_only=builtin_operations_only)
    planner = _Planner(table.shape, chooser.by_size(table), chooser.by_layout(table))
    collectives = chooser.catalogue.collectives
    blocks = [_block_of(collectives[entry.collective], entry) for entry in planner.entries()]
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
    return texts, (*chooser.notes, *planner.notes, *reached)


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
            if chooses(general):
                yield _Entry(collective, size, Distribution.ANY, general)

    def spanning(self) -> Choice:
        """Return what coll/han has to hand on, by communicator size."""
        found: Choice = {}
        for collective, size in self.keys:
            layouts = self._layouts(collective, size)
            spans = [steps for shape, steps in layouts.items() if shape.nodes > 1]
            wanted = list(dict.fromkeys(spans or [self._of_size(collective, size)]))
            if self.job.nodes < 2 or not any(chooses(steps) for steps in wanted):
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


def _block_of(entry: CollectiveEntry, of: _Entry) -> Block:
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


_BY_SENDER = frozenset({Collective.ALLGATHERV, Collective.GATHER, Collective.SCATTER})


def convert(ranges: Ranges, release: str) -> tuple[str, tuple[str, ...]]:
    """Return JSON rules for `release` that say what `ranges` do; notes tell what is left out.

    Left out is what is never reached, and what would break programs.
    """
    converter = _Converter(release)
    blocks = [block for entries in ranges.values() for block in converter.blocks(entries)]
    return render(blocks), tuple(dict.fromkeys(converter.notes))


class _Converter:
    def __init__(self, release: str) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.notes: list[str] = []

    def blocks(self, entries: tuple[CommunicatorRange, ...]) -> Iterator[Block]:
        for at, communicator in enumerate(entries):
            entry = self.catalogue.collectives[communicator.collective]
            if not lint.is_reached(entries[:at], communicator):
                self.note(communicator.line, "never reached, left out")
                continue
            rows = tuple(self.rows(entry, communicator))
            if communicator.collective in _BY_SENDER and not _same_for_all(rows):
                self.note(
                    communicator.line,
                    f"several rules for {communicator.collective}, of which processes may choose"
                    " different ones: left to the library",
                )
                rows = ()
            yield Block(
                communicator.collective,
                max(0, communicator.first_size),
                communicator.last_size,
                communicator.distribution,
                rows,
            )

    def rows(self, entry: CollectiveEntry, communicator: CommunicatorRange) -> Iterator[Row]:
        """Yield the rules of an entry, those that leave the choice to the library included."""
        for at, rule in enumerate(communicator.rules):
            line = rule.rule.line
            if not rule.known:
                self.note(line, f"{rule.rule.text}: no such algorithm, left out")
                continue
            if not lint.is_rule_reached(entry, communicator.rules[:at], rule):
                self.note(line, "never reached, left out")
                continue
            algorithm = self.target(entry, rule)
            why = self.refusal(algorithm, rule, communicator)
            last = min(rule.last, LARGEST_SIZE)
            if why:
                self.note(line, f"left to the library: {why}")
                yield Row(rule.first, last, "ignore", {})
            elif algorithm is None:
                yield Row(rule.first, last, "ignore", {})
            else:
                given = self.parameters(algorithm, rule)
                kept = {n: v for n, v in given.items() if n in algorithm.parameters}
                yield Row(rule.first, last, library_name(algorithm.name), kept)

    def target(self, entry: CollectiveEntry, rule: SizeRule) -> Algorithm | None:
        """Return the algorithm in the release that is written for; None for the library's own."""
        configuration = rule.rule.configuration
        if configuration is None or configuration.is_default:
            return None
        return entry.named(configuration.algorithm)

    def refusal(
        self, algorithm: Algorithm | None, rule: SizeRule, communicator: CommunicatorRange
    ) -> str:
        """Return why a rule may not be written; empty if it may."""
        configuration = rule.rule.configuration
        if algorithm is None:
            missing = configuration is not None and not configuration.is_default
            return f"{self.release} has no {rule.rule.text}" if missing else ""
        why = why_not_kept(algorithm, communicator.first_size, communicator.last_size)
        parameters = self.parameters(algorithm, rule)
        for parameter, least in algorithm.minimums:
            if not why and parameters[parameter] < least:
                return f"{algorithm.name} never ends with a fan-out below {least}"
        return why

    def parameters(self, algorithm: Algorithm, rule: SizeRule) -> dict[str, int]:
        """Return what a rule gives; a radix that its own release did not have is the lowest one."""
        configuration = rule.rule.configuration
        given = configuration.numbers if configuration else {}
        for name, least in algorithm.minimums:
            if name not in given and configuration is not None:
                self.note(
                    rule.rule.line,
                    f"{configuration.algorithm} is {algorithm.name} with a fan-out of {least}",
                )
        return dict(algorithm.minimums) | given

    def note(self, line: int, what: str) -> None:
        self.notes.append(f"line {line}: {what}")


def _same_for_all(rows: tuple[Row, ...]) -> bool:
    said = {(row.algorithm, tuple(row.parameters.items())) for row in rows}
    if not said or said == {("ignore", ())}:
        return True
    left = 0
    for row in sorted(rows, key=lambda r: r.first):
        left = max(left, row.last + 1) if row.first <= left else left
    return len(said) == 1 and left > LARGEST_SIZE
