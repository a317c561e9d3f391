"""The format ``openmpi-han``: rules by which coll/han hands calls on, or runs its algorithms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Catalogue
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
from colltune.mpi.openmpi.decide.components import HAN, TUNED, han_serves, serves
from colltune.mpi.openmpi.decide.han_calls import COMPONENTS, HanLevel, HanMatch
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.text import counted

DEFAULT = "default"
RAISED_PRIORITY = 35
"""What coll/han has from 5.0 on, above coll/tuned's 30."""


@dataclass(frozen=True)
class SizeRule:
    """The component for messages from ``first_bytes`` on; ``algorithm`` is coll/han's, or empty."""

    rule: Rule
    first_bytes: int
    component: str
    algorithm: str


@dataclass(frozen=True)
class CommunicatorRules:
    """The rules for communicators of ``first_size`` processes and more."""

    line: int
    first_size: int
    rules: tuple[SizeRule, ...]


@dataclass(frozen=True)
class LevelRules:
    """The rules for one level of one collective, in the order of the file.

    ``section`` counts the collectives of the file: one that stands twice has two.
    """

    section: int
    collective: Collective
    level: HanLevel
    line: int
    communicators: tuple[CommunicatorRules, ...]

    def matching(self, comm_size: int, msize_bytes: int) -> SizeRule | None:
        """Return the last rule, in the last entry, that is not for larger ones."""
        entry = next((c for c in reversed(self.communicators) if c.first_size <= comm_size), None)
        if entry is None:
            return None
        return next((r for r in reversed(entry.rules) if r.first_bytes <= msize_bytes), None)


def rules_of(
    levels: tuple[LevelRules, ...], collective: Collective, level: HanLevel
) -> LevelRules | None:
    """Return the rules of a level: the last ones of the last section of a collective."""
    own = [rules for rules in levels if rules.collective is collective]
    last = own[-1].section if own else -1
    return next((r for r in reversed(own) if r.section == last and r.level is level), None)


def names_algorithms(catalogue: Catalogue) -> bool:
    """Tell whether files may name levels, and coll/han's algorithms after ``@``."""
    return not catalogue.series.startswith("4.")


def default_component(catalogue: Catalogue, collective: Collective) -> str:
    """Return which component a file leaves a collective to: the library's own choice."""
    by_tuned = catalogue.han_priority is None and not crashes(catalogue, TUNED, collective)
    return TUNED if by_tuned else HAN


def crashes(catalogue: Catalogue, component: str, collective: Collective) -> bool:
    """Tell whether coll/han ends programs when it hands `collective` on to `component`.

    4.1 calls coll/han's own allreduce with the other component's data (``coll_han_dynamic.c``);
    seen on 4.1.8, with a file as with a variable.
    """
    handed_on = component != HAN and serves(component, collective)
    return catalogue.series == "4.1" and collective is Collective.ALLREDUCE and handed_on


def known_components(catalogue: Catalogue) -> tuple[str, ...]:
    return (*COMPONENTS, "xhc") if catalogue.series.startswith("6") else COMPONENTS


def algorithms(catalogue: Catalogue, collective: Collective) -> tuple[str, ...]:
    """Return coll/han's algorithms of a collective by their numbers."""
    return catalogue.collectives[collective].han


def configuration_of(
    catalogue: Catalogue, collective: Collective, component: str, algorithm: str
) -> Configuration:
    """Return how the choice of a component is spelled; the library's own one is the default."""
    if component == default_component(catalogue, collective) and algorithm in ("", DEFAULT):
        return Configuration.default(LIBRARY, collective)
    name = f"{component}_{algorithm}" if algorithm not in ("", DEFAULT) else component
    return Configuration(LIBRARY, collective, name)


def component_of(catalogue: Catalogue, configuration: Configuration) -> tuple[str, str]:
    """Return component and algorithm that a configuration stands for."""
    if configuration.is_default:
        return default_component(catalogue, configuration.collective), ""
    for component, algorithm in _choices(catalogue, configuration.collective):
        spelled = configuration_of(catalogue, configuration.collective, component, algorithm)
        if spelled == configuration:
            return component, algorithm
    raise KeyError(configuration.id)


def choices(catalogue: Catalogue, collective: Collective) -> tuple[Configuration, ...]:
    """Return what a file can choose for a collective: the library's own choice first."""
    default = Configuration.default(LIBRARY, collective)
    found = (configuration_of(catalogue, collective, *c) for c in _choices(catalogue, collective))
    return (default, *(c for c in found if not c.is_default))


def _choices(catalogue: Catalogue, collective: Collective) -> Iterator[tuple[str, str]]:
    if not han_serves(catalogue, collective):
        return
    for component in known_components(catalogue):
        if serves(component, collective) and not crashes(catalogue, component, collective):
            yield component, ""
    if names_algorithms(catalogue):
        for algorithm in algorithms(catalogue, collective)[1:]:
            yield HAN, algorithm


NAME = "openmpi-han"
_LARGEST_COMM_SIZE = 2**31 - 1
_FIRST_BYTES = 65536
_COMPONENT = re.compile(
    r"^\s*[0-9]+\s+(?:self|basic|libnbc|tuned|sm|adapt|han|xhc)\b", re.MULTILINE
)
_COMMENT = re.compile("#[^\n]*")


def parameters(release: str, path: str) -> dict[str, str]:
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
            f"{self.source}:{rule.rule.line}: the rule from "
            f"{counted(rule.first_bytes, 'byte')} on for {level} of "
            f"{counted(comm_size, 'process', 'es')} applies, which names {what}{by}."
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
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
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
                f"{parsed.source}: {NAME} cannot express what {parsed.format} says, because "
                "it names components and no algorithms of coll/tuned"
            )
        text, notes = writing.convert(parsed.levels, parsed.release, release)
        return Written(NAME, release, {"": text}, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; 4.1 needs coll/han's priority raised."""
        path = absolute_path(paths[""], "a rules file")
        return mca.environment(parameters(release, path))
