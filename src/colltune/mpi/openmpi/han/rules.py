"""What a file for coll/han says, what it may name, and what is wrong with one that is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.decide import HanRules, decide, decide_without
from colltune.mpi.openmpi.decide.components import HAN, TUNED, han_serves, serves
from colltune.mpi.openmpi.decide.han_calls import COMPONENTS, HanLevel, HanMatch
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.rules import Call, Entry, Fault, Finding, Outcome, Rule
from colltune.text import counted

_SORT = "sort the sizes in ascending order"
# whose pipelined algorithms call the other components themselves
_PIPELINED = frozenset({Collective.ALLREDUCE, Collective.BCAST, Collective.REDUCE})
DEFAULT = "default"
RAISED_PRIORITY = 35
"""What coll/han has from 5.0 on, above coll/tuned's 30."""


@dataclass(frozen=True)
class LevelRules:
    """The rules for one level of one collective, in the order of the file.

    ``section`` counts the collectives of the file: one that stands twice has two.
    """

    section: int
    collective: Collective
    level: HanLevel
    line: int
    entries: tuple[Entry, ...]

    @property
    def in_effect(self) -> tuple[Entry, ...]:
        """The rules in their order of precedence: the last that is not for larger ones counts."""
        return tuple(replace(one, rules=one.rules[::-1]) for one in reversed(self.entries))


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
    """Return component and algorithm that a configuration stands for, whether they can run."""
    if configuration.is_default:
        return default_component(catalogue, configuration.collective), ""
    component, _, algorithm = configuration.algorithm.partition("_")
    return component, algorithm


def named_by(catalogue: Catalogue, rule: Rule) -> tuple[str, str]:
    """Return component and algorithm that a rule of a file names."""
    assert rule.configuration is not None  # the reader drops a file that names no component
    return component_of(catalogue, rule.configuration)


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


def parameters(release: str, path: str) -> dict[str, str]:
    found = {mca.USE_HAN_RULES: "1", mca.HAN_RULES_FILE: path}
    if catalogue_of(release).han_priority is None:
        # coll/han is there in 4.1, with the lowest priority of all
        found["coll_han_priority"] = str(RAISED_PRIORITY)
    return found


class HanFile(HanRules):
    """What a release makes of a file for coll/han.

    A rule of the file is told for every communicator of its size, though coll/han is only asked on
    those that span nodes.
    """

    format = NAME

    def __init__(self, release: str, source: str, levels: tuple[LevelRules, ...] = ()) -> None:
        self.release, self.source, self.levels = release, source, levels
        self.catalogue = catalogue_of(release)
        keys = dict.fromkeys((rules.collective, level) for rules in levels for level in HanLevel)
        found = {key: rules_of(levels, *key) for key in keys}
        self._by_level = {key: rules.in_effect for key, rules in found.items() if rules is not None}
        whole = HanLevel.GLOBAL_COMMUNICATOR
        self.entries = {
            c: entries for (c, level), entries in self._by_level.items() if level is whole
        }

    def compared(self, call: Call) -> int:
        return 0 if call.collective in NO_SIZE else call.msize_bytes

    def first_msize(self, collective: Collective, comm_size: int, compared: int) -> int | None:
        return None if collective in NO_SIZE else compared

    def match_at(
        self, collective: Collective, level: HanLevel, comm_size: int, msize_bytes: int
    ) -> HanMatch | None:
        """Return the rule for a call on a communicator of that level; None if there is none."""
        call = Call(collective, comm_size, msize_bytes)
        entries = self._by_level.get((collective, level), ())
        entry = next((one for one in entries if one.takes(call)), None)
        rule = entry.rule_for(self.compared(call)) if entry is not None else None
        if rule is None:
            return None
        component, algorithm = named_by(self.catalogue, rule)
        reason = self._reason(level, comm_size, rule)
        return HanMatch(rule, component, algorithm, reason)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        if environment is None:
            environment = mca.environment(parameters(self.release, self.source or NAME))
        if self.dropped or self.ends_program:
            why, ends = f"{self.source}: {self.ends_program or self.dropped}", self.ends_program
            by = (mca.USE_HAN_RULES, mca.HAN_RULES_FILE)
            return decide_without(self.release, call, environment, by, why, ends=bool(ends))
        outcome = decide(self.release, call, environment, han=self)
        level = HanLevel.GLOBAL_COMMUNICATOR
        match = self.match_at(call.collective, level, call.comm_size, call.msize_bytes)
        chosen = match.rule.configuration if match is not None else None
        if match is None or chosen is None:
            return outcome
        in_effect = match.reason in outcome.reasons and outcome.component == match.component
        runs = chosen if in_effect and outcome.configuration.is_default else outcome.configuration
        return replace(outcome, rule=match.rule, chosen=chosen, configuration=runs)

    def _reason(self, level: HanLevel, comm_size: int, rule: Rule) -> str:
        component, algorithm = named_by(self.catalogue, rule)
        what = f"coll/{component}" if component != HAN else "coll/han itself"
        by = f" with {algorithm}" if algorithm else ""
        return (
            f"{self.source}:{rule.line}: the rule from "
            f"{counted(rule.first, 'byte')} on for {level} of "
            f"{counted(comm_size, 'process', 'es')} applies, which names {what}{by}."
        )


def lint(levels: tuple[LevelRules, ...], catalogue: Catalogue) -> Iterator[Finding]:
    if catalogue.han_priority is None:
        yield Finding(
            0,
            Fault.NOT_EVERYWHERE,
            f"coll/tuned has priority over coll/han in {catalogue.series}, so this file has "
            "no effect by itself",
            f"set coll_han_priority={RAISED_PRIORITY}",
        )
    for at, rules in enumerate(levels):
        later = [other for other in levels[at + 1 :] if other.collective is rules.collective]
        if any(o.section != rules.section or o.level is rules.level for o in later):
            yield Finding(
                rules.line,
                Fault.DEAD_RULE,
                f"{rules.collective} appears again further down, and only the last one counts",
                "join the two",
            )
        elif han_serves(catalogue, rules.collective):
            yield from _of_level(catalogue, rules)
            yield from _crashing(catalogue, rules)


def hiding(entry: Entry, after: tuple[Entry, ...]) -> Entry | None:
    """Return the entry among those `after` another one that is always taken before it."""
    return next((other for other in after if other.first_size <= entry.first_size), None)


def why_unreached(rules: LevelRules, entry: Entry, at: int) -> tuple[Fault, str, str]:
    """Return what is wrong with a rule that no message gets, and the mend; empty for others."""
    rule = entry.rules[at]
    if rules.collective in NO_SIZE and rule.first:
        why = f"never reached, because {rules.collective} is always looked up with 0 bytes"
        return Fault.DEAD_RULE, why, "remove it"
    later = (other for other in entry.rules[at + 1 :] if other.first <= rule.first)
    other = next(later, None)
    if other is None:
        return Fault.REMARK, "", ""
    return (
        Fault.DEAD_RULE if other.first == rule.first else Fault.UNSORTED,
        f"never reached, because the rule for {counted(other.first, 'byte')} comes "
        f"later (line {other.line})",
        _SORT,
    )


def _of_level(catalogue: Catalogue, rules: LevelRules) -> Iterator[Finding]:
    if rules.level is not HanLevel.GLOBAL_COMMUNICATOR and rules.collective in _PIPELINED:
        yield Finding(
            rules.line,
            Fault.NO_EFFECT,
            "rules for parts of a communicator affect only coll/han's simple algorithm of "
            f"{rules.collective}",
            "choose han @simple for the whole communicator",
        )
    for at, entry in enumerate(rules.entries):
        after = rules.entries[at + 1 :]
        other = hiding(entry, after)
        if other is not None:
            yield Finding(
                entry.line,
                Fault.DEAD_RULE if other.first_size == entry.first_size else Fault.UNSORTED,
                "never reached, because the last entry that is not too large counts, and the "
                f"entry for {other.first_size} comes later (line {other.line})",
                _SORT,
            )
        for position, rule in enumerate(entry.rules):
            fault, why, mend = why_unreached(rules, entry, position)
            if why:
                yield Finding(rule.line, fault, why, mend)
            yield from _of_component(catalogue, rules, rule)
        if not entry.rules:
            yield Finding(
                entry.line,
                Fault.REMARK,
                "there are no rules, so parameters decide on communicators from this size on",
                "give it a rule from 0 on",
            )


def _crashing(catalogue: Catalogue, rules: LevelRules) -> Iterator[Finding]:
    if rules.level is not HanLevel.GLOBAL_COMMUNICATOR:
        return
    for rule in (rule for entry in rules.entries for rule in entry.rules):
        component, _ = named_by(catalogue, rule)
        if crashes(catalogue, component, rules.collective):
            yield Finding(
                rule.line,
                Fault.ENDS_PROGRAM,
                f"{catalogue.series} crashes when coll/han passes an {rules.collective} on to "
                f"coll/{component}",
                f"write {HAN}",
            )


def _of_component(catalogue: Catalogue, rules: LevelRules, rule: Rule) -> Iterator[Finding]:
    component, _ = named_by(catalogue, rule)
    whole = rules.level is HanLevel.GLOBAL_COMMUNICATOR
    if component == HAN and not whole:
        why = f"coll/han does not serve parts of a communicator, so coll/{TUNED} runs"
    elif whole and not serves(component, rules.collective):
        why = (
            f"coll/{component} does not serve {rules.collective} on several nodes, so "
            f"coll/{TUNED} runs"
        )
    else:
        return
    mend = f"write {TUNED}"
    yield Finding(rule.line, Fault.FALLS_BACK, why, mend)
