"""The format ``openmpi-classic``: a stream of numbers with rules for coll/tuned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.catalogue import Catalogue, CollectiveEntry, SizeUnit
from colltune.mpi.file_format import Note, Written
from colltune.mpi.openmpi.classic.reading import HEADER, NAME, ClassicFile
from colltune.mpi.openmpi.releases import LIBRARY, reads_version_header
from colltune.mpi.openmpi.tuned_format import TunedFormat, TunedRules
from colltune.mpi.openmpi.writing import Converter, chooser_of, steering
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Entries,
    Entry,
    Finding,
    Layout,
    Rule,
    Rules,
    end_of,
    ranged,
)


def _left(comm_size: int, collective: Collective) -> Entry:
    """Return the entry that leaves communicators from `comm_size` on to the library."""
    default = Configuration.default(LIBRARY, collective)
    return Entry(collective, 0, comm_size, LARGEST_COMM_SIZE, (Rule(0, "", collective, default),))


def _gapless(collective: Collective, entries: Iterable[Entry]) -> list[Entry]:
    """Return ascending entries with those that leave all other communicators to the library."""
    found = {0: _left(0, collective)}
    for entry in entries:
        found[entry.first_size] = entry
        if entry.last_size < LARGEST_COMM_SIZE:
            found[entry.last_size + 1] = _left(entry.last_size + 1, collective)
    return [entry for _, entry in sorted(found.items())]


def _said(entry: Entry) -> list[tuple[int, Configuration | None]]:
    return [(rule.first, rule.configuration) for rule in entry.rules]


def render(
    catalogue: Catalogue, heading: Sequence[str], entries: Mapping[Collective, Sequence[Entry]]
) -> str:
    """Return the text of a file; every collective's first entry has to be for 0 processes.

    A rule's text becomes its comment. The file has a version header if a rule limits requests,
    which no release reads without one. For 6.x every bound between entries is written twice, with
    the rules before and after it: that release takes a size for the end of the entries before,
    other ones for a start, and so it means the same to all.
    """
    every = (rule for found in entries.values() for entry in found for rule in entry.rules)
    requests = any("requests" in r.configuration.numbers for r in every if r.configuration)
    lines = [f"{HEADER}2"] if requests else []
    lines += [*(f"# {text}" for text in heading), f"{len(entries)} # collectives"]
    for collective, found in entries.items():
        known = catalogue.collectives[collective]
        written = [(found[0], "")]
        for before, entry in pairwise(found):
            if catalogue.series.startswith("6"):
                until = f"up to {entry.first_size - 1} processes for Open MPI 6"
                written.append((replace(before, first_size=entry.first_size), until))
            written.append((entry, ""))
        lines += [f"{known.id} # {collective}", f"{len(written)} # communicator sizes"]
        for entry, comment in written:
            left = "" if entry.chooses else _LEFT
            head = f"{entry.first_size} {len(entry.rules)}"
            lines.append(_commented(head, comment or left))
            lines += [_commented(_written_numbers(known, r), r.text) for r in entry.rules]
    return "\n".join(lines) + "\n"


_LEFT = "left to the library"


def _commented(text: str, comment: str) -> str:
    return f"{text} # {comment}" if comment else text


def _written_numbers(entry: CollectiveEntry, rule: Rule) -> str:
    chosen = rule.configuration
    algorithm = None if chosen is None else entry.named(chosen.algorithm)
    if chosen is None or chosen.is_default or algorithm is None:
        return f"{rule.first} 0 0 0"
    given = chosen.numbers
    requests = f" {given['requests']}" if "requests" in given else ""
    values = f"{given.get('fanout', 0)} {given.get('segsize', 0)}{requests}"
    return f"{rule.first} {algorithm.number} {values}"


def write(table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL) -> Written:
    chooser = chooser_of(OpenMpiClassic(), release, table, programs)
    chosen = chooser.by_size(table)
    heading = (
        f"Open MPI coll_tuned rules for {table.shape} (nodes x processes per node), release"
        f" {release}",
        f"Written by colltune for {programs.phrase}. All ranks must read the same file.",
        *table.warnings,
    )
    entries: dict[Collective, list[Entry]] = {}
    for entry in chosen:
        known = chooser.catalogue.collectives[entry.collective]
        rules = tuple(_compared(known, table.shape, entry))
        entries.setdefault(entry.collective, []).append(replace(entry, rules=rules))
    layouts = (
        f"{collective} on {shape} processes: this format cannot tell layouts apart, so the "
        f"rules for {shape.nprocs} processes in any layout hold"
        for collective, shape in sorted(table.by_layout)
    )
    beside, notes = steering(chooser.catalogue, table.shape, chosen)
    gapless = {collective: _gapless(collective, own) for collective, own in entries.items()}
    texts = {"": render(chooser.catalogue, heading, gapless)} | beside
    return Written(NAME, release, texts, (*chooser.notes, *layouts, *notes))


def _compared(known: CollectiveEntry, job: Shape, entry: Entry) -> Iterator[Rule]:
    """Yield the rules with sizes as the library compares them."""
    size = entry.first_size
    where = str(job) if size == job.nprocs else f"{size} processes"
    factor = {SizeUnit.MSIZE: 1, SizeUnit.MSIZE_TIMES_NPROCS: size}.get(known.size, 0)
    for rule in entry.rules:
        text = f"{entry.collective}, {where}: {rule.text}"
        yield rule._replace(text=text, first=rule.first * factor)


def _converted(parsed: TunedRules, release: str) -> tuple[str, list[Note]]:
    converter = _ToClassic(release, requests=False)
    kept = {
        collective: entries
        for collective, entries in converter.entries(parsed.entries)
        if any(entry.chooses for entry in entries)
    }
    heading = (f"Open MPI coll_tuned rules, converted from {parsed.format} for release {release}",)
    return render(converter.catalogue, heading, kept), converter.notes


class _ToClassic(Converter):
    def entries(self, found: Entries) -> Iterator[tuple[Collective, list[Entry]]]:
        for collective, entries in sorted(found.items()):
            if collective in self.catalogue.collectives:
                yield collective, self._of_collective(collective, entries)

    def _of_collective(self, collective: Collective, entries: Sequence[Entry]) -> list[Entry]:
        for entry in entries:
            if entry.layout is not Layout.ANY:
                what = (
                    f"the rules for {entry.layout} are left out, because this format cannot "
                    "tell distributions apart"
                )
                self.note(entry, what)
        told = [entry for entry in entries if entry.layout is Layout.ANY]
        sizes = [(entry.first_size, end_of(entry.last_size, LARGEST_COMM_SIZE)) for entry in told]
        alone = (
            replace(
                told[owner],
                first_size=max(0, first),
                last_size=LARGEST_COMM_SIZE if last is None else last,
                rules=self._rules(told[owner], max(0, first), last),
            )
            for first, last, owner in ranged(sizes)
            if owner is not None and (last is None or last >= 0)
        )
        merged: list[Entry] = []
        for entry in _gapless(collective, alone):
            if not merged or _said(entry) != _said(merged[-1]):
                merged.append(entry)
        return merged

    def _rules(
        self, communicators: Entry, first_size: int, last_size: int | None
    ) -> tuple[Rule, ...]:
        entry = self.catalogue.collectives[communicators.collective]
        default = Configuration.default(LIBRARY, entry.collective)
        rules = list(self.known(communicators.rules))
        pieces = ranged([(rule.first, end_of(rule.last, LARGEST_SIZE)) for rule in rules])
        found = {0: Rule(0, "", entry.collective, default)}
        first_at: Rule | Entry | None = None
        for first, last, owner in pieces:
            if last is not None and last < 0:
                continue
            rule = None if owner is None else rules[owner]
            first_at = first_at or rule or communicators
            chosen = self.target(rule, first_size, last_size) if rule is not None else default
            comment = "" if chosen.is_default else chosen.id.partition(".")[2]
            at = max(0, first)
            found[at] = Rule(0, comment, entry.collective, chosen, at)
        kept: list[Rule] = []
        for rule in found.values():
            if not kept or rule.configuration != kept[-1].configuration:
                kept.append(rule)
        if entry.one_rule and len(kept) > 1:
            what = (
                f"left to the library: for {entry.collective} only one rule for all sizes is safe"
            )
            self.note(first_at or communicators, what)
            return (Rule(0, "", entry.collective, default),)
        return tuple(kept)


_NUMBER = re.compile(r"[+-]?[0-9][0-9.,xXa-fA-FkKmMgG]*")
# what only the rules of coll/han have between their numbers
_OTHERS = frozenset({"self", "basic", "libnbc", "tuned", "sm", "adapt", "han", "xhc"})
_FIRST_BYTES, _ENOUGH, _MOSTLY = 65536, 0.9, 0.7


class OpenMpiClassic(TunedFormat):
    name = NAME
    title = "Open MPI's classic rules file for coll/tuned"

    def limit(self, release: str, configuration: Configuration) -> str:
        if "requests" in configuration.numbers and not reads_version_header(release):
            return f"{release} has no file that can set the limit of requests"
        return super().limit(release, configuration)

    def recognises(self, text: str) -> bool:
        head = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if head.startswith(HEADER):
            return True
        # the library skips words, and whole lines of them
        lines = [line.partition("#")[0].split() for line in head.split("\n")]
        counted = [any(map(_NUMBER.fullmatch, line)) for line in lines if line]
        words = [w for line in lines if any(map(_NUMBER.fullmatch, line)) for w in line]
        words = [word for word in words if not word.startswith("@")]
        numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)
        if sum(counted) < _MOSTLY * len(counted):
            return False
        return numbers > _ENOUGH * len(words) and not _OTHERS & {word.lower() for word in words}

    def parse(self, text: str, source: str, release: str) -> Rules:
        return ClassicFile(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.classic.lint import lint

        assert isinstance(parsed, ClassicFile)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        return write(table, release, programs=programs)

    def converted(self, parsed: TunedRules, release: str) -> tuple[str, list[Note]]:
        return _converted(parsed, release)
