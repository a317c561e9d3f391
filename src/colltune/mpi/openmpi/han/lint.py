"""What is wrong with a file for coll/han that the release reads all the same."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.domain import Collective
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.openmpi.decide.components import HAN, TUNED, han_serves, serves
from colltune.mpi.openmpi.decide.han_calls import HanLevel
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.han.rules import (
    RAISED_PRIORITY,
    LevelRules,
    crashes,
    named_by,
)
from colltune.mpi.rules import Entry, Fault, Finding, Rule
from colltune.text import counted

_SORT = "sort the sizes in ascending order"
# whose pipelined algorithms call the other components themselves
_PIPELINED = frozenset({Collective.ALLREDUCE, Collective.BCAST, Collective.REDUCE})


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
