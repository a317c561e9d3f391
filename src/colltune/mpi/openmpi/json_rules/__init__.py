"""The format ``openmpi-json``: rules for coll/tuned with ranges, from Open MPI 6.0 on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.catalogue import SizeUnit
from colltune.mpi.file_format import (
    Call,
    Fault,
    Finding,
    Outcome,
    ParsedFile,
    Rule,
    Written,
    refuse_dropped,
)
from colltune.mpi.openmpi import setup
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of, entry_of
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    RangedFile,
    Ranges,
    SizeRule,
    TunedMatch,
    counted_bytes,
)
from colltune.mpi.openmpi.tuned_format import TunedFormat
from colltune.mpi.openmpi.variables import PREFIX, Variables

if TYPE_CHECKING:
    from colltune.mpi.located_json import JsonSyntaxError

NAME = "openmpi-json"


@dataclass(frozen=True)
class ParsedRanges:
    """See `file_format.ParsedFile`; ``ends_program`` tells why programs die of the file."""

    release: str
    source: str
    dropped: str = ""
    rules: tuple[Rule, ...] = ()
    form_findings: tuple[Finding, ...] = ()
    ends_program: str = ""
    ranges: Ranges = field(default_factory=dict)
    format: str = NAME

    def match(self, call: Call) -> TunedMatch | None:
        """Return the rule for a call: the first of the first entry for its communicator."""
        communicator = self._communicator(call)
        if communicator is None:
            return None
        compared = counted_bytes(entry_of(self.release, call.collective), call)
        found = next((rule for rule in communicator.rules if rule.takes(compared)), None)
        if found is None:
            return None
        return TunedMatch(found.rule, found.numbers, self._reason(call, compared, found))

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        if environment is None:
            environment = {
                f"{PREFIX}{setup.USE_RULES}": "1",
                f"{PREFIX}{setup.RULES_FILE}": self.source or NAME,
            }
        if self.dropped or self.ends_program:
            return self._without_rules(call, environment)
        return setup.decide(self.release, call, environment, tuned=self)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        ends: set[int] = set()
        for communicator in self.ranges.get(collective, ()):
            if communicator.first_size <= communicator.last_size:
                ends |= {max(0, communicator.first_size), communicator.last_size + 1}
        return tuple(sorted(size for size in ends if 0 <= size <= LARGEST_COMM_SIZE))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = {0}
        entry = entry_of(self.release, collective)
        factor = comm_size if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
        if entry.size is SizeUnit.CONSTANT or comm_size < 1:
            return (0,)
        for rule in self._rules_for(collective, comm_size, nodes):
            firsts = [rule.first, rule.last + 1]
            points |= {-(-first // factor) for first in firsts if first <= LARGEST_SIZE}
        return tuple(sorted(points))

    def _rules_for(self, collective: Collective, comm_size: int, nodes: int) -> Iterator[SizeRule]:
        for is_world in (True, False):
            call = Call(collective, comm_size, 0, nodes, is_world=is_world)
            communicator = self._communicator(call)
            if communicator is not None:
                yield from (rule for rule in communicator.rules if rule.known)

    def _communicator(self, call: Call) -> CommunicatorRange | None:
        return next(
            (
                entry
                for entry in self.ranges.get(call.collective, ())
                if entry.takes(call.comm_size, call.nodes, is_world=call.is_world)
            ),
            None,
        )

    def _reason(self, call: Call, compared: int, found: SizeRule) -> str:
        where = "MPI_COMM_WORLD" if call.is_world else "a communicator"
        return (
            f"{self.source}:{found.rule.line}: the first rule that takes {call.collective} of"
            f" {compared} bytes (as the library counts them) on {where} of {call.comm_size}"
            " processes."
        )

    def _without_rules(self, call: Call, environment: Mapping[str, str]) -> Outcome:
        outcome = setup.decide(self.release, call, environment)
        variables = Variables(environment)
        if not variables.flag(setup.USE_RULES, False) or not variables.text(setup.RULES_FILE):
            return outcome
        why = f"{self.source}: {self.ends_program or self.dropped}"
        return Outcome(
            outcome.configuration,
            None,
            (f"{why}.", *outcome.reasons),
            Configuration.default(LIBRARY, call.collective),
            outcome.component,
            why if self.ends_program else outcome.ends_program,
            outcome.inner,
        )


_OWN_KEYS = re.compile(
    r'"(?:collectives|rule_file_version|(?:comm|msg)_size_m(?:in|ax)|comm_rank_distribution)"\s*:'
)
_FIRST_SERIES = 6


class OpenMpiJson(TunedFormat):
    name = NAME
    title = "Open MPI's JSON rules for coll/tuned (6.0 and later)"
    knows_layout = True

    def recognises(self, text: str) -> bool:
        return text.lstrip("\ufeff \t\r\n").startswith("{") and bool(_OWN_KEYS.search(text))

    def unreadable_by(self, release: str) -> str:
        series = catalogue_of(release).series
        if int(series.partition(".")[0]) >= _FIRST_SERIES:
            return ""
        return f"Open MPI {release} reads classic rules files only; JSON came with 6.0"

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        from colltune.mpi import located_json
        from colltune.mpi.openmpi.json_rules import reading

        unreadable = self.unreadable_by(release)
        plain = text.removeprefix("\ufeff")
        if not plain.lstrip(" \t\r\n").startswith(("{", "[")):
            raise LibraryError(f"{source}: no JSON rules: these begin with a brace")
        try:
            root = located_json.parse(plain, trailing_commas=True)
        except located_json.JsonSyntaxError as error:
            return _no_json(source, release, error, unreadable)
        found = reading.read(root, catalogue_of(release))
        return ParsedRanges(
            release,
            source,
            unreadable or found.dropped,
            tuple(found.rules),
            (_other_release(unreadable),) if unreadable else tuple(found.findings),
            "" if unreadable else found.ends_program,
            found.ranges,
        )

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.json_rules import lint

        assert isinstance(parsed, ParsedRanges)
        found = list(parsed.form_findings)
        if not parsed.dropped and not parsed.ends_program:
            found += lint.lint(parsed.ranges, catalogue_of(parsed.release), parsed.release)
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        from colltune.mpi.openmpi.json_rules import writing

        unreadable = self.unreadable_by(release)
        if unreadable:
            raise LibraryError(f"{unreadable}; write the format openmpi-classic for it")
        texts, notes = writing.write(
            table, release, builtin_operations_only=builtin_operations_only
        )
        return Written(NAME, release, texts, notes)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        from colltune.mpi.openmpi.json_rules import writing

        unreadable = self.unreadable_by(release)
        if unreadable:
            raise LibraryError(f"{unreadable}; convert to openmpi-classic for it")
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, ParsedRanges) else "")
        if not isinstance(parsed, RangedFile):
            raise LibraryError(
                f"{parsed.source}: what {parsed.format} says cannot be said in {NAME}"
            )
        text, notes = writing.convert(parsed.ranges, release)
        return Written(NAME, release, {"": text}, notes)


def _no_json(source: str, release: str, error: JsonSyntaxError, unreadable: str) -> ParsedRanges:
    why = f"line {error.line}: this is no JSON: {error}"
    if unreadable:
        return ParsedRanges(release, source, unreadable, (), (_other_release(unreadable),))
    finding = Finding(
        error.line,
        Fault.FILE_DROPPED,
        f"this is no JSON: {error}; the library tries to read the file as a classic one then, and"
        " drops it without a word",
        "correct the JSON",
    )
    return ParsedRanges(release, source, why, (), (finding,))


def _other_release(unreadable: str) -> Finding:
    message = f"{unreadable}: the library drops the file without a word"
    mend = "convert it to openmpi-classic"
    return Finding(0, Fault.FILE_DROPPED, message, mend)
