"""A file for coll/han as an Open MPI release takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Finding, Outcome, Rule
from colltune.mpi.openmpi import setup
from colltune.mpi.openmpi.components import HAN
from colltune.mpi.openmpi.han.rules import (
    DEFAULT,
    NO_SIZE,
    RAISED_PRIORITY,
    LevelRules,
    SizeRule,
    rules_of,
)
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.rules import HanLevel, HanMatch
from colltune.mpi.openmpi.variables import PREFIX, Variables

NAME = "openmpi-han"
_LARGEST_COMM_SIZE = 2**31 - 1


def parameters(release: str, path: str) -> dict[str, str]:
    """Return the parameters that put a file into effect."""
    found = {setup.USE_HAN_RULES: "1", setup.HAN_RULES_FILE: path}
    if catalogue_of(release).han_priority is None:
        # coll/han is there in 4.1, with the lowest priority of all
        found["coll_han_priority"] = str(RAISED_PRIORITY)
    return found


@dataclass(frozen=True)
class HanFile:
    """See `file_format.ParsedFile`; ``ends_program`` tells why programs die of the file.

    A rule of the file is told for every communicator of its size, though coll/han is only asked on
    those that span nodes.
    """

    release: str
    source: str
    dropped: str = ""
    rules: tuple[Rule, ...] = ()
    form_findings: tuple[Finding, ...] = ()
    ends_program: str = ""
    levels: tuple[LevelRules, ...] = ()
    format: str = NAME

    def match(
        self, collective: Collective, level: HanLevel, comm_size: int, msize_bytes: int
    ) -> HanMatch | None:
        """Return the rule for a call on a communicator of that level; None if there is none."""
        found = rules_of(self.levels, collective, level)
        size = 0 if collective in NO_SIZE else msize_bytes
        rule = found.matching(comm_size, size) if found is not None else None
        if rule is None:
            return None
        algorithm = "" if rule.algorithm == DEFAULT else rule.algorithm
        return HanMatch(rule.rule, rule.component, algorithm, self._reason(level, comm_size, rule))

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        if environment is None:
            wanted = parameters(self.release, self.source or NAME)
            environment = {f"{PREFIX}{name}": value for name, value in wanted.items()}
        if self.dropped or self.ends_program:
            return self._without_rules(call, environment)
        outcome = setup.decide(self.release, call, environment, han=self)
        level = HanLevel.GLOBAL_COMMUNICATOR
        match = self.match(call.collective, level, call.comm_size, call.msize_bytes)
        chosen = match.rule.configuration if match is not None else None
        if match is None or chosen is None:
            return outcome
        in_effect = match.reason in outcome.reasons and outcome.component == match.component
        runs = chosen if in_effect and outcome.configuration.is_default else outcome.configuration
        return replace(outcome, rule=match.rule, chosen=chosen, configuration=runs)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        found = rules_of(self.levels, collective, HanLevel.GLOBAL_COMMUNICATOR)
        sizes = {c.first_size for c in found.communicators} if found is not None else set()
        return tuple(sorted(s for s in sizes if 0 < s <= _LARGEST_COMM_SIZE))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        found = rules_of(self.levels, collective, HanLevel.GLOBAL_COMMUNICATOR)
        if found is None or collective in NO_SIZE:
            return (0,)
        entry = next((c for c in reversed(found.communicators) if c.first_size <= comm_size), None)
        firsts = {rule.first_bytes for rule in entry.rules} if entry is not None else set()
        return tuple(sorted({0, *firsts}))

    def _reason(self, level: HanLevel, comm_size: int, rule: SizeRule) -> str:
        what = f"coll/{rule.component}" if rule.component != HAN else "coll/han itself"
        by = f" with {rule.algorithm}" if rule.algorithm else ""
        return (
            f"{self.source}:{rule.rule.line}: on {level} of {comm_size} processes the rule from"
            f" {rule.first_bytes} bytes on holds, which names {what}{by}."
        )

    def _without_rules(self, call: Call, environment: Mapping[str, str]) -> Outcome:
        outcome = setup.decide(self.release, call, environment)
        variables = Variables(environment)
        named = variables.text(setup.HAN_RULES_FILE)
        if not named or not variables.flag(setup.USE_HAN_RULES, False):
            return outcome
        why = f"{self.source}: {self.ends_program or self.dropped}"
        return replace(
            outcome,
            chosen=Configuration.default(LIBRARY, call.collective),
            reasons=(f"{why}.", *outcome.reasons),
            ends_program=why if self.ends_program else outcome.ends_program,
        )
