"""What is wrong with a classic rules file: as a whole, by section, by entry."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.openmpi.classic.lint_rules import rule_findings
from colltune.mpi.openmpi.classic.parsed import ClassicFile
from colltune.mpi.openmpi.classic.reading import Entry, Section
from colltune.mpi.openmpi.components import han_serves
from colltune.mpi.openmpi.releases import reads_version_header
from colltune.mpi.openmpi.spans import scanned

_PLAIN = re.compile(r"\+?(0|[1-9][0-9]*)")
_HEADER = "rule-file-version-"
_SORT = "sort the sizes in ascending order"


def lint(file: ClassicFile) -> tuple[Finding, ...]:
    found = [*_whole(file), *_words(file)]
    seen: set[int] = set()
    for section in file.content.sections:
        found += _section(file, section, again=section.id.value in seen)
        seen.add(section.id.value)
    return tuple(sorted(set(found)))


def _whole(file: ClassicFile) -> Iterator[Finding]:
    yield from _drops(file)
    yield from _header(file)
    if file.text.startswith("\ufeff"):
        yield Finding(
            1,
            Fault.MALFORMED,
            "starts with a byte order mark, which the library skips, and after which it does not"
            " see a version header",
            "save it without one",
        )
    rest = file.content.rest
    if rest is not None:
        yield Finding(
            rest.line,
            Fault.DEAD_RULE,
            f"the number {rest.value} is left over after the last collective, and is ignored with"
            " all that follows",
            "correct the counts before it (a rule has four numbers)",
        )
    yield from _outranked(file)


def _drops(file: ClassicFile) -> Iterator[Finding]:
    header = file.text.startswith(_HEADER) and not reads_version_header(file.release)
    json = file.text.lstrip().startswith("{")
    if json:
        later = "Open MPI 6.0 and later read it as openmpi-json, earlier ones do not"
        yield Finding(1, Fault.FILE_DROPPED, f"a JSON file: {later}", "write it in this format")
    if header:
        yield Finding(
            1,
            Fault.FILE_DROPPED,
            "a version header, which releases before 4.1.8 and 5.0.7 take for a negative number,"
            " for which they drop the whole file",
            "remove the header, and the fifth number of rules",
        )
    for line, why in file.content.drops:
        if not (json or (header and line == 1)):
            message = f"{why}: Open MPI {file.release} drops the whole file without a word"
            yield Finding(line, Fault.FILE_DROPPED, message, "correct it")


def _header(file: ClassicFile) -> Iterator[Finding]:
    if not (file.text.startswith(_HEADER) and reads_version_header(file.release)):
        return
    rules = [r for s in file.content.sections for e in s.entries for r in e.rules]
    if any(rule.requests is not None for rule in rules):
        mend = "use the file for these releases only"
    else:
        mend = "remove the header: no rule has a fifth number"
    yield Finding(
        1,
        Fault.REMARK,
        "4.1 before 4.1.8 and 5.0 before 5.0.7 drop a file with a version header",
        mend,
    )


def _outranked(file: ClassicFile) -> Iterator[Finding]:
    if file.catalogue.han_priority is None or file.dropped:
        return
    taken = [
        collective
        for collective, section in file.sections.items()
        if han_serves(file.catalogue, collective)
        and any(r.algorithm.value for e in section.entries for r in e.rules)
    ]
    if taken:
        yield Finding(
            0,
            Fault.NOT_EVERYWHERE,
            "on communicators that span nodes, coll/han decides"
            f" {', '.join(taken)} first; the rules reach those within a node, and the parts that"
            " coll/han makes (one process per node; the processes of a node)",
            "set coll_han_priority=0, or send these calls on by a rules file of coll/han",
        )


def _words(file: ClassicFile) -> Iterator[Finding]:
    """Yield what is no plain number, in the part of the file that is read."""
    if file.text.lstrip().startswith("{"):
        return
    last = file.content.last_line
    for number, line in enumerate(file.text.split("\n"), start=1):
        if number > last:
            return
        words = line.partition("#")[0].split()
        if number == 1 and words and words[0].lstrip("\ufeff").startswith(_HEADER):
            words = words[1:]
        for word in words:
            plain = word.removeprefix("\ufeff")
            if plain and not _PLAIN.fullmatch(plain) and not _is_negative(plain):
                shown = word if len(word) <= 40 else f"{word[:40]}..."
                yield Finding(
                    number,
                    Fault.MALFORMED,
                    f"{shown!r} {_why_no_number(word)}",
                    "write whole decimal numbers apart by blanks, and comments after #",
                )


def _is_negative(word: str) -> bool:
    return re.fullmatch(r"-[0-9]+", word) is not None


def _why_no_number(word: str) -> str:
    if re.fullmatch(r"0[0-7]+|0[xX][0-9a-fA-F]+", word):
        return "would be read as octal or hexadecimal"
    if re.fullmatch(r"[0-9]+", word):
        return "has a leading zero, which means octal"
    if any(c in "0123456789" for c in word):
        return "would be read as several numbers or another one"
    return "is not a number and is skipped"


def _section(file: ClassicFile, section: Section, *, again: bool) -> Iterator[Finding]:
    line = section.id.line
    known = file.by_id.get(section.id.value)
    if known is None:
        if 0 <= section.id.value <= 21:
            yield Finding(
                line,
                Fault.UNKNOWN,
                f"rules for the collective with the id {section.id.value} are ignored by the"
                " library, which has no algorithms for it",
                "remove them",
            )
        return
    if again:
        yield Finding(
            line,
            Fault.DEAD_RULE,
            f"{known.collective} stands twice and the first one is lost",
            "join the two",
        )
    if file.sections[known.collective] is not section:
        return
    yield from _communicator_sizes(file, known, section)
    yield from _same_thresholds(file, known, section)
    for position, entry in enumerate(section.entries):
        yield from _one_rule(known, entry)
        yield from rule_findings(file, known, position, entry)


def _communicator_sizes(
    file: ClassicFile, known: CollectiveEntry, section: Section
) -> Iterator[Finding]:
    entries = section.entries
    if file.by_ranges:
        yield from _shifted(file, known, section)
        return
    largest, rules = -1, [""]
    for entry in entries:
        size, line = entry.comm_size.value, entry.comm_size.line
        if entry.comm_size.clamped or size >= 2**31:
            text = f"communicator size {size} is too large"
            yield Finding(line, Fault.MALFORMED, text, "write what a job can have")
        elif size == largest:
            # written for 6.x, which takes the same size for the end of the entry before
            harmless = len(rules) > 1 and rules[-1] == rules[-2]
            text = f"communicator size {size} follows {size}, whose entry is never used"
            yield Finding(line, Fault.REMARK if harmless else Fault.DEAD_RULE, text, _SORT)
        elif size < largest:
            text = (
                f"communicator size {size} follows {largest}: it is used from {largest} processes"
                f" on, and the entry for {largest} never is"
            )
            yield Finding(line, Fault.UNSORTED, text, _SORT)
        largest = max(largest, size)
        rules.append(_rules_text(entry))
    if entries and entries[0].comm_size.value > 2 and _chooses(entries[0]):
        first = entries[0].comm_size
        yield Finding(
            first.line,
            Fault.INHERITED,
            f"{known.collective} on fewer than {first.value} processes gets this entry too, since"
            " it is the first one",
            "start with an entry for 0 processes that has the one rule 0 0 0 0",
        )


def _shifted(file: ClassicFile, known: CollectiveEntry, section: Section) -> Iterator[Finding]:
    """Yield a finding for each entry that 6.x uses where earlier releases use another one."""
    meant = scanned([entry.comm_size.value for entry in section.entries], inherit=True)
    for position, entry in enumerate(section.entries):
        for first, last in file.communicators(known.collective).of(position):
            after = bisect_right(meant.starts, first)
            before = len(meant.starts) if last is None else bisect_right(meant.starts, last)
            others = {meant.at(max(first, 2)), *meant.owners[after:before]}
            texts = {_rules_text(section.entries[other]) for other in others if other is not None}
            if (last is None or last > 1) and texts - {_rules_text(entry)}:
                reach = f"{first} and more" if last is None else f"{first} to {last}"
                yield Finding(
                    entry.comm_size.line,
                    Fault.OTHER_RELEASE,
                    f"Open MPI {file.release} uses the entry for {entry.comm_size.value} processes"
                    f" for {reach}: it reads the sizes shifted by one entry",
                    "convert the file to openmpi-json, or to this format for this release",
                )


def _rules_text(entry: Entry) -> str:
    return "; ".join(rule.text for rule in entry.rules)


def _one_rule(known: CollectiveEntry, entry: Entry) -> Iterator[Finding]:
    decisions = {tuple(number.value for number in rule.numbers[1:]) for rule in entry.rules}
    if not known.one_rule or len(decisions) < 2:
        return
    if known.size is SizeUnit.CONSTANT:
        fault, why = Fault.DEAD_RULE, "whose size the library does not know, so that it is constant"
    else:
        fault = Fault.RANKS_DISAGREE
        why = (
            "whose size each rank takes from arguments that MPI ignores on others: ranks choose"
            " different algorithms, and legal programs crash or hang"
        )
    yield Finding(
        entry.count.line,
        fault,
        f"{len(entry.rules)} rules for {known.collective}, {why}",
        "keep one rule per communicator size",
    )


def _same_thresholds(
    file: ClassicFile, known: CollectiveEntry, section: Section
) -> Iterator[Finding]:
    """Yield a finding where thresholds do not grow with the communicator, as totals would."""
    if known.size is not SizeUnit.MSIZE_TIMES_NPROCS or file.by_ranges:
        return
    living = file.communicators(known.collective).living
    chosen = [
        (entry, {rule.size.value for rule in entry.rules} - {0})
        for position, entry in enumerate(section.entries)
        if position in living and _chooses(entry)
    ]
    for (before, sizes), (entry, others) in pairwise(chosen):
        few, many = before.comm_size.value, entry.comm_size.value
        totals = all(size % max(few, 1) == 0 and size % max(many, 1) == 0 for size in sizes)
        if len(sizes) > 1 and sizes == others and few != many and not totals:
            yield Finding(
                entry.comm_size.line,
                Fault.WRONG_UNIT,
                f"{known.collective} has the same message sizes for {few} and"
                f" {many} processes; the library compares them with processes"
                " times block, so that they look like sizes of a block",
                "multiply sizes of blocks by the number of processes",
            )
            return


def _chooses(entry: Entry) -> bool:
    return any(rule.algorithm.value for rule in entry.rules)
