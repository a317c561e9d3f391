"""A classic rules file as one release of Open MPI reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from colltune.domain import Collective
from colltune.mpi.catalogue import SizeUnit
from colltune.mpi.file_format import Call, Outcome, Rule
from colltune.mpi.openmpi import setup
from colltune.mpi.openmpi.classic import reading
from colltune.mpi.openmpi.classic.reading import Entry, MessageRule, Section
from colltune.mpi.openmpi.releases import catalogue_of, reads_version_header
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    SizeRule,
    TunedMatch,
    counted_bytes,
)
from colltune.mpi.openmpi.running import Numbers, configuration_of
from colltune.mpi.openmpi.spans import Spans, ranged, scanned
from colltune.mpi.openmpi.variables import PREFIX, as_int

NAME = "openmpi-classic"


class ClassicFile:
    """What `release` makes of the classic rules file `text`; see `file_format.ParsedFile`."""

    format = NAME

    def __init__(self, text: str, source: str, release: str) -> None:
        self.text, self.source, self.release = text, source, release
        self.catalogue = catalogue_of(release)
        self.content = reading.read(text, knows_header=reads_version_header(release))
        self.by_id = {entry.id: entry for entry in self.catalogue.collectives.values()}
        self.by_ranges = self.catalogue.series.startswith("6")
        # a collective that stands twice keeps its last section
        self.sections: dict[Collective, Section] = {
            self.by_id[section.id.value].collective: section
            for section in self.content.sections
            if section.id.value in self.by_id
        }
        self._rules = {
            id(rule): self._rule(section, rule)
            for section in self.content.sections
            if section.id.value in self.by_id
            for entry in section.entries
            for rule in entry.rules
        }
        self._messages: dict[int, Spans] = {}
        self._communicators: dict[Collective, Spans] = {}

    @property
    def dropped(self) -> str:
        if self.by_ranges and self.text.lstrip().startswith("{"):
            return "it is JSON, which this release does not read as a classic file"
        if not self.content.drops:
            return ""
        line, why = self.content.drops[0]
        return f"line {line}: {why}"

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self._rules.values())

    @cached_property
    def ranges(self) -> dict[Collective, tuple[CommunicatorRange, ...]]:
        """The rules in effect, as ranges that do not overlap; empty for a file that is dropped."""
        if self.dropped:
            return {}
        return {
            collective: tuple(
                CommunicatorRange(
                    collective,
                    section.entries[owner].comm_size.line,
                    first,
                    LARGEST_COMM_SIZE if last is None else last,
                    Distribution.ANY,
                    tuple(self._size_rules(section.entries[owner])),
                )
                for first, last, owner in self.communicators(collective).pieces()
                if owner is not None
            )
            for collective, section in self.sections.items()
        }

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`.

        By default in an environment that tells of this file and nothing else. Of another one, the
        rules file that it names is taken to be this one.
        """
        if environment is None:
            environment = {
                f"{PREFIX}{setup.USE_RULES}": "1",
                f"{PREFIX}{setup.RULES_FILE}": self.source,
            }
        return setup.decide(self.release, call, environment, self)

    def match(self, call: Call) -> TunedMatch | None:
        """Return the rule that the release looks at for `call`; None if there is none."""
        section = self.sections.get(call.collective)
        if section is None or self.dropped:
            return None
        position = self.communicators(call.collective).at(call.comm_size)
        if position is None:
            return None
        entry = section.entries[position]
        size = counted_bytes(self.catalogue.collectives[call.collective], call)
        found = self.messages(entry).at(size)
        if found is None:
            return None
        rule = entry.rules[found]
        reason = self._reason(call, entry, position, rule, size)
        return TunedMatch(self.rule_of(rule), _numbers(rule), reason)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        if collective not in self.sections or self.dropped:
            return ()
        starts = self.communicators(collective).starts
        return tuple(sorted({max(2, start) for start in starts}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        section = self.sections.get(collective)
        if section is None or self.dropped:
            return (0,)
        position = self.communicators(collective).at(comm_size)
        unit = self.catalogue.collectives[collective].size
        if position is None or unit is SizeUnit.CONSTANT:
            return (0,)
        factor = comm_size if unit is SizeUnit.MSIZE_TIMES_NPROCS else 1
        starts = self.messages(section.entries[position]).starts
        return tuple(sorted({0, *(-(-start // factor) for start in starts)}))

    def rule_of(self, rule: MessageRule) -> Rule:
        return self._rules[id(rule)]

    def communicators(self, collective: Collective) -> Spans:
        """Return on which communicators each entry of a collective holds."""
        if collective not in self._communicators:
            sizes = [as_int(entry.comm_size.value) for entry in self.sections[collective].entries]
            if self.by_ranges:
                # 6.x takes the sizes for the ends of the entries before
                lows = [0, *sizes[:-1]]
                highs: list[int | None] = [size - 1 for size in sizes[:-1]]
                spans = ranged(list(zip(lows, [*highs, None], strict=False))[: len(sizes)])
            else:
                spans = scanned(sizes, inherit=True)
            self._communicators[collective] = spans
        return self._communicators[collective]

    def messages(self, entry: Entry) -> Spans:
        """Return for which sizes, as the library counts them, each rule of an entry holds."""
        if id(entry) not in self._messages:
            sizes = [rule.size.value for rule in entry.rules]
            if self.by_ranges:
                ends = [size - 1 if size else None for size in sizes[1:]]
                spans = ranged(list(zip(sizes, [*ends, None], strict=False)))
            else:
                spans = scanned(sizes, inherit=False)
            self._messages[id(entry)] = spans
        return self._messages[id(entry)]

    def _size_rules(self, entry: Entry) -> Iterator[SizeRule]:
        for first, last, owner in self.messages(entry).pieces():
            if owner is not None:
                rule = self.rule_of(entry.rules[owner])
                end = LARGEST_SIZE if last is None else last
                numbers = _numbers(entry.rules[owner])
                known = rule.configuration is not None
                yield SizeRule(rule, first, end, numbers, {}, known)

    def _rule(self, section: Section, rule: MessageRule) -> Rule:
        entry = self.by_id[section.id.value]
        configuration = configuration_of(entry, _numbers(rule))
        return Rule(rule.line, rule.text, entry.collective, configuration)

    def _reason(self, call: Call, entry: Entry, position: int, rule: MessageRule, size: int) -> str:
        first, last = next(
            (first, last)
            for first, last in self.communicators(call.collective).of(position)
            if first <= call.comm_size and (last is None or call.comm_size <= last)
        )
        reach = f"{first} to {last} processes" if last is not None else f"{first} and more"
        return (
            f"{self.source}:{rule.line}: the rule '{rule.text}' holds: it is the one from"
            f" {rule.size.value} bytes on in the entry for {entry.comm_size.value} processes, which"
            f" serves {reach}, and the library counts {size} bytes for this call."
        )


def _numbers(rule: MessageRule) -> Numbers:
    requests = None if rule.requests is None else rule.requests.value
    return Numbers(rule.algorithm.value, rule.fanout.value, rule.segsize.value, requests)
