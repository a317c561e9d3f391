"""Writes rules that were read from a file, of JSON or another format, as JSON again."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.domain import Collective
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit
from colltune.mpi.file_format import Written
from colltune.mpi.openmpi.forced import library_name
from colltune.mpi.openmpi.json_rules import lint
from colltune.mpi.openmpi.json_rules.parsed import NAME, Ranges
from colltune.mpi.openmpi.json_rules.rendering import Block, Row, render
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.rules import (
    LARGEST_SIZE,
    CommunicatorRange,
    SizeRule,
)

_BY_SENDER = frozenset({Collective.ALLGATHERV, Collective.GATHER, Collective.SCATTER})


def convert(ranges: Ranges, release: str) -> Written:
    """Return JSON rules for `release` that say what `ranges` do; notes tell what is left out.

    Left out is what is never reached, and what would break programs.
    """
    converter = _Converter(release)
    blocks = [block for entries in ranges.values() for block in converter.blocks(entries)]
    return Written(NAME, release, {"": render(blocks)}, tuple(dict.fromkeys(converter.notes)))


class _Converter:
    def __init__(self, release: str) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.notes: list[str] = []

    def blocks(self, entries: tuple[CommunicatorRange, ...]) -> Iterator[Block]:
        """Yield what is to be written for one collective."""
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
        name = algorithm.name
        sizes = (max(2, communicator.first_size), communicator.last_size)
        if algorithm.wrong:
            return f"{name}: {algorithm.wrong}"
        if Limit.TWO_PROCESSES in algorithm.limits and sizes != (2, 2):
            return f"{name} ends the program unless there are 2 processes"
        parameters = self.parameters(algorithm, rule)
        for parameter, least in algorithm.minimums:
            if parameters[parameter] < least:
                return f"{name} never ends with a fan-out below {least}"
        return ""

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
