"""The format ``openmpi-han``: rules by which coll/han hands calls on, or runs its algorithms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import (
    Call,
    Finding,
    Format,
    Outcome,
    ParsedFile,
    Rule,
    Written,
    absolute_path,
    refuse_dropped,
)
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.decide import decide, decide_without
from colltune.mpi.openmpi.decide.components import HAN
from colltune.mpi.openmpi.decide.han_calls import HanLevel, HanMatch
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.han.rules import (
    DEFAULT,
    RAISED_PRIORITY,
    CommunicatorRules,
    LevelRules,
    SizeRule,
    rules_of,
)
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of

NAME = "openmpi-han"
_LARGEST_COMM_SIZE = 2**31 - 1
_FIRST_BYTES = 65536
_COMPONENT = re.compile(
    r"^\s*[0-9]+\s+(?:self|basic|libnbc|tuned|sm|adapt|han|xhc)\b", re.MULTILINE
)
_COMMENT = re.compile("#[^\n]*")


def parameters(release: str, path: str) -> dict[str, str]:
    """Return the parameters that put a file into effect."""
    found = {mca.USE_HAN_RULES: "1", mca.HAN_RULES_FILE: path}
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
            environment = mca.environment(parameters(self.release, self.source or NAME))
        if self.dropped or self.ends_program:
            why, ends = f"{self.source}: {self.ends_program or self.dropped}", self.ends_program
            by = (mca.USE_HAN_RULES, mca.HAN_RULES_FILE)
            return decide_without(self.release, call, environment, by, why, ends=bool(ends))
        outcome = decide(self.release, call, environment, han=self)
        level = HanLevel.GLOBAL_COMMUNICATOR
        match = self.match(call.collective, level, call.comm_size, call.msize_bytes)
        chosen = match.rule.configuration if match is not None else None
        if match is None or chosen is None:
            return outcome
        in_effect = match.reason in outcome.reasons and outcome.component == match.component
        runs = chosen if in_effect and outcome.configuration.is_default else outcome.configuration
        return replace(outcome, rule=match.rule, chosen=chosen, configuration=runs)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        sizes = {entry.first_size for entry in self._communicators(collective)}
        return tuple(sorted(s for s in sizes if 0 < s <= _LARGEST_COMM_SIZE))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        entries = reversed(self._communicators(collective))
        entry = next((one for one in entries if one.first_size <= comm_size), None)
        if entry is None or collective in NO_SIZE:
            return (0,)
        return tuple(sorted({0, *(rule.first_bytes for rule in entry.rules)}))

    def _communicators(self, collective: Collective) -> tuple[CommunicatorRules, ...]:
        found = rules_of(self.levels, collective, HanLevel.GLOBAL_COMMUNICATOR)
        return found.communicators if found is not None else ()

    def _reason(self, level: HanLevel, comm_size: int, rule: SizeRule) -> str:
        what = f"coll/{rule.component}" if rule.component != HAN else "coll/han itself"
        by = f" with {rule.algorithm}" if rule.algorithm else ""
        return (
            f"{self.source}:{rule.rule.line}: on {level} of {comm_size} processes the rule from"
            f" {rule.first_bytes} bytes on holds, which names {what}{by}."
        )


class OpenMpiHan(Format):
    name = NAME
    library = LIBRARY
    title = "Open MPI's dynamic rules for coll/han"

    def recognises(self, text: str) -> bool:
        plain = _COMMENT.sub("", text[:_FIRST_BYTES]).lstrip()
        return plain[:1].isdecimal() and bool(_COMPONENT.search(plain))

    def parse(self, text: str, source: str, release: str) -> HanFile:
        from colltune.mpi.openmpi.han import reading

        found = reading.read(text, catalogue_of(release))
        return HanFile(
            release,
            source,
            found.dropped,
            tuple(found.rules),
            tuple(found.findings),
            found.ends_program,
            tuple(found.levels) if not found.dropped else (),
        )

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.han.lint import lint

        assert isinstance(parsed, HanFile)
        found = list(parsed.form_findings)
        if not parsed.dropped and not parsed.ends_program:
            found += lint(parsed.levels, catalogue_of(parsed.release))
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Write components, which all keep the order of operands."""
        from colltune.mpi.openmpi.han import writing

        text, notes = writing.write(table, release)
        return Written(NAME, release, {"": text}, notes)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        from colltune.mpi.openmpi.han import writing

        catalogue_of(release)
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, HanFile) else "")
        if not isinstance(parsed, HanFile):
            raise LibraryError(
                f"{parsed.source}: what {parsed.format} says cannot be said in {NAME}, which names"
                " components and no algorithms of coll/tuned"
            )
        text, notes = writing.convert(parsed.levels, parsed.release, release)
        return Written(NAME, release, {"": text}, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; 4.1 needs coll/han's priority raised."""
        path = absolute_path(paths[""], "a rules file")
        return mca.environment(parameters(release, path))
