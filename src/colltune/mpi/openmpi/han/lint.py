"""What is wrong with a file for coll/han that the release reads all the same."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.domain import Collective
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.openmpi.components import HAN, TUNED, han_serves
from colltune.mpi.openmpi.han.rules import (
    NO_SIZE,
    RAISED_PRIORITY,
    CommunicatorRules,
    LevelRules,
    SizeRule,
    crashes,
    serves,
)
from colltune.mpi.openmpi.rules import HanLevel

# whose pipelined algorithms call the other components themselves
_PIPELINED = frozenset({Collective.ALLREDUCE, Collective.BCAST, Collective.REDUCE})


def lint(levels: tuple[LevelRules, ...], catalogue: Catalogue) -> Iterator[Finding]:
    """Yield the findings on rules that are read."""
    if catalogue.han_priority is None:
        yield Finding(
            0,
            Fault.NOT_EVERYWHERE,
            f"coll/tuned goes before coll/han in {catalogue.series}, so that this file has no"
            " effect by itself",
            f"set coll_han_priority={RAISED_PRIORITY}",
        )
    for at, rules in enumerate(levels):
        later = [other for other in levels[at + 1 :] if other.collective is rules.collective]
        if any(o.section != rules.section or o.level is rules.level for o in later):
            yield Finding(
                rules.line,
                Fault.DEAD_RULE,
                f"{rules.collective} stands again further down, and only the last one counts",
                "join the two",
            )
        elif han_serves(catalogue, rules.collective):
            yield from _of_level(rules)
            yield from _crashing(catalogue, rules)


def is_dead(entry: CommunicatorRules, after: tuple[CommunicatorRules, ...]) -> bool:
    """Tell whether an entry is never reached for those `after` it."""
    return any(other.first_size <= entry.first_size for other in after)


def reached(rules: LevelRules, entry: CommunicatorRules) -> list[SizeRule]:
    """Return the rules of an entry that some message gets."""
    return [
        rule
        for at, rule in enumerate(entry.rules)
        if not (rules.collective in NO_SIZE and rule.first_bytes)
        and not any(o.first_bytes <= rule.first_bytes for o in entry.rules[at + 1 :])
    ]


def _of_level(rules: LevelRules) -> Iterator[Finding]:
    if rules.level is not HanLevel.GLOBAL_COMMUNICATOR and rules.collective in _PIPELINED:
        yield Finding(
            rules.line,
            Fault.NO_EFFECT,
            f"rules for parts of a communicator act in coll/han's simple algorithm of"
            f" {rules.collective} only",
            "choose han @simple for the whole communicator",
        )
    for at, entry in enumerate(rules.communicators):
        after = rules.communicators[at + 1 :]
        yield from _dead_entry(entry, after)
        yield from _dead_rules(rules, entry)
        for rule in entry.rules:
            yield from _of_component(rules, rule)
        if not entry.rules:
            yield Finding(
                entry.line,
                Fault.REMARK,
                "no rules: parameters decide on communicators from this size on",
                "give it a rule from 0 on",
            )


def _dead_entry(
    entry: CommunicatorRules, after: tuple[CommunicatorRules, ...]
) -> Iterator[Finding]:
    hiding = next((other for other in after if other.first_size <= entry.first_size), None)
    if hiding is not None:
        yield Finding(
            entry.line,
            Fault.DEAD_RULE if hiding.first_size == entry.first_size else Fault.UNSORTED,
            f"never reached: the last entry that is not too large counts, and the one for"
            f" {hiding.first_size} stands further down (line {hiding.line})",
            "sort the sizes in ascending order",
        )


def _dead_rules(rules: LevelRules, entry: CommunicatorRules) -> Iterator[Finding]:
    for at, rule in enumerate(entry.rules):
        line = rule.rule.line
        if rules.collective in NO_SIZE and rule.first_bytes:
            why = f"never reached: {rules.collective} is always looked up with 0 bytes"
            yield Finding(line, Fault.DEAD_RULE, why, "remove it")
            continue
        later = entry.rules[at + 1 :]
        hiding = next((other for other in later if other.first_bytes <= rule.first_bytes), None)
        if hiding is not None:
            same = hiding.first_bytes == rule.first_bytes
            yield Finding(
                line,
                Fault.DEAD_RULE if same else Fault.UNSORTED,
                f"never reached: the rule for {hiding.first_bytes} bytes stands further down (line"
                f" {hiding.rule.line})",
                "sort the sizes in ascending order",
            )


def _crashing(catalogue: Catalogue, rules: LevelRules) -> Iterator[Finding]:
    if rules.level is not HanLevel.GLOBAL_COMMUNICATOR:
        return
    for rule in (rule for entry in rules.communicators for rule in entry.rules):
        if crashes(catalogue, rule.component, rules.collective):
            yield Finding(
                rule.rule.line,
                Fault.ENDS_PROGRAM,
                f"{catalogue.series} crashes when coll/han hands an {rules.collective} on to"
                f" coll/{rule.component}",
                f"write {HAN}",
            )


def _of_component(rules: LevelRules, rule: SizeRule) -> Iterator[Finding]:
    whole = rules.level is HanLevel.GLOBAL_COMMUNICATOR
    if rule.component == HAN and not whole:
        why = f"coll/han does not serve parts of a communicator: coll/{TUNED} runs"
    elif whole and not serves(rule.component, rules.collective):
        why = (
            f"coll/{rule.component} does not serve {rules.collective} on several nodes:"
            f" coll/{TUNED} runs"
        )
    else:
        return
    mend = f"write {TUNED}"
    yield Finding(rule.rule.line, Fault.FALLS_BACK, why, mend)
