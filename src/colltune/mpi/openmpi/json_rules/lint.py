"""What is wrong with a JSON rules file that Open MPI 6 reads all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from colltune.domain import Collective
from colltune.mpi.catalogue import Catalogue, CollectiveEntry, SizeUnit
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.openmpi import algorithm_lint
from colltune.mpi.openmpi.algorithm_lint import Place
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    SizeRule,
)
from colltune.mpi.openmpi.spans import Union

_MOST_NAMED = 5
_SENDER_DECIDES = frozenset({Collective.ALLGATHERV, Collective.GATHER, Collective.SCATTER})
_NO_SIZE = frozenset({Collective.ALLTOALLV, Collective.BARRIER})


def lint(
    ranges: Mapping[Collective, tuple[CommunicatorRange, ...]], catalogue: Catalogue, release: str
) -> Iterator[Finding]:
    """Yield the findings on rules that are in effect."""
    for collective, entries in ranges.items():
        entry = catalogue.collectives[collective]
        taken = {distribution: Union() for distribution in Distribution}
        for at, communicator in enumerate(entries):
            first, last = communicator.first_size, communicator.last_size
            hiding = (taken[Distribution.ANY], taken[communicator.distribution])
            met = any(union.meets(max(first, 2), last) for union in hiding)
            yield from _of_communicator(entries[:at] if met else (), communicator)
            yield from _of_rules(entry, communicator, release)
            taken[communicator.distribution].add(first, last)
    outranked = sorted(c for c in ranges if c in catalogue.han_collectives)
    if outranked:
        yield Finding(
            0,
            Fault.NOT_EVERYWHERE,
            f"on communicators that span nodes coll/han decides {', '.join(outranked)} before these"
            " rules; they reach its parts of the communicator",
            "set coll_han_priority=0, or send the calls on by a file for coll/han",
        )


def is_reached(before: Sequence[CommunicatorRange], communicator: CommunicatorRange) -> bool:
    """Tell whether there are communicators that an entry gets after those `before` it."""
    findings = _of_communicator(before, communicator)
    return all(finding.fault is not Fault.DEAD_RULE for finding in findings)


def is_rule_reached(entry: CollectiveEntry, before: Sequence[SizeRule], rule: SizeRule) -> bool:
    """Tell whether there are sizes that a rule gets after those `before` it."""
    known = [other for other in before if other.known]
    return not _dead(entry, known, _union(known), rule)


def _of_communicator(
    before: Sequence[CommunicatorRange], communicator: CommunicatorRange
) -> Iterator[Finding]:
    first, last = communicator.first_size, communicator.last_size
    if max(first, 2) > last:
        yield Finding(
            communicator.line,
            Fault.DEAD_RULE,
            f"matches no communicator: {first} to {last} processes",
            "correct the range, of which both ends belong to it",
        )
        return
    for other in before:
        if not _hides(other, communicator):
            continue
        if other.first_size <= max(first, 2) and last <= other.last_size:
            yield Finding(
                communicator.line,
                Fault.DEAD_RULE,
                f"never reached: the entry on line {other.line} takes all its communicators, also"
                " for message sizes that have no rule there",
                "remove it, or put it first",
            )
            return
        if max(other.first_size, first, 2) <= min(other.last_size, last):
            yield Finding(
                communicator.line,
                Fault.UNSORTED,
                f"overlaps with the entry on line {other.line}, which stands before it and wins",
                "make the ranges of communicators follow each other",
            )
    if communicator.distribution is Distribution.ONE_PER_NODE:
        yield Finding(
            communicator.line,
            Fault.REMARK,
            "one-per-node is never true of MPI_COMM_WORLD, and of others only if it is true of all"
            " communicators that the same call makes (of MPI_UNDEFINED's processes, too)",
            "give other communicators an entry after this one",
        )
    if first < 2 and last == LARGEST_COMM_SIZE and communicator.distribution is Distribution.ANY:
        yield Finding(
            communicator.line,
            Fault.REMARK,
            "for communicators of any size, the library's own inner ones too",
            "give comm_size_min and comm_size_max",
        )


def _hides(other: CommunicatorRange, communicator: CommunicatorRange) -> bool:
    return other.distribution in (Distribution.ANY, communicator.distribution)


def _of_rules(
    entry: CollectiveEntry, communicator: CommunicatorRange, release: str
) -> Iterator[Finding]:
    rules = [rule for rule in communicator.rules if rule.known]
    last_size = communicator.last_size
    place = Place(
        communicator.line,
        release,
        communicator.first_size,
        None if last_size == LARGEST_COMM_SIZE else last_size,
        None,
    )
    reached: list[SizeRule] = []
    yield from _unreached(entry, rules, reached)
    yield from _of_one_rule(entry, reached)
    for rule in reached:
        last = None if rule.last >= LARGEST_SIZE else rule.last
        here = replace(place, line=rule.rule.line, last_compared=last)
        yield from algorithm_lint.of_algorithm(entry, rule.numbers, here)
    thresholds = {rule.first: rule.keys.get("msg_size_min", rule.rule.line) for rule in reached}
    yield from algorithm_lint.of_thresholds(entry, thresholds, place)


def _dead(entry: CollectiveEntry, before: Iterable[SizeRule], taken: Union, rule: SizeRule) -> str:
    """Return why a rule is never reached after those `before` it, which take the sizes `taken`."""
    if rule.first > rule.last:
        return f"matches no size: {rule.first} to {rule.last} bytes"
    if entry.collective in _NO_SIZE and rule.first > 0:
        return f"the library always looks up the size 0 for {entry.collective}"
    if taken.covers(rule.first, 0 if entry.collective in _NO_SIZE else rule.last):
        over = [str(o.rule.line) for o in islice(_overlapping(before, rule), _MOST_NAMED + 1)]
        lines = ", ".join(over[:_MOST_NAMED]) + (", …" if len(over) > _MOST_NAMED else "")
        return f"never reached: the rules before it (line {lines}) take all its sizes"
    return ""


def _overlapping(before: Iterable[SizeRule], rule: SizeRule) -> Iterator[SizeRule]:
    return (o for o in before if o.first <= rule.last and rule.first <= o.last)


def _unreached(
    entry: CollectiveEntry, rules: Sequence[SizeRule], reached: list[SizeRule]
) -> Iterator[Finding]:
    """Yield what is wrong with the order of `rules`; add those that are reached to `reached`."""
    taken = Union()
    for at, rule in enumerate(rules):
        before = islice(rules, at)
        why = _dead(entry, before, taken, rule)
        if why:
            mend = "remove it, or correct the sizes"
            yield Finding(rule.rule.line, Fault.DEAD_RULE, why, mend)
        else:
            reached.append(rule)
            if taken.meets(rule.first, rule.last) and entry.collective not in _NO_SIZE:
                other = next(_overlapping(rules, rule))
                yield Finding(
                    rule.rule.line,
                    Fault.UNSORTED,
                    f"overlaps with the rule on line {other.rule.line}, which stands before it and"
                    " wins",
                    "make the ranges of sizes follow each other",
                )
        taken.add(rule.first, rule.last)


def _union(rules: Iterable[SizeRule]) -> Union:
    taken = Union()
    for rule in rules:
        taken.add(rule.first, rule.last)
    return taken


def _of_one_rule(entry: CollectiveEntry, reached: Sequence[SizeRule]) -> Iterator[Finding]:
    if not reached:
        return
    said = {rule.rule.configuration for rule in reached}
    gap = not _covers_all(reached)
    if entry.collective in _SENDER_DECIDES and (len(said) > 1 or gap):
        other = reached[1] if len(said) > 1 and len(reached) > 1 else reached[0]
        yield Finding(
            other.rule.line,
            Fault.RANKS_DISAGREE,
            f"{entry.collective} is looked up by each process's own send arguments, which may"
            " differ: processes choose different algorithms, and legal programs crash",
            "keep one rule without msg_size_min and msg_size_max",
        )
    elif entry.size is SizeUnit.CONSTANT and entry.collective not in _NO_SIZE and len(said) > 1:
        yield Finding(
            reached[1].rule.line,
            Fault.WRONG_UNIT,
            f"for {entry.collective} the library forgets the count and compares processes x size"
            " of the type",
            "keep one rule",
        )


def _covers_all(rules: Sequence[SizeRule]) -> bool:
    left = 0
    for rule in sorted(rules, key=lambda r: r.first):
        if rule.first > left:
            return False
        left = max(left, rule.last + 1)
    return left > LARGEST_SIZE
