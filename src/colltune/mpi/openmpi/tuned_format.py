"""What the formats with rules for coll/tuned share: the parsed file, and how it takes effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import SizeUnit
from colltune.mpi.file_format import Call, Finding, Format, Outcome, ParsedFile, Rule, absolute_path
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.decide import TunedMatch, decide
from colltune.mpi.openmpi.decide.tuned import counted_bytes
from colltune.mpi.openmpi.ranges import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Ranges,
    SizeRule,
)
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.mpi.openmpi.han import HanFile

DISPATCH = ".dispatch"
"""End of the name of coll/han's file beside the rules for coll/tuned."""


class TunedFile:
    """What a release makes of a file with rules for coll/tuned; see `file_format.ParsedFile`.

    ``ranges`` are the rules in effect; of several that take a call the first one counts.
    ``ends_program`` tells why programs die of the file; ``form_findings`` what is wrong with its
    form. ``han`` is a file for coll/han beside it, ``activation`` what puts both into effect.
    """

    format: str
    dropped = ""
    ends_program = ""
    ranges: Ranges = MappingProxyType({})
    rules: tuple[Rule, ...] = ()
    form_findings: tuple[Finding, ...] = ()
    # from which communicator size on decisions are told apart
    least_comm_size = 0
    han: HanFile | None = None
    activation: Mapping[str, str] | None = None

    def __init__(self, source: str, release: str) -> None:
        self.source, self.release, self.catalogue = source, release, catalogue_of(release)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`; a rules file that is named is this one."""
        if environment is None:
            by_default = {mca.USE_RULES: "1", mca.RULES_FILE: self.source or self.format}
            environment = self.activation or mca.environment(by_default)
        return decide(self.release, call, environment, self, self.han)

    def match(self, call: Call) -> TunedMatch | None:
        """Return the rule for a call: the first of the first entry for its communicator."""
        communicator = self._communicator(call)
        if communicator is None:
            return None
        compared = counted_bytes(self.catalogue.collectives[call.collective], call)
        found = next((rule for rule in communicator.rules if rule.takes(compared)), None)
        if found is None:
            return None
        reason = self.reason(call, communicator, found, compared)
        return TunedMatch(found.rule, found.numbers, f"{self.source}:{found.rule.line}: {reason}")

    def reason(
        self, call: Call, communicator: CommunicatorRange, found: SizeRule, compared: int
    ) -> str:
        """Return why a rule is the one for a call."""
        where = "MPI_COMM_WORLD" if call.is_world else "a communicator"
        return (
            f"the first rule that fits applies: {call.collective} of "
            f"{counted(compared, 'byte')} (as the library counts them) on {where} of "
            f"{counted(call.comm_size, 'process', 'es')}."
        )

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        ends: set[int] = set()
        for one in self.ranges.get(collective, ()):
            if one.first_size <= one.last_size:
                ends |= {one.first_size, one.last_size + 1}
        least = self.least_comm_size
        return tuple(sorted({max(least, size) for size in ends if size <= LARGEST_COMM_SIZE}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = set(self.han.switch_points(collective, comm_size, nodes)) if self.han else {0}
        entry = self.catalogue.collectives.get(collective)
        if entry is None or entry.size is SizeUnit.CONSTANT or comm_size < 1:
            return tuple(sorted(points))
        factor = comm_size if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
        rules = list(self._rules_for(collective, comm_size, nodes))
        firsts = {*(rule.first for rule in rules), *(rule.last + 1 for rule in rules)}
        points |= {-(-first // factor) for first in firsts if first <= LARGEST_SIZE}
        return tuple(sorted({0, *points}))

    def _rules_for(self, collective: Collective, comm_size: int, nodes: int) -> Iterator[SizeRule]:
        for is_world in (True, False):
            call = Call(collective, comm_size, 0, nodes, is_world=is_world)
            communicator = self._communicator(call)
            if communicator is not None:
                yield from (rule for rule in communicator.rules if not rule.ignored)

    def _communicator(self, call: Call) -> CommunicatorRange | None:
        entries = self.ranges.get(call.collective, ())
        size, nodes, is_world = call.comm_size, call.nodes, call.is_world
        return next((one for one in entries if one.takes(size, nodes, is_world=is_world)), None)


class TunedFormat(Format):
    library = LIBRARY

    def why_not_expressed(self, release: str, configuration: Configuration) -> str:
        if han_setups.is_setup(configuration):
            return f"{self.name} cannot express {configuration.id}, which holds for a whole job"
        return super().why_not_expressed(release, configuration)

    def with_others(
        self, parsed: ParsedFile, environment: Mapping[str, str], activation: Mapping[str, str]
    ) -> ParsedFile:
        """Return rules with those for coll/han that are named: these hand on calls over nodes."""
        from colltune.mpi.formats import read_text
        from colltune.mpi.openmpi.han import OpenMpiHan

        named = environment.get(f"{mca.PREFIX}{mca.HAN_RULES_FILE}")
        if named is None or not isinstance(parsed, TunedFile):
            return parsed
        try:
            han = OpenMpiHan().parse(read_text(Path(named)), named, parsed.release)
        except LibraryError:
            return parsed
        if han.dropped:
            return parsed
        found = copy(parsed)
        found.han, found.activation = han, activation
        return found

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the rules, and coll/han's file where the job may span nodes."""
        han_outranks = catalogue_of(release).han_priority is not None
        rules, dispatch = absolute_path(paths[""], "a rules file"), paths.get(DISPATCH)
        parameters = {mca.USE_RULES: "1", mca.RULES_FILE: rules}
        if dispatch is not None and han_outranks and (job is None or job.nodes > 1):
            parameters[mca.USE_HAN_RULES] = "1"
            parameters[mca.HAN_RULES_FILE] = absolute_path(dispatch, "a rules file")
        return mca.environment(parameters | mca.NO_HCOLL)
