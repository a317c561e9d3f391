"""What of a decision table may be written for a release, and for which sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.release import Release
from colltune.mpi.rules import LARGEST_SIZE, Entry, Layout, Rule
from colltune.mpi.running import Promises, RunningRange
from colltune.text import counted

ELEMENT_BYTES = 8
"""Largest element for which a written algorithm is sure to run as itself: a double."""


class Chooser:
    """Makes rules of what may be written of a table, and notes what may not.

    Their sizes are our ``msize_bytes``, their texts tell what they name from which size on.
    `why_one_rule` tells why some collectives have one rule for all message sizes at most;
    `promises` what holds wherever the file is read.
    """

    def __init__(self, bound: Release, why_one_rule: str, promises: Promises) -> None:
        self.bound, self.why_one_rule, self.promises = bound, why_one_rule, promises
        self.catalogue = bound.catalogue
        self.notes: list[str] = []

    def by_size(self, table: DecisionTable) -> list[Entry]:
        """Return the entries of ``table.rules`` that may be written and choose anything."""
        check_library(table, self.bound)
        rules = sorted(table.rules.items(), key=lambda item: item[0])
        found = [self.entry(collective, size, own) for (collective, size), own in rules]
        return [entry for entry in found if entry.chooses]

    def by_layout(self, table: DecisionTable) -> list[Entry]:
        """Return the entries of ``table.by_layout``, also where all is left to the library."""
        rules = sorted(table.by_layout.items(), key=lambda item: item[0])
        return [self.entry(collective, shape, own) for (collective, shape), own in rules]

    def spelled(self, configuration: Configuration) -> Configuration:
        return self.bound.canonical(configuration)

    def runs(self, on: int | Shape, interval: Interval) -> RunningRange:
        """Return for which sizes the configuration may be written."""
        return self.bound.runs(interval.configuration, on, self.promises)

    def leave(self, where: str, interval: Interval, why: str) -> None:
        """Note `why` an interval is left to the library; empty: the table says so."""
        if why:
            self.notes.append(f"{where}, {span(interval)}: left to the library: {why}")

    def entry(
        self, collective: Collective, on: int | Shape, intervals: Sequence[Interval]
    ) -> Entry:
        """Return what may be written of the intervals for one size of communicators, or layout."""
        size, layout = (on.nprocs, on) if isinstance(on, Shape) else (on, Layout.ANY)
        return Entry(
            collective, 0, size, size, self._rules(collective, on, size, intervals), layout
        )

    def _rules(
        self, collective: Collective, on: int | Shape, size: int, intervals: Sequence[Interval]
    ) -> tuple[Rule, ...]:
        where = f"{collective} on {on} processes"
        check_intervals(where, collective, intervals)
        steps: list[tuple[int, Configuration, Status]] = []
        if size < 2:
            self.notes.append(f"{where}: needs no algorithm")
            intervals = ()
        for step in (step for interval in intervals for step in self._of(where, on, interval)):
            if not steps or step[1] != steps[-1][1]:
                steps.append(step)
            elif step[2] is not steps[-1][2]:
                steps[-1] = (*steps[-1][:2], Status.PREDICTED)
        if collective in self.bound.one_rule and len(steps) > 1:
            self.notes.append(
                f"{where}: left to the library{self.why_one_rule}, but the table has "
                f"{counted(len(steps), 'range')}"
            )
            steps = []
        lasts = [*(first - 1 for first, *_ in steps[1:]), LARGEST_SIZE]
        return tuple(
            Rule(0, _text(*step), collective, step[1], step[0], last)
            for step, last in zip(steps, lasts, strict=False)
        ) or (left(self.bound.space.library, collective),)

    def _of(
        self, where: str, on: int | Shape, interval: Interval
    ) -> list[tuple[int, Configuration, Status]]:
        """Return the interval's choice, after a step left to the library where that is needed."""
        configuration, first = interval.configuration, interval.first_bytes
        default = Configuration.default(self.bound.space.library, configuration.collective)
        if configuration.is_default:
            self.leave(where, interval, "")
            return [(first, default, interval.status)]
        runs = self.runs(on, interval)
        pieces = list(runs.pieces(first, interval.last_bytes))
        if not any(may for *_, may in pieces):
            self.leave(where, interval, runs.reason)
            return [(first, default, Status.PREDICTED)]
        spelled, steps = self.spelled(configuration), list[tuple[int, Configuration, Status]]()
        for begins, ends, may in pieces:
            if may:
                steps.append((begins, spelled, interval.status))
                continue
            steps.append((begins, default, Status.PREDICTED))
            if runs.parts is None:
                self.notes.append(
                    f"{where}, {span(interval)}: left to the library below "
                    f"{counted((ends or 0) + 1, 'byte')}, because {spelled.algorithm} may fall "
                    "back to another algorithm there"
                )
            else:
                part = replace(interval, first_bytes=begins, last_bytes=ends)
                self.leave(where, part, runs.reason)
        return steps


def left(library: str, collective: Collective) -> Rule:
    """Return the rule that leaves all messages to the library."""
    default = Configuration.default(library, collective)
    return Rule(0, _text(0, default, Status.PREDICTED), collective, default)


def _text(first_bytes: int, configuration: Configuration, status: Status) -> str:
    values = configuration.parameter_text.replace(",", " ")
    told = "" if status is Status.PREDICTED else f", {status}"
    what = f"{configuration.algorithm} {values}".rstrip()
    return f"{what} from {first_bytes} bytes{told}"


def check_library(table: DecisionTable, bound: Release) -> None:
    if table.library != bound.mpi.name:
        raise say("table-not-writable", library=table.library, title=bound.mpi.title)


def check_intervals(where: str, collective: Collective, intervals: Sequence[Interval]) -> None:
    """Refuse intervals with a gap or of another collective; `where` begins the message."""
    expected: int | None = 0
    for interval in intervals:
        if interval.first_bytes != expected or interval.configuration.collective != collective:
            break
        expected = None if interval.last_bytes is None else interval.last_bytes + 1
        if expected is not None and expected <= interval.first_bytes:
            break
    else:
        if intervals and expected is None:
            return
    raise say("intervals-of-table", where=where)


def span(interval: Interval) -> str:
    """Return the message sizes of an interval for people."""
    end = "on" if interval.last_bytes is None else f"to {interval.last_bytes} bytes"
    return f"from {interval.first_bytes} {end}"


@lru_cache(maxsize=256)
def even_layouts(comm_size: int, job: Shape) -> tuple[Shape, ...]:
    """Return all ways in which processes can lie evenly on a job, fewest nodes first."""
    return tuple(
        Shape(nodes, comm_size // nodes)
        for nodes in sorted(_divisors(comm_size))
        if nodes <= job.nodes and comm_size // nodes <= job.ppn
    )


def _divisors(number: int) -> list[int]:
    """Return the divisors, out of the prime factors, which are found soon for real jobs."""
    found, rest, factor = [1], number, 2
    while rest > 1:
        if factor * factor > rest:
            factor = rest
        power, grown = 1, list(found)
        while rest % factor == 0:
            rest //= factor
            power *= factor
            grown += [divisor * power for divisor in found]
        found = grown
        factor += 1
    return found
