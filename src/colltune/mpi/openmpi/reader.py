"""A strict reader of classic rules files.

Open MPI drops a file that it does not like without a word, and reads nonsense from one that is
merely shifted (``coll_tuned_dynamic_file.c``). Both are errors here, with line and mend.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi.catalogue import CollectiveEntry, Limit
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.protocol import CommunicatorRules, Decision, Rule, RulesFile

_NEWEST = "5.0.11"
_LAST_ID = 21
_LARGEST = {"comm_size": 2**31 - 1, "msize": 2**63 - 1, "other": 2**31 - 1}
_NUMBER = re.compile(r"0|[1-9][0-9]*")


def read(text: str, source: str, release: str | None = None) -> RulesFile:
    """Return what the rules file `text` says; `source` names it in messages.

    Algorithm numbers are checked against the list of `release`, or of the newest known one.

    Raises
    ------
    LibraryError
        For everything that the library would drop, ignore or misread, or that would end or
        corrupt a program: the message names the line and the mend.
    """
    return RulesFile(text, _Reader(text, source, release or _NEWEST).collectives())


@dataclass(frozen=True)
class _Token:
    value: int
    line: int
    starts_line: bool


class _Reader:
    """Reads the stream of numbers of one file."""

    def __init__(self, text: str, source: str, release: str) -> None:
        self.source, self.release = source, release
        self.catalogue = catalogue_of(release)
        self.by_id = {entry.id: entry for entry in self.catalogue.collectives.values()}
        self._refuse_foreign(text)
        self.tokens = list(self._tokenize(text))
        self.at = 0

    def fail(self, line: int, complaint: str) -> LibraryError:
        """Return an error that names file and line."""
        return LibraryError(f"{self.source}:{line}: {complaint}")

    def collectives(self) -> dict[Collective, tuple[CommunicatorRules, ...]]:
        """Read the whole file."""
        found: dict[Collective, tuple[CommunicatorRules, ...]] = {}
        count = self._next("the number of collectives")
        if count.value > _LAST_ID + 1:
            raise self.fail(count.line, f"{count.value} collectives, but there are only 22")
        for _ in range(count.value):
            entry = self._collective(found)
            found[entry.collective] = self._communicators(entry)
        if self.at < len(self.tokens):
            rest = self.tokens[self.at]
            raise self.fail(
                rest.line,
                f"the number {rest.value} is left over after the last collective and would be"
                " ignored; correct the counts before it (a rule has four numbers)",
            )
        return found

    def _refuse_foreign(self, text: str) -> None:
        if text.startswith("\ufeff"):
            raise self.fail(1, "starts with a byte order mark; save it without one")
        if text.startswith("rule-file-version-"):
            raise self.fail(
                1,
                "a version header, which releases before 4.1.8 and 5.0.7 take for a negative"
                " number and then drop the file; remove the header",
            )
        if text.lstrip().startswith("{"):
            raise self.fail(1, "a JSON file, which only Open MPI 6.0 and later read")

    def _tokenize(self, text: str) -> Iterator[_Token]:
        # to the library only a line feed ends a line, and with it a comment
        for number, line in enumerate(text.split("\n"), start=1):
            words = line.partition("#")[0].split()
            for at, word in enumerate(words):
                if not _NUMBER.fullmatch(word):
                    raise self.fail(number, f"{word!r} {_why_no_number(word)}")
                yield _Token(int(word), number, at == 0)

    def _next(self, what: str, kind: str = "other") -> _Token:
        if self.at == len(self.tokens):
            last = self.tokens[-1].line if self.tokens else 1
            raise self.fail(
                last,
                f"the file ends where {what} should follow, so that the library would drop it;"
                " a count before is too high or the file was cut",
            )
        token = self.tokens[self.at]
        self.at += 1
        if token.value > _LARGEST[kind]:
            raise self.fail(token.line, f"{what} is too large: {token.value}")
        return token

    def _collective(
        self, found: dict[Collective, tuple[CommunicatorRules, ...]]
    ) -> CollectiveEntry:
        token = self._next("a collective's id")
        if token.value > _LAST_ID:
            raise self.fail(token.line, f"there is no collective with the id {token.value}")
        entry = self.by_id.get(token.value)
        if entry is None:
            raise self.fail(
                token.line,
                f"rules for the collective with the id {token.value} are ignored by the library;"
                " remove them",
            )
        if entry.collective in found:
            raise self.fail(
                token.line,
                f"{entry.collective} stands twice and the first one would be lost; join the two",
            )
        return entry

    def _communicators(self, entry: CollectiveEntry) -> tuple[CommunicatorRules, ...]:
        count = self._next(f"the number of {entry.collective}'s communicator sizes")
        lines: list[int] = []
        found: list[CommunicatorRules] = []
        for _ in range(count.value):
            size = self._next(f"a communicator size of {entry.collective}", "comm_size")
            if found and size.value <= found[-1].comm_size:
                raise self.fail(
                    size.line,
                    f"communicator size {size.value} follows {found[-1].comm_size} and would never"
                    " be reached; sort the sizes in ascending order",
                )
            lines.append(size.line)
            found.append(CommunicatorRules(size.value, self._rules(entry, size)))
        self._check_two_processes(entry, found, lines)
        return tuple(found)

    def _rules(self, entry: CollectiveEntry, comm_size: _Token) -> tuple[Rule, ...]:
        count = self._next(f"the number of rules for communicator size {comm_size.value}")
        if entry.one_rule and count.value > 1:
            raise self.fail(
                count.line,
                f"{count.value} rules for {entry.collective}, whose size is not the same on every"
                " rank or always the same; keep one rule per communicator size",
            )
        found: list[Rule] = []
        for _ in range(count.value):
            found.append(self._rule(entry, found[-1] if found else None))
        return tuple(found)

    def _rule(self, entry: CollectiveEntry, before: Rule | None) -> Rule:
        size = self._next("a rule's message size", "msize")
        number = self._next("a rule's algorithm")
        fanout = self._next("a rule's fan-out")
        segsize = self._next("a rule's segment size")
        if not size.starts_line and segsize.line != size.line:
            raise self.fail(
                size.line,
                "a rule starts in the middle of this line and runs on into the next; a rule has"
                " four numbers: message size, algorithm, fan-out, segment size",
            )
        if before is None and size.value != 0:
            raise self.fail(
                size.line,
                f"the first message size is {size.value}, for which the library drops the whole"
                " file; start with a rule for 0",
            )
        if before is not None and size.value <= before.first_bytes:
            raise self.fail(
                size.line,
                f"message size {size.value} follows {before.first_bytes} and would never be"
                " reached; sort the sizes in ascending order",
            )
        if number.value and entry.numbered(number.value) is None:
            raise self.fail(
                number.line,
                f"Open MPI {self.release} has no {entry.collective} algorithm {number.value} and"
                f" would end the program; known: 0 to {len(entry.algorithms)}",
            )
        return Rule(size.value, Decision(number.value, fanout.value, segsize.value))

    def _check_two_processes(
        self, entry: CollectiveEntry, found: list[CommunicatorRules], lines: list[int]
    ) -> None:
        for at, communicator in enumerate(found):
            numbers = {rule.decision.algorithm for rule in communicator.rules}
            two = [entry.numbered(n) for n in numbers if n]
            names = [a.name for a in two if a is not None and Limit.TWO_PROCESSES in a.limits]
            last = found[at + 1].comm_size - 1 if at + 1 < len(found) else None
            if names and (communicator.comm_size != 2 or last != 2):
                raise self.fail(
                    lines[at],
                    f"{entry.collective} algorithm {names[0]} would end programs on other"
                    " communicators than those of 2 processes; use it in an entry 2 that is"
                    " followed by an entry 3",
                )


def _why_no_number(word: str) -> str:
    if re.fullmatch(r"-[0-9]+", word):
        return "is negative, for which the library drops the whole file"
    if re.fullmatch(r"0[0-7]+|0[xX][0-9a-fA-F]+", word):
        return "would be read as octal or hexadecimal; write it as a decimal number"
    if re.fullmatch(r"[0-9]+", word):
        return "has a leading zero, which means octal; write it as a decimal number"
    if any(c.isdigit() for c in word):
        return (
            "would be read as several numbers or another one; write whole numbers apart by blanks"
        )
    return "is not a number; start comments with #"
