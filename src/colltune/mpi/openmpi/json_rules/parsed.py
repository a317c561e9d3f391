"""A JSON rules file as an Open MPI release takes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import SizeUnit
from colltune.mpi.file_format import Call, Finding, Outcome, Rule
from colltune.mpi.openmpi import setup
from colltune.mpi.openmpi.releases import LIBRARY, entry_of
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    SizeRule,
    TunedMatch,
    counted_bytes,
)
from colltune.mpi.openmpi.variables import PREFIX, Variables

NAME = "openmpi-json"
Ranges = Mapping[Collective, tuple[CommunicatorRange, ...]]


@dataclass(frozen=True)
class ParsedRanges:
    """See `file_format.ParsedFile`; ``ends_program`` tells why programs die of the file."""

    release: str
    source: str
    dropped: str = ""
    rules: tuple[Rule, ...] = ()
    findings: tuple[Finding, ...] = ()
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
