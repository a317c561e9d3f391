"""What a release makes of a parameter file that is in effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from colltune.domain import Collective
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.decide import decide
from colltune.mpi.openmpi.decide.tuned import configuration_of, forced_numbers
from colltune.mpi.openmpi.parameters import reading
from colltune.mpi.openmpi.parameters.reading import Setting
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    Call,
    Entries,
    Entry,
    Outcome,
    Rule,
    Rules,
)

NAME = "openmpi-parameters"


class ParameterFile(TunedRules):
    """A parameter file that is in effect; variables of the environment go before it."""

    format = NAME

    def __init__(self, text: str, source: str, release: str) -> None:
        super().__init__(source, release)
        self.read = reading.read(text)
        self.followed = reading.follow(self.read.found, source, release)
        self.environment = mca.environment(
            {setting.name: setting.value for setting in self.followed.settings if setting.name}
        )
        self.variables = mca.Variables(self.environment)
        self.forced = {rule.collective: rule for rule in self._forced()}
        named = [rule for parsed in (self.tuned, self.han_file) if parsed for rule in parsed.rules]
        self.rules = (*self.forced.values(), *named)

    @property
    def tuned(self) -> Rules | None:
        return self.followed.parsed.get("tuned")

    @property
    def han_file(self) -> Rules | None:
        return self.followed.parsed.get("han")

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        """What coll/tuned is told, as ranges: forced algorithms reach all communicators."""
        if not self.variables.flag(mca.USE_RULES, False):
            return {}
        named = self.tuned
        found = dict(named.entries) if isinstance(named, TunedRules) else {}
        for collective, rule in self.forced.items():
            if collective not in found or self.forced_first:
                entry = self.catalogue.collectives[collective]
                always = (rule._replace(numbers=forced_numbers(entry, self.variables)),)
                found[collective] = (Entry(collective, rule.line, 0, LARGEST_COMM_SIZE, always),)
        return found

    @property
    def forced_first(self) -> bool:
        """Whether the release asks for forced algorithms before the rules file."""
        return not self.catalogue.series.startswith("4.")

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`; `environment` goes before the file."""
        variables = self.environment | dict(environment or {})
        # a rules file that the environment replaces by another one is not known
        tuned = self.tuned if self._same(mca.RULES_FILE, variables) else None
        han = self.han_file if self._same(mca.HAN_RULES_FILE, variables) else None
        outcome = decide(
            self.release,
            call,
            variables,
            tuned,
            han,  # type: ignore[arg-type]
        )
        rule = self.forced.get(call.collective)
        if rule is None or rule.configuration is None or call.comm_size < 2:
            return outcome
        told = self._same(mca.forcing_name(call.collective), variables)
        in_effect = told and mca.Variables(variables).flag(mca.USE_RULES, False)
        if not in_effect or not (self.forced_first or outcome.chosen.is_default):
            return outcome
        return replace(outcome, rule=rule, chosen=rule.configuration)

    def _same(self, name: str, variables: Mapping[str, str]) -> bool:
        variable = f"{mca.PREFIX}{name}"
        return variables.get(variable) == self.environment.get(variable)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        named = [parsed for parsed in (self.tuned, self.han_file) if parsed]
        sizes = {size for parsed in named for size in parsed.comm_sizes(collective)}
        return tuple(sorted(sizes | ({2} if collective in self.forced else set())))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = {0}
        for parsed in (self.tuned, self.han_file):
            if parsed is not None:
                points.update(parsed.switch_points(collective, comm_size, nodes))
        return tuple(sorted(points))

    def setting(self, name: str) -> Setting | None:
        return next((s for s in reversed(self.read.found) if s.name == name), None)

    def _forced(self) -> list[Rule]:
        found = []
        for entry in self.catalogue.collectives.values():
            name = mca.forcing_name(entry.collective)
            numbers = forced_numbers(entry, self.variables)
            if numbers.algorithm:
                setting = self.setting(name)
                line = setting.line if setting is not None else 0
                chosen = configuration_of(entry, numbers)
                found.append(Rule(line, self.variables.shown(name), entry.collective, chosen))
        return sorted(found, key=lambda rule: rule.line)
