"""Reads a selection file as MPICH does, and tells what is wrong with how it is built.

MPICH reads with json-c, which takes comments, trailing commas and whatever follows the document,
keeps the last one of two equal keys (at the place of the first), and knows no more than 32 levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from colltune.errors import LibraryError
from colltune.mpi import located_json
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.located_json import JsonSyntaxError, Member, Node
from colltune.mpi.mpich.functions import Functions, functions_of
from colltune.mpi.mpich.releases import TITLE, catalogue_of
from colltune.mpi.mpich.tree import (
    LARGEST,
    MARK,
    NOTHING,
    Branch,
    Leaf,
    Test,
    Tree,
    brief,
    parsed_test,
)

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_BLANK = re.compile(r"\s+")
_DEEPEST = 31
_PAGE = 4096
_LEAF = ("algorithm=", "composition=")
_OLD_ANY = frozenset(
    f"{name}=any" for name in ("comm_size", "avg_msg_size", "total_msg_size", "count")
) | {"comm_hierarchy=any"}
_YES_OR_NO = (
    *("is_multi_threaded", "is_commutative", "is_op_built_in", "is_sendbuf_inplace"),
    *("is_block_regular", "is_node_consecutive"),
)
_WORDS = {
    "comm_type": ("intra", "inter"),
    "comm_hierarchy": ("parent", "node", "node_roots", "flat"),
    **dict.fromkeys(_YES_OR_NO, ("yes", "no")),
}
_NUMBERED = {
    "comm_size": ("<=", "<"),
    "comm_avg_ppn": ("<=", "<"),
    "avg_msg_size": ("<=", "<"),
    "total_msg_size": ("<=", "<"),
    "count": ("<=",),
}
_STRICT = frozenset(_NUMBERED)
_BOUND = re.compile(r"[a-z_]+<=?([+-]?[0-9]+)")


@dataclass
class Reading:
    """The tree of a whole file, findings, and why the program ends at its start."""

    tree: Tree
    findings: list[Finding] = field(default_factory=list)
    fatal: str = ""


def read(text: str, source: str, release: str) -> Reading:
    """Return the tree of a selection file."""
    functions = functions_of(release)
    try:
        document = located_json.parse(_without_comments(text), trailing_commas=True)
    except JsonSyntaxError as error:
        raise LibraryError(f"{source}:{error.line}: {error}; {TITLE} ends here, too") from error
    if not document.is_object:
        raise LibraryError(f"{source}:1: not a JSON object; a selection tree is one")
    reader = _Reader(release, functions)
    reading = reader.reading
    reading.tree = reader.chain(document, 1)
    size = len(text.encode("utf-8", errors="surrogateescape"))
    if size % _PAGE == 0:
        what = f"the file has {size} bytes, a multiple of {_PAGE}: {TITLE} reads on behind its end"
        reader.warn(0, Fault.ENDS_PROGRAM, f"{what}, and may crash", "add an empty line")
    return reading


def _without_comments(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _COMMENT.sub(blank, text) if "/*" in text or "//" in text else text


class _Reader:
    def __init__(self, release: str, functions: Functions) -> None:
        self.release, self.functions = release, functions
        self.series = catalogue_of(release).series
        self.names = functions.all
        self.reading = Reading(NOTHING)

    def fail(
        self, line: int, fault: Fault, message: str, mend: str, *, at_start: bool = False
    ) -> None:
        self.reading.findings.append(Finding(line, fault, brief(message), mend))
        if at_start and not self.reading.fatal:
            self.reading.fatal = brief(f"line {line}: {message}" if line else message)

    def warn(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.reading.findings.append(Finding(line, fault, brief(message), mend))

    def chain(self, node: Node, depth: int) -> Tree:
        """Return what an object stands for."""
        members = list(self.kept(node))
        if depth > _DEEPEST:
            what = "nested deeper than the 32 levels that json-c reads"
            self.fail(node.line, Fault.ENDS_PROGRAM, what, "merge tests", at_start=True)
            return NOTHING
        named = [member for member in members if _key(member).startswith(_LEAF)]
        if named:
            return self.leaf(members, named)
        if not members:
            what = f"an empty object, where {TITLE} wants a test or an algorithm"
            self.fail(node.line, Fault.ENDS_PROGRAM, what, "name an algorithm", at_start=True)
            return NOTHING
        tests = []
        for member in members:
            found = self.test(member)
            if not member.node.is_object:
                what = f"the value of {member.key!r} is no object"
                self.fail(member.line, Fault.ENDS_PROGRAM, what, "write {…}", at_start=True)
                continue
            then = self.chain(member.node, depth + 1)
            if found is not None:
                tests.append((found, then))
        self.check_end([found for found, _ in tests])
        return Branch(tuple(tests)) if tests else NOTHING

    def kept(self, node: Node) -> Iterator[Member]:
        """Yield the members that json-c keeps, and tell of the others."""
        last = {member.key: member for member in node.members}
        seen: set[str] = set()
        for member in node.members:
            if last[member.key] is not member:
                what = (
                    f"{member.key!r} stands again on line {last[member.key].line}: that one counts"
                )
                self.warn(member.line, Fault.DEAD_RULE, what, "remove one of them")
            if member.key not in seen:
                seen.add(member.key)
                yield last[member.key]

    def test(self, member: Member) -> Test | None:
        key = _key(member)
        found = parsed_test(key, member.line)
        if found is None or not self.has(found):
            what = f"{TITLE} {self.release} knows no test {member.key!r} and aborts"
            self.fail(member.line, Fault.ENDS_PROGRAM, what, "correct the key", at_start=True)
            return None
        bound = _BOUND.fullmatch(key)
        if found.number is not None and (bound is None or _digits(bound[1]) != found.number):
            what = f"{TITLE} reads {member.key!r} as {found.key!r}"
            mend = f"write a whole number up to {LARGEST}"
            self.fail(member.line, Fault.MALFORMED, what, mend)
        return found

    def has(self, found: Test) -> bool:
        old = self.series in ("4.0", "4.1")
        if found.is_any:
            return found.key in _OLD_ANY if old else True
        if found.name == "collective":
            return found.value in self.functions.by_collective
        if found.relation == "=":
            special = found.name == "comm_size" and found.value in ("pow2", "node_comm_size")
            return special or found.value in _WORDS.get(found.name, ())
        if found.value == "pow2":
            return found.key == "count<pow2"
        if old and found.name == "comm_avg_ppn" and found.relation == "<":
            return False
        return found.relation in _NUMBERED.get(found.name, ())

    def check_end(self, tests: list[Test]) -> None:
        """Tell of chains that MPICH's own check of the tree refuses."""
        for found in tests[:-1]:
            if found.is_any and not (
                self.series in ("4.0", "4.1") and found.name == "comm_hierarchy"
            ):
                what = f"{found.key!r} is not the last test of its chain, and {TITLE} aborts"
                self.fail(found.line, Fault.ENDS_PROGRAM, what, "put it last", at_start=True)
        if tests and not tests[-1].is_any and tests[-1].name in _STRICT:
            name = tests[-1].name if tests[-1].name != "comm_avg_ppn" else "comm_size"
            what = f"a chain of tests ends with {tests[-1].key!r}, and {TITLE} aborts"
            mend = f'end it with "{name}=any"'
            self.fail(tests[-1].line, Fault.ENDS_PROGRAM, what, mend, at_start=True)

    def leaf(self, members: list[Member], named: list[Member]) -> Leaf:
        """Return the leaf of an object that names an algorithm: the last one counts."""
        for member in members:
            if member not in named:
                what = f"{member.key!r} stands beside an algorithm, where {TITLE} aborts"
                self.fail(member.line, Fault.ENDS_PROGRAM, what, "remove it", at_start=True)
        for member in named[:-1]:
            what = f"{member.key!r}: the last algorithm of an object counts"
            self.warn(member.line, Fault.DEAD_RULE, what, "remove it")
        last = named[-1]
        function = _key(last).partition("=")[2]
        if not last.node.is_object:
            what = f"the value of {last.key!r} is no object"
            self.fail(last.line, Fault.ENDS_PROGRAM, what, "write {}", at_start=True)
        if function not in self.names:
            what = f"{TITLE} {self.release} has no algorithm {function!r} and aborts"
            self.fail(last.line, Fault.ENDS_PROGRAM, what, "name one that it has", at_start=True)
        keys = [_BLANK.sub("", member.key) for member in last.node.members]
        pairs = tuple((n, v) for n, _, v in (key.partition("=") for key in keys if key != MARK))
        return Leaf(function, pairs, left_to_library=MARK in keys, line=last.line)


def _key(member: Member) -> str:
    return _BLANK.sub("", member.key)


def _digits(text: str) -> int:
    """Return the number, of which 30 digits are more than enough to tell that it is too large."""
    return int(text[:30])
