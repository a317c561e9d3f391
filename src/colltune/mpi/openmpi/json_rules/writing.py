"""Writes decision tables and the rules of other files as JSON rules.

The file tells layouts apart as far as it can: communicators with a process on each node, and those
on a single node, have entries of their own; all others get what the table says for the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.choosing import even_layouts, left
from colltune.mpi.file_format import Format, Note, Written
from colltune.mpi.openmpi.decide.tuned import library_name
from colltune.mpi.openmpi.json_rules.lint import SENDER_DECIDES, is_reached, is_rule_reached
from colltune.mpi.openmpi.json_rules.reading import NAME
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.mpi.openmpi.writing import Converter, chooser_of, steering
from colltune.mpi.programs import Programs
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Entries,
    Entry,
    Layout,
    Rule,
    union_of,
)

_KEYS = {"fanout": "faninout", "segsize": "seg_size", "requests": "reqs"}


def render(blocks: Iterable[Entry]) -> str:
    """Return the file that holds `blocks` in their order, by collective."""
    by_collective: dict[Collective, list[str]] = {}
    for block in blocks:
        by_collective.setdefault(block.collective, []).append(_block(block))
    texts = [
        f"    {json.dumps(str(collective))}: [\n" + ",\n".join(own) + "\n    ]"
        for collective, own in sorted(by_collective.items())
    ]
    inside = "\n" + ",\n".join(texts) + "\n  " if texts else ""
    return (
        f'{{\n  "rule_file_version": 3,\n  "module": "tuned",\n  "collectives": {{{inside}}}\n}}\n'
    )


def _block(block: Entry) -> str:
    head = []
    if block.first_size > 0:
        head.append(f'"comm_size_min": {block.first_size}')
    # to the library "inf" is no size of a communicator
    if block.last_size < LARGEST_COMM_SIZE:
        head.append(f'"comm_size_max": {block.last_size}')
    if block.layout is not Layout.ANY:
        head.append(f'"comm_rank_distribution": "{block.layout}"')
    rows = ",\n".join(f"          {json.dumps(dict(_values(rule)))}" for rule in block.rules)
    inside = f"\n{rows}\n        " if rows else ""
    first = f"        {', '.join(head)},\n" if head else ""
    return f'      {{\n{first}        "rules": [{inside}]\n      }}'


def _values(rule: Rule) -> Iterator[tuple[str, int | str]]:
    chosen = rule.configuration
    assert chosen is not None  # nothing else is written
    if rule.first > 0 or rule.last < LARGEST_SIZE:
        yield "msg_size_min", rule.first
        yield "msg_size_max", rule.last if rule.last < LARGEST_SIZE else "inf"
    yield "alg", "ignore" if chosen.is_default else library_name(chosen.algorithm)
    yield from ((_KEYS[name], value) for name, value in chosen.numbers.items() if value)


def _rule(chosen: Configuration, first: int, last: int) -> Rule:
    return Rule(0, "", chosen.collective, chosen, first, last)


def write(table: DecisionTable, release: str, form: Format, *, programs: Programs) -> Written:
    """Return `table` as JSON rules, and the file that makes coll/han hand the calls on."""
    chooser = chooser_of(form, release, table, programs)
    planner = _Planner(table.shape, chooser.by_size(table), chooser.by_layout(table))
    known = chooser.catalogue.collectives
    text = render(_compared(known[entry.collective], entry) for entry in planner.entries())
    beside, notes = steering(chooser.catalogue, table.shape, planner.spanning())
    return Written(NAME, release, {"": text} | beside, (*chooser.notes, *planner.notes, *notes))


def _compared(known: CollectiveEntry, entry: Entry) -> Entry:
    """Return an entry as the library compares sizes; those without a rule are left to it."""
    factor = entry.first_size if known.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
    rules = (
        rule._replace(
            first=rule.first * factor, last=min((rule.last + 1) * factor - 1, LARGEST_SIZE)
        )
        for rule in entry.rules
        if rule.configuration and not rule.configuration.is_default
    )
    return replace(entry, rules=tuple(rule for rule in rules if rule.first < LARGEST_SIZE))


_Steps = tuple[Rule, ...]


class _Planner:
    """Finds the entries that tell layouts apart as far as the format can."""

    def __init__(self, job: Shape, by_size: list[Entry], by_layout: list[Entry]) -> None:
        self.job = job
        self.by_size = {(entry.collective, entry.first_size): entry.rules for entry in by_size}
        self.by_layout = {(entry.collective, entry.layout): entry.rules for entry in by_layout}
        keys = {(entry.collective, entry.first_size) for entry in (*by_size, *by_layout)}
        self.keys = sorted(key for key in keys if key[1] > 1)
        self.notes: list[str] = []

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in their order: what is told by layout goes first."""
        for collective, size in self.keys:
            found = self._layouts(collective, size)
            general = self._general(collective, size, found) or (left(LIBRARY, collective),)
            whole = Entry(collective, 0, size, size, general)
            for shape, layout in (
                (Shape(size, 1), Layout.ONE_PER_NODE),
                (Shape(1, size), Layout.SINGLE_NODE),
            ):
                if size != self.job.nprocs and found.get(shape, general) != general:
                    yield replace(whole, layout=layout, rules=found[shape])
            if whole.chooses:
                yield whole

    def spanning(self) -> Iterator[Entry]:
        """Yield what coll/han has to hand on, by communicator size."""
        for collective, size in self.keys if self.job.nodes > 1 else ():
            layouts = self._layouts(collective, size)
            spans = [rules for shape, rules in layouts.items() if shape.nodes > 1]
            wanted = list(dict.fromkeys(spans or [self._of_size(collective, size)]))
            entry = Entry(collective, 0, size, size, _union(collective, wanted))
            if not entry.chooses:
                continue
            if len(wanted) > 1:
                self.notes.append(
                    f"{collective} on {size} processes: coll/han's file cannot tell layouts "
                    "apart, so coll/tuned decides on all of them if it decides on one"
                )
            yield entry

    def _of_size(self, collective: Collective, size: int) -> _Steps:
        return self.by_size.get((collective, size), (left(LIBRARY, collective),))

    def _layouts(self, collective: Collective, size: int) -> dict[Shape, _Steps]:
        """Return what the table says for each way in which the processes can lie evenly."""
        other = self._of_size(collective, size)
        return {
            shape: self.by_layout.get((collective, shape), other)
            for shape in even_layouts(size, self.job)
        }

    def _general(
        self, collective: Collective, size: int, found: Mapping[Shape, _Steps]
    ) -> _Steps | None:
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
                f"{collective} on {size} processes: the file cannot tell {shapes} apart, so "
                "all of them get the rules for this size"
            )
        if not others and (collective, size) not in self.by_size:
            # the library often does not notice that every process has a node of its own
            return found.get(Shape(size, 1))
        return self.by_size.get((collective, size))


def _union(collective: Collective, wanted: list[_Steps]) -> _Steps:
    """Return rules that choose wherever one of `wanted` does."""
    if len(wanted) == 1:
        return wanted[0]
    found = []
    for first in sorted({rule.first for rules in wanted for rule in rules}):
        said = (rule.configuration for rules in wanted for rule in rules if rule.takes(first))
        default = Configuration.default(LIBRARY, collective)
        chosen = next((c for c in said if c and not c.is_default), default)
        found.append(_rule(chosen, first, LARGEST_SIZE))
    return tuple(found)


def converted(ranges: Entries, release: str) -> tuple[str, list[Note]]:
    converter = _ToJson(release)
    blocks = [block for entries in ranges.values() for block in converter.blocks(entries)]
    return render(blocks), converter.notes


class _ToJson(Converter):
    def blocks(self, entries: tuple[Entry, ...]) -> Iterator[Entry]:
        for at, one in enumerate(entries):
            if not is_reached(entries[:at], one):
                self.note(one, "left out, because it is never reached")
                continue
            rules = tuple(self._rules(one))
            if one.collective in SENDER_DECIDES and not _same_for_all(rules):
                what = f"several rules for {one.collective}, so processes may choose"
                self.note(one, f"{what} different ones: left to the library")
                rules = ()
            yield replace(one, first_size=max(0, one.first_size), rules=rules)

    def _rules(self, one: Entry) -> Iterator[Rule]:
        """Yield the rules of an entry, those that leave the choice to the library included."""
        entry = self.catalogue.collectives[one.collective]
        before: list[Rule] = []
        for rule in self.known(one.rules):
            if is_rule_reached(entry, before, rule):
                chosen = self.target(rule, one.first_size, one.last_size)
                yield _rule(chosen, rule.first, min(rule.last, LARGEST_SIZE))
            else:
                self.note(rule, "left out, because it is never reached")
            before.append(rule)


def _same_for_all(rules: tuple[Rule, ...]) -> bool:
    said = {rule.configuration for rule in rules}
    if all(chosen is None or chosen.is_default for chosen in said):
        return True
    return len(said) == 1 and union_of(rules).covers(0, LARGEST_SIZE)
