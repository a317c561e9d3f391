"""What the formats with rules for coll/tuned share: the parsed file, and how it takes effect."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError, say
from colltune.mpi.catalogue import SizeUnit
from colltune.mpi.file_format import Format, Note, Written, absolute_path, refuse_dropped
from colltune.mpi.formats import FORMATS, read_text
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.decide import HanRules, decide
from colltune.mpi.openmpi.decide.tuned import counted_bytes
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.rules import Call, Entry, Outcome, Rule, Rules
from colltune.text import counted

DISPATCH = ".dispatch"
"""End of the name of coll/han's file beside the rules for coll/tuned."""


class TunedRules(Rules):
    """What a release makes of a file with rules for coll/tuned.

    ``han`` is a file for coll/han beside it, ``activation`` what puts both into effect.
    """

    han: HanRules | None = None
    activation: Mapping[str, str] | None = None

    def __init__(self, source: str, release: str) -> None:
        self.source, self.release, self.catalogue = source, release, catalogue_of(release)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`; a rules file that is named is this one."""
        if environment is None:
            by_default = {mca.USE_RULES: "1", mca.RULES_FILE: self.source or self.format}
            environment = self.activation or mca.environment(by_default)
        return decide(self.release, call, environment, self, self.han)

    def compared(self, call: Call) -> int:
        return counted_bytes(self.catalogue.collectives[call.collective], call)

    def first_msize(self, collective: Collective, comm_size: int, compared: int) -> int | None:
        entry = self.catalogue.collectives[collective]
        if entry.size is SizeUnit.CONSTANT or comm_size < 1:
            return None
        factor = comm_size if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
        return -(-compared // factor)

    def why(self, call: Call, entry: Entry, rule: Rule) -> str:
        """Return why a rule of an entry is the one for a call."""
        where = "MPI_COMM_WORLD" if call.is_world else "a communicator"
        return (
            f"the first rule that fits applies: {call.collective} of "
            f"{counted(self.compared(call), 'byte')} (as the library counts them) on {where} of "
            f"{counted(call.comm_size, 'process', 'es')}."
        )

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = {*super().switch_points(collective, comm_size, nodes)}
        if self.han is not None:
            points |= {*self.han.switch_points(collective, comm_size, nodes)}
        return tuple(sorted(points))


class TunedFormat(Format):
    library = LIBRARY

    def converted(self, parsed: TunedRules, release: str) -> tuple[str, list[Note]]:
        """Return the rules of `parsed` in this format, and what is not kept of them."""
        raise NotImplementedError

    def convert(self, parsed: Rules, release: str) -> Written:
        if why := self.unreadable_by(release):
            raise say("format-not-read", format=self.name, why=why)
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, TunedRules) else "")
        if not isinstance(parsed, TunedRules):
            raise say(
                "format-cannot-express", file=parsed.source, name=self.name, format=parsed.format
            )
        text, notes = self.converted(parsed, release)
        return Written(self.name, release, {"": text}, tuple(dict.fromkeys(notes)))

    def limit(self, release: str, configuration: Configuration) -> str:
        if han_setups.is_setup(configuration):
            return f"{self.name} cannot express {configuration.id}, which holds for a whole job"
        return super().limit(release, configuration)

    def with_others(
        self, parsed: Rules, environment: Mapping[str, str], activation: Mapping[str, str]
    ) -> Rules:
        """Return rules with those for coll/han that are named: these hand on calls over nodes."""
        named = environment.get(f"{mca.PREFIX}{mca.HAN_RULES_FILE}")
        if named is None or not isinstance(parsed, TunedRules):
            return parsed
        try:
            han = FORMATS["openmpi-han"].parse(read_text(Path(named)), named, parsed.release)
        except LibraryError:
            return parsed
        if han.dropped or not isinstance(han, HanRules):
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
