"""What is wrong with a classic rules file: with its form, the order of its sizes, its rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.openmpi.classic.reading import HEADER, Block, ClassicFile, Section
from colltune.mpi.openmpi.releases import reads_version_header
from colltune.mpi.openmpi.tuned_lint import RuleFindings, outranked
from colltune.mpi.rules import Fault, Finding, Piece, by_owner, in_order, scanned
from colltune.text import counted

_PLAIN_LINE = re.compile(r"(?:[ \t]*(?:0|[1-9][0-9]*)(?![^ \t]))*[ \t]*")
_FIRST, _OF_COLLECTIVE, _OF_RULE = 5, 4, (4, 5)
_SORT = "sort the sizes in ascending order"


def lint(file: ClassicFile) -> tuple[Finding, ...]:
    found = [*_whole(file), *_words(file), *outranked(file.entries, file.catalogue)]
    seen: set[int] = set()
    for section in file.content.sections:
        found += _section(file, section, again=section.id.value in seen)
        seen.add(section.id.value)
    known = RuleFindings(file.release)
    for collective, entries in file.entries_read.items():
        of = file.catalogue.collectives[collective]
        found += (finding for one in entries for finding in known.found(of, one, one.rules))
    wrong = list(_contradicted(file))
    if wrong:
        # what stands behind is not what it is read as
        found = [each for each in found if 0 < each.line < wrong[0].line] + wrong
    return in_order(found)


_Block = tuple[list[tuple[int, int]], list[int]]
"""Lines with one number each, with that number, and the lines of rules below them."""


def _contradicted(file: ClassicFile) -> Iterator[Finding]:
    """Yield a finding for each count that the lines of a file contradict.

    It can be told where each number but those of rules has a line of its own: the first block has
    five such lines, those of further communicator sizes two, those of further collectives four.
    """
    content = file.content
    if content.by_lines and not content.drops and content.rest is None:
        return
    blocks = _blocks(file.text.removeprefix("\ufeff"))
    if not blocks or len(blocks[0][0]) != _FIRST or {len(b[0]) for b in blocks[1:]} - {2, 4}:
        return
    first = blocks[0][0].pop(0)
    counts: list[tuple[int, int, str, int]] = []
    at = 0
    for lines, rules in blocks:
        if len(lines) == _OF_COLLECTIVE:
            at = len(counts)
            counts.append((*lines[1], "communicator size", 0))
        counts[at] = (*counts[at][:3], counts[at][3] + 1)
        counts.append((*lines[-1], "rule", len(rules)))
    collectives = sum(len(lines) == _OF_COLLECTIVE for lines, _ in blocks)
    for line, told, what, there in [(*first, "collective", collectives), *counts]:
        if told != there:
            fault = Fault.FILE_DROPPED if content.drops else Fault.MALFORMED
            message = (
                f"announces {counted(told, what)}, but {there} follow, so that the library takes "
                "the numbers behind for something else"
            )
            yield Finding(line, fault, message, f"write {there}, or mend what follows")


def _blocks(text: str) -> list[_Block]:
    """Return the blocks of a file; none if other lines stand between."""
    blocks: list[_Block] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words or (number == 1 and words[0].startswith(HEADER)):
            continue
        if not all(map(str.isdecimal, words)) or len(words) not in (1, *_OF_RULE):
            return []
        if len(words) == 1 and (not blocks or blocks[-1][1]):
            blocks.append(([], []))
        if len(words) == 1:
            blocks[-1][0].append((number, int(words[0])))
        elif not blocks:
            return []
        else:
            blocks[-1][1].append(number)
    return blocks


def _whole(file: ClassicFile) -> Iterator[Finding]:
    header, json = file.text.startswith(HEADER), file.text.lstrip().startswith("{")
    reads_header = reads_version_header(file.release)
    if json:
        yield Finding(
            1,
            Fault.FILE_DROPPED,
            "this is a JSON file, which only Open MPI 6.0 and later read (as openmpi-json)",
            "write it in this format",
        )
    if header and reads_header:
        rules = [r for s in file.content.sections for e in s.blocks for r in e.rules]
        needed = any(rule.numbers.requests is not None for rule in rules)
        message = "releases 4.1 before 4.1.8 and 5.0 before 5.0.7 drop a file with a version header"
        mend = "remove the header: no rule has a fifth number"
        mend = "do not use the file with these releases" if needed else mend
        yield Finding(1, Fault.REMARK, message, mend)
    elif header:
        yield Finding(
            1,
            Fault.FILE_DROPPED,
            "there is a version header; releases before 4.1.8 and 5.0.7 read it as a "
            "negative number and drop the whole file",
            "remove the header, and the fifth number of rules",
        )
    for line, why in file.content.drops:
        if not json and not (header and not reads_header and line == 1):
            message = f"{why}. Open MPI {file.release} drops the whole file without a message"
            yield Finding(line, Fault.FILE_DROPPED, message, "correct it")
    if file.text.startswith("\ufeff"):
        yield Finding(
            1,
            Fault.MALFORMED,
            "the file starts with a byte order mark: the library skips it, and then does not "
            "recognise a version header",
            "save the file without a byte order mark",
        )
    rest = file.content.rest
    if rest is not None:
        yield Finding(
            rest.line,
            Fault.DEAD_RULE,
            f"the number {rest.value} is left over after the last collective; the library "
            "ignores it and everything after it",
            "correct the counts before it (a rule has four numbers)",
        )


# what words are, the first that fits
_WORDS = (
    (re.compile(r"[+-]?(0|[1-9][0-9]*)|-[0-9]+"), ""),
    (re.compile(r"0[0-7]+|0[xX][0-9a-fA-F]+"), "would be read as octal or hexadecimal"),
    (re.compile(r"[0-9]+"), "has a leading zero, which means octal"),
    (re.compile(r".*[0-9].*"), "would be read as several numbers or another one"),
    (re.compile(r".*"), "is not a number and is skipped"),
)


def _words(file: ClassicFile) -> Iterator[Finding]:
    """Yield what is no plain number, in the part of the file that is read."""
    lines = file.text.split("\n")[: file.content.last_line]
    if file.text.lstrip().startswith("{"):
        return
    for number, line in enumerate(lines, start=1):
        if _PLAIN_LINE.fullmatch(line):
            continue
        words = line.partition("#")[0].split()
        if number == 1 and words and words[0].lstrip("\ufeff").startswith(HEADER):
            words = words[1:]
        for word in words:
            plain = word.removeprefix("\ufeff")
            why = next(why for form, why in _WORDS if form.fullmatch(plain)) if plain else ""
            if why:
                shown = word if len(word) <= 40 else f"{word[:40]}..."
                mend = "write whole decimal numbers, separated by blanks; comments begin with #"
                yield Finding(number, Fault.MALFORMED, f"{shown!r} {why}", mend)


def _section(file: ClassicFile, section: Section, *, again: bool) -> Iterator[Finding]:
    line = section.id.line
    known = file.by_id.get(section.id.value)
    if known is None:
        if 0 <= section.id.value <= 21:
            yield Finding(
                line,
                Fault.UNKNOWN,
                "the library ignores the rules for the collective with the id "
                f"{section.id.value}, because it has no algorithms for it",
                "remove them",
            )
        return
    if again:
        yield Finding(
            line,
            Fault.DEAD_RULE,
            f"{known.collective} appears twice, and the first one is lost",
            "join the two",
        )
    if file.sections[known.collective] is not section:
        return
    served = by_owner(file.communicators(section))
    if file.by_ranges:
        yield from _shifted(file, section, served)
    else:
        yield from _communicator_sizes(known, section.blocks)
        living = [entry for at, entry in enumerate(section.blocks) if at in served]
        yield from _same_thresholds(known, living)
    for entry in section.blocks:
        yield from _one_rule(known, entry)
        yield from _order(entry)
        yield from entry.findings


def _communicator_sizes(known: CollectiveEntry, entries: Sequence[Block]) -> Iterator[Finding]:
    largest, rules = -1, [""]
    for entry in entries:
        size, line = entry.comm_size.value, entry.comm_size.line
        if entry.comm_size.clamped or size >= 2**31:
            text = f"communicator size {size} is larger than any job"
            yield Finding(line, Fault.MALFORMED, text, "write the size of a job")
        elif size == largest:
            # written for 6.x, which takes the same size for the end of the entry before
            harmless = len(rules) > 1 and rules[-1] == rules[-2]
            text = (
                f"communicator size {size} appears twice in a row, and the first entry is never "
                "used"
            )
            yield Finding(line, Fault.REMARK if harmless else Fault.DEAD_RULE, text, _SORT)
        elif size < largest:
            text = (
                f"communicator size {size} follows {largest}, so it is used from {largest} "
                f"processes on, and the entry for {largest} is never used"
            )
            yield Finding(line, Fault.UNSORTED, text, _SORT)
        largest = max(largest, size)
        rules.append(_rules_text(entry))
    if entries and entries[0].comm_size.value > 2 and _chooses(entries[0]):
        first = entries[0].comm_size
        yield Finding(
            first.line,
            Fault.INHERITED,
            f"{known.collective} on fewer than {first.value} processes also uses this entry, "
            "because it is the first one",
            "start with an entry for 0 processes that has only the rule 0 0 0 0",
        )


def _shifted(
    file: ClassicFile, section: Section, served: Mapping[int | None, list[Piece]]
) -> Iterator[Finding]:
    """Yield a finding for each entry that 6.x uses where earlier releases use another one."""
    meant = scanned([entry.comm_size.value for entry in section.blocks], inherit=True)
    starts = [piece.first for piece in meant]
    for position, entry in enumerate(section.blocks):
        for first, last, _ in served.get(position, []):
            at = bisect_right(starts, max(first, 2)) - 1
            until = len(starts) if last is None else bisect_right(starts, last)
            inside = meant[bisect_right(starts, first) : until]
            others = {piece.owner for piece in (meant[at], *inside)}
            texts = {_rules_text(section.blocks[other]) for other in others if other is not None}
            if (last is None or last > 1) and texts - {_rules_text(entry)}:
                reach = f"{first} and more" if last is None else f"{first} to {last}"
                yield Finding(
                    entry.comm_size.line,
                    Fault.OTHER_RELEASE,
                    f"Open MPI {file.release} uses the entry for "
                    f"{counted(entry.comm_size.value, 'process', 'es')} for {reach}, because "
                    "it reads the sizes shifted by one entry",
                    "convert the file to openmpi-json, or to this format for this release",
                )


def _rules_text(entry: Block) -> str:
    return "; ".join(rule.text for rule in entry.rules)


def _one_rule(known: CollectiveEntry, entry: Block) -> Iterator[Finding]:
    if not known.one_rule or len({rule.numbers for rule in entry.rules}) < 2:
        return
    if known.size is SizeUnit.CONSTANT:
        fault, why = Fault.DEAD_RULE, "but the library looks all calls up with the same size"
    else:
        fault = Fault.RANKS_DISAGREE
        why = (
            "but each rank takes the size from arguments that MPI ignores on other ranks: "
            "ranks choose different algorithms, and legal programs crash or hang"
        )
    yield Finding(
        entry.count.line,
        fault,
        f"{known.collective} has {counted(len(entry.rules), 'rule')}, {why}",
        "keep one rule per communicator size",
    )


def _order(entry: Block) -> Iterator[Finding]:
    largest = -1
    for rule in entry.rules:
        size = rule.first
        if size == largest:
            text = f"message size {size} appears twice in a row, and the first rule is never used"
            yield Finding(rule.line, Fault.DEAD_RULE, text, _SORT)
        elif 0 <= size < largest:
            text = (
                f"message size {size} follows {largest}: the library reads sizes in the order "
                "of the file, so one of the two rules is not used as intended"
            )
            yield Finding(rule.line, Fault.UNSORTED, text, _SORT)
        largest = max(largest, size)


def _same_thresholds(known: CollectiveEntry, living: Sequence[Block]) -> Iterator[Finding]:
    """Yield a finding where thresholds do not grow with the communicator, as totals would."""
    if known.size is not SizeUnit.MSIZE_TIMES_NPROCS:
        return
    chosen = [(e, {rule.first for rule in e.rules} - {0}) for e in living if _chooses(e)]
    for (before, sizes), (entry, others) in pairwise(chosen):
        few, many = before.comm_size.value, entry.comm_size.value
        totals = all(size % max(few, 1) == 0 and size % max(many, 1) == 0 for size in sizes)
        if len(sizes) > 1 and sizes == others and few != many and not totals:
            yield Finding(
                entry.comm_size.line,
                Fault.WRONG_UNIT,
                f"{known.collective} has the same message sizes for {few} and {many} "
                "processes, so they look like sizes of one block; the library compares "
                "processes times block",
                "multiply sizes of blocks by the number of processes",
            )
            return


def _chooses(entry: Block) -> bool:
    return any(rule.numbers.algorithm for rule in entry.rules)
