"""A parameter file as one release of Open MPI takes it, with the rules files that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from colltune.domain import Collective
from colltune.mpi.file_format import Call, Outcome, ParsedFile, Rule
from colltune.mpi.openmpi import forced, setup
from colltune.mpi.openmpi.parameters import reading
from colltune.mpi.openmpi.parameters.reading import Setting
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    RangedFile,
    SizeRule,
)
from colltune.mpi.openmpi.running import configuration_of
from colltune.mpi.openmpi.variables import PREFIX, Variables

NAME = "openmpi-parameters"


class ParameterFile:
    """What `release` makes of a parameter file; see `file_format.ParsedFile`.

    The file is taken to be in effect. Variables of the environment go before it.
    """

    format = NAME
    dropped = ""

    def __init__(self, text: str, source: str, release: str) -> None:
        self.source, self.release = source, release
        self.catalogue = catalogue_of(release)
        self.read = reading.read(text)
        self.followed = reading.follow(self.read.found, source, release)
        self.environment = {
            f"{PREFIX}{setting.name}": setting.value
            for setting in self.followed.settings
            if setting.name
        }
        self.variables = Variables(self.environment)
        self.forced = {rule.collective: rule for rule in self._forced()}

    @property
    def tuned(self) -> ParsedFile | None:
        return self.followed.parsed.get("tuned")

    @property
    def han(self) -> ParsedFile | None:
        return self.followed.parsed.get("han")

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The forced algorithms, and the rules of the files that are named (with their lines)."""
        named = [rule for parsed in (self.tuned, self.han) if parsed for rule in parsed.rules]
        return (*self.forced.values(), *named)

    @cached_property
    def ranges(self) -> dict[Collective, tuple[CommunicatorRange, ...]]:
        """What coll/tuned is told, as ranges: forced algorithms reach all communicators."""
        named = self.tuned
        found: dict[Collective, tuple[CommunicatorRange, ...]] = {}
        if isinstance(named, RangedFile) and self.reads_rules:
            found |= named.ranges
        for collective, rule in self.forced.items():
            if collective not in found or self.forced_first:
                found[collective] = (self._everywhere(rule),)
        return found if self.variables.flag(setup.USE_RULES, False) else {}

    @property
    def forced_first(self) -> bool:
        """Whether the release asks for forced algorithms before the rules file."""
        return not self.catalogue.series.startswith("4.")

    @property
    def reads_rules(self) -> bool:
        """Whether the rules file that is named is in effect."""
        return self.variables.flag(setup.USE_RULES, False) and self.tuned is not None

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`; `environment` goes before the file."""
        variables = self.environment | dict(environment or {})
        tuned = self._unless_replaced(setup.RULES_FILE, variables, self.tuned)
        han = self._unless_replaced(setup.HAN_RULES_FILE, variables, self.han)
        outcome = setup.decide(
            self.release,
            call,
            variables,
            tuned,  # type: ignore[arg-type]
            han,  # type: ignore[arg-type]
        )
        rule = self._forced_rule(call, outcome, variables)
        if rule is None or rule.configuration is None:
            return outcome
        return replace(outcome, rule=rule, chosen=rule.configuration)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        named = [parsed for parsed in (self.tuned, self.han) if parsed]
        sizes = {size for parsed in named for size in parsed.comm_sizes(collective)}
        return tuple(sorted(sizes | ({2} if collective in self.forced else set())))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = {0}
        for parsed in (self.tuned, self.han):
            if parsed is not None:
                points.update(parsed.switch_points(collective, comm_size, nodes))
        return tuple(sorted(points))

    def setting(self, name: str) -> Setting | None:
        return next((s for s in reversed(self.read.found) if s.name == name), None)

    def _forced(self) -> list[Rule]:
        found = []
        for entry in self.catalogue.collectives.values():
            name = forced.stem(entry.collective)
            numbers = forced.numbers(entry, self.variables)
            if numbers.algorithm:
                setting = self.setting(name)
                line = setting.line if setting is not None else 0
                text = self.variables.shown(name)
                configuration = configuration_of(entry, numbers)
                found.append(Rule(line, text, entry.collective, configuration))
        return sorted(found, key=lambda rule: rule.line)

    def _forced_rule(
        self, call: Call, outcome: Outcome, variables: Mapping[str, str]
    ) -> Rule | None:
        """Return the forced algorithm if it is what coll/tuned is told for a call."""
        rule = self.forced.get(call.collective)
        name = f"{PREFIX}{forced.stem(call.collective)}"
        if rule is None or call.comm_size < 2 or variables.get(name) != self.environment.get(name):
            return None
        if not Variables(variables).flag(setup.USE_RULES, False):
            return None
        if self.forced_first or outcome.chosen.is_default:
            return rule
        return None

    def _unless_replaced(
        self, name: str, variables: Mapping[str, str], parsed: ParsedFile | None
    ) -> ParsedFile | None:
        """Return a rules file unless the environment names another one."""
        same = variables.get(f"{PREFIX}{name}") == self.environment.get(f"{PREFIX}{name}")
        return parsed if same else None

    def _everywhere(self, rule: Rule) -> CommunicatorRange:
        entry = self.catalogue.collectives[rule.collective]
        numbers = forced.numbers(entry, self.variables)
        always = SizeRule(rule, 0, LARGEST_SIZE, numbers, {})
        return CommunicatorRange(
            rule.collective, rule.line, 0, LARGEST_COMM_SIZE, Distribution.ANY, (always,)
        )
