"""What is wrong with a JSON rules file that Open MPI 6 reads all the same: order, and its rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from colltune.domain import Collective, Shape
from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.json_rules.reading import JsonFile
from colltune.mpi.openmpi.tuned_lint import RuleFindings, outranked
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Entry,
    Fault,
    Finding,
    Layout,
    Rule,
    Union,
    union_of,
)

_MOST_NAMED = 5
SENDER_DECIDES = frozenset({Collective.ALLGATHERV, Collective.GATHER, Collective.SCATTER})


def lint(file: JsonFile) -> Iterator[Finding]:
    known = RuleFindings(file.release)
    for collective, entries in file.entries.items():
        entry = file.catalogue.collectives[collective]
        taken: dict[Layout | Shape, Union] = {layout: Union() for layout in Layout}
        for at, communicator in enumerate(entries):
            first, last = communicator.first_size, communicator.last_size
            hiding = (taken[Layout.ANY], taken[communicator.layout])
            met = any(union.meets(max(first, 2), last) for union in hiding)
            yield from _of_communicator(entries[:at] if met else (), communicator)
            rules = [rule for rule in communicator.rules if not rule.ignored]
            reached: list[Rule] = []
            yield from _unreached(entry, rules, reached)
            yield from _of_one_rule(entry, reached)
            yield from known.found(entry, communicator, reached)
            taken[communicator.layout].add(first, last)
    yield from outranked(file.entries, file.catalogue)


def is_reached(before: Sequence[Entry], communicator: Entry) -> bool:
    """Tell whether there are communicators that an entry gets after those `before` it."""
    findings = _of_communicator(before, communicator)
    return all(finding.fault is not Fault.DEAD_RULE for finding in findings)


def is_rule_reached(entry: CollectiveEntry, before: Sequence[Rule], rule: Rule) -> bool:
    """Tell whether there are sizes that a rule gets after those `before` it."""
    known = [other for other in before if not other.ignored]
    return not _dead(entry, known, union_of(known), rule)


def _of_communicator(before: Sequence[Entry], communicator: Entry) -> Iterator[Finding]:
    first, last = communicator.first_size, communicator.last_size
    if max(first, 2) > last:
        yield Finding(
            communicator.line,
            Fault.DEAD_RULE,
            f"matches no communicator: {first} to {last} processes",
            "correct the range; it includes both ends",
        )
        return
    for other in before:
        if other.layout not in (Layout.ANY, communicator.layout):
            continue
        if other.first_size <= max(first, 2) and last <= other.last_size:
            yield Finding(
                communicator.line,
                Fault.DEAD_RULE,
                f"never reached, because the entry on line {other.line} takes all its "
                "communicators, also for message sizes that have no rule there",
                "remove it, or put it first",
            )
            return
        if max(other.first_size, first, 2) <= min(other.last_size, last):
            yield Finding(
                communicator.line,
                Fault.UNSORTED,
                f"overlaps with the entry on line {other.line}, which comes first and wins",
                "give each entry its own range of communicator sizes",
            )
    if communicator.layout is Layout.ONE_PER_NODE:
        yield Finding(
            communicator.line,
            Fault.REMARK,
            "one-per-node never holds for MPI_COMM_WORLD. For others it holds only if it "
            "holds for all communicators that the same call makes (also for the processes "
            "with MPI_UNDEFINED)",
            "add an entry for other communicators after this one",
        )
    if first < 2 and last == LARGEST_COMM_SIZE and communicator.layout is Layout.ANY:
        yield Finding(
            communicator.line,
            Fault.REMARK,
            "holds for communicators of any size, including the library's internal ones",
            "give comm_size_min and comm_size_max",
        )


def _dead(entry: CollectiveEntry, before: Iterable[Rule], taken: Union, rule: Rule) -> str:
    """Return why a rule is never reached after those `before` it, which take the sizes `taken`."""
    if rule.first > rule.last:
        return f"matches no size: {rule.first} to {rule.last} bytes"
    if entry.collective in NO_SIZE and rule.first > 0:
        return f"the library always looks up the size 0 for {entry.collective}"
    if taken.covers(rule.first, 0 if entry.collective in NO_SIZE else rule.last):
        over = [str(o.line) for o in islice(_overlapping(before, rule), _MOST_NAMED + 1)]
        lines = ", ".join(over[:_MOST_NAMED]) + (", …" if len(over) > _MOST_NAMED else "")
        return f"never reached, because the rules before it (line {lines}) take all its sizes"
    return ""


def _overlapping(before: Iterable[Rule], rule: Rule) -> Iterator[Rule]:
    return (o for o in before if o.first <= rule.last and rule.first <= o.last)


def _unreached(
    entry: CollectiveEntry, rules: Sequence[Rule], reached: list[Rule]
) -> Iterator[Finding]:
    """Yield what is wrong with the order of `rules`; add those that are reached to `reached`."""
    taken = Union()
    for at, rule in enumerate(rules):
        before = islice(rules, at)
        why = _dead(entry, before, taken, rule)
        if why:
            mend = "remove it, or correct the sizes"
            yield Finding(rule.line, Fault.DEAD_RULE, why, mend)
        else:
            reached.append(rule)
            if taken.meets(rule.first, rule.last) and entry.collective not in NO_SIZE:
                other = next(_overlapping(rules, rule))
                yield Finding(
                    rule.line,
                    Fault.UNSORTED,
                    f"overlaps with the rule on line {other.line}, which comes first and wins",
                    "give each rule its own range of sizes",
                )
        taken.add(rule.first, rule.last)


def _of_one_rule(entry: CollectiveEntry, reached: Sequence[Rule]) -> Iterator[Finding]:
    if not reached:
        return
    said = {rule.configuration for rule in reached}
    gap = not union_of(reached).covers(0, LARGEST_SIZE)
    if entry.collective in SENDER_DECIDES and (len(said) > 1 or gap):
        other = reached[1] if len(said) > 1 and len(reached) > 1 else reached[0]
        yield Finding(
            other.line,
            Fault.RANKS_DISAGREE,
            f"each process looks {entry.collective} up by its own send arguments, which may "
            "differ: processes choose different algorithms, and legal programs crash",
            "keep one rule without msg_size_min and msg_size_max",
        )
    elif entry.size is SizeUnit.CONSTANT and entry.collective not in NO_SIZE and len(said) > 1:
        yield Finding(
            reached[1].line,
            Fault.WRONG_UNIT,
            f"for {entry.collective} the library ignores the count and compares processes x "
            "size of the type",
            "keep one rule",
        )
