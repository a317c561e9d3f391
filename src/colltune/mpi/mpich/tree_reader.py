"""Reads a selection file as MPICH does, and tells what is wrong with how it is built.

MPICH reads with json-c, which takes comments, trailing commas and whatever follows the document,
keeps the last one of two equal keys (at the place of the first), and knows no more than 32 levels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from colltune.errors import say
from colltune.mpi import located_json
from colltune.mpi.located_json import JsonSyntaxError, Member, Node
from colltune.mpi.mpich.functions import Functions, functions_of
from colltune.mpi.mpich.library import TITLE
from colltune.mpi.mpich.tree import (
    LARGEST,
    MARK,
    MESSAGE,
    NOTHING,
    Branch,
    Leaf,
    Test,
    Tree,
    brief,
    parsed_test,
)
from colltune.mpi.rules import Fault, Finding

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_BLANK = re.compile(r"\s+")
_OF_DEVICE = re.compile(r'"\s*(?:composition\s*=|algorithm\s*=\s*MPIDI_)')
_DEEPEST = 31
_PAGE = 4096
_LEAF = ("algorithm=", "composition=")
_BOUNDED = ("comm_size", "comm_avg_ppn", *MESSAGE)
_OLD_ANY = frozenset(f"{name}=any" for name in ("comm_size", "comm_hierarchy", *MESSAGE))
_YES_OR_NO = (
    *("is_multi_threaded", "is_commutative", "is_op_built_in", "is_sendbuf_inplace"),
    *("is_block_regular", "is_node_consecutive"),
)
_WORDS = {
    "comm_type": ("intra", "inter"),
    "comm_hierarchy": ("parent", "node", "node_roots", "flat"),
    "comm_size": ("pow2", "node_comm_size"),
    **dict.fromkeys(_YES_OR_NO, ("yes", "no")),
}
_BOUND = re.compile(r"[a-z_]+<=?([+-]?[0-9]+)")


@dataclass
class Reading:
    """The tree of a whole file, findings, and why the program ends at its start."""

    tree: Tree
    findings: list[Finding] = field(default_factory=list)
    fatal: str = ""

    def find(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.findings.append(Finding(line, fault, brief(message), mend))

    def refuse(self, line: int, message: str, mend: str) -> None:
        """Note what ends programs in MPI_Init."""
        self.find(line, Fault.ENDS_PROGRAM, message, mend)
        self.fatal = self.fatal or brief(f"line {line}: {message}" if line else message)


def is_of_device(text: str) -> bool:
    """Tell whether a tree is one of the device's layer, which chooses compositions."""
    return _OF_DEVICE.search(text) is not None


def read(text: str, source: str, release: str) -> Reading:
    """Return the tree of a selection file, or of one of the device's layer."""
    try:
        document = located_json.parse(_without_comments(text), trailing_commas=True)
    except JsonSyntaxError as error:
        raise say("tree-not-json", file=source, line=error.line, why=error, title=TITLE) from error
    if not document.is_object:
        raise say("begins-otherwise", file=source, what="a selection tree", start="a brace")
    functions = functions_of(release)
    known = functions.of_device if is_of_device(text) else functions.all
    reader = _Reader(functions, known)
    reading = reader.reading
    reading.tree = reader.chain(document, 1)
    size = len(text.encode("utf-8", errors="surrogateescape"))
    if size % _PAGE == 0:
        what = f"the file has {size} bytes, a multiple of {_PAGE}, so {TITLE} reads beyond its end"
        reading.find(0, Fault.ENDS_PROGRAM, f"{what}, and may crash", "add an empty line")
    return reading


def _without_comments(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _COMMENT.sub(blank, text) if "/*" in text or "//" in text else text


class _Reader:
    def __init__(self, functions: Functions, known: frozenset[str]) -> None:
        self.functions, self.known = functions, known
        self.whose = f"{TITLE} {functions.release}"
        self.reading = Reading(NOTHING)

    def chain(self, node: Node, depth: int) -> Tree:
        """Return what an object stands for."""
        members = self.kept(node)
        if depth > _DEEPEST:
            what = "nested deeper than the 32 levels that json-c reads"
            self.reading.refuse(node.line, what, "merge tests")
            return NOTHING
        named = [member for member in members if _key(member).startswith(_LEAF)]
        if named:
            return self.leaf(members, named)
        if not members:
            what = f"an empty object, where {TITLE} needs a test or an algorithm"
            self.reading.refuse(node.line, what, "name an algorithm")
            return NOTHING
        tests = []
        for member in members:
            found = self.test(member)
            if not member.node.is_object:
                what = f"the value of {member.key!r} is not an object"
                self.reading.refuse(member.line, what, "write {…}")
                continue
            then = self.chain(member.node, depth + 1)
            if found is not None:
                tests.append((found, then))
        self.check_end([found for found, _ in tests])
        return Branch(tuple(tests)) if tests else NOTHING

    def kept(self, node: Node) -> list[Member]:
        """Return the members that json-c keeps, and tell of the others."""
        last = {member.key: member for member in node.members}
        for member in node.members:
            if last[member.key] is not member:
                line = last[member.key].line
                what = f"{member.key!r} appears again on line {line}, which counts"
                self.reading.find(member.line, Fault.DEAD_RULE, what, "remove one of them")
        return list(last.values())

    def test(self, member: Member) -> Test | None:
        key = _key(member)
        found = parsed_test(key, member.line)
        if found is None or not self.has(found):
            what = f"{self.whose} knows no test {member.key!r} and aborts"
            self.reading.refuse(member.line, what, "correct the key")
            return None
        bound = _BOUND.fullmatch(key)
        # of a number 30 digits are more than enough to tell that it is too large
        if found.number is not None and (bound is None or int(bound[1][:30]) != found.number):
            what = f"{TITLE} reads {member.key!r} as {found.key!r}"
            mend = f"write a whole number up to {LARGEST}"
            self.reading.find(member.line, Fault.MALFORMED, what, mend)
        return found

    def has(self, found: Test) -> bool:
        few = self.functions.few_tests
        if found.is_any:
            return found.key in _OLD_ANY if few else True
        if found.name == "collective":
            return found.value in self.functions.by_collective
        if found.relation == "=":
            return found.value in _WORDS.get(found.name, ())
        if found.value == "pow2":
            return found.key == "count<pow2"
        if found.relation == "<" and (few and found.name == "comm_avg_ppn"):
            return False
        return found.name in _BOUNDED and (found.relation == "<=" or found.name != "count")

    def check_end(self, tests: list[Test]) -> None:
        """Tell of chains that MPICH's own check of the tree refuses."""
        for found in tests[:-1]:
            old = self.functions.few_tests and found.name == "comm_hierarchy"
            if found.is_any and not old:
                what = f"{found.key!r} is not the last test of its chain, and {TITLE} aborts"
                self.reading.refuse(found.line, what, "put it last")
        if tests and not tests[-1].is_any and tests[-1].name in _BOUNDED:
            name = tests[-1].name if tests[-1].name != "comm_avg_ppn" else "comm_size"
            what = f"a chain of tests ends with {tests[-1].key!r}, and {TITLE} aborts"
            self.reading.refuse(tests[-1].line, what, f'end it with "{name}=any"')

    def leaf(self, members: list[Member], named: list[Member]) -> Leaf:
        """Return the leaf of an object that names an algorithm: the last one counts."""
        for member in members:
            if member not in named:
                what = f"{member.key!r} is in the same object as an algorithm, so {TITLE} aborts"
                self.reading.refuse(member.line, what, "remove it")
        for member in named[:-1]:
            what = f"{member.key!r}: only the last algorithm of an object counts"
            self.reading.find(member.line, Fault.DEAD_RULE, what, "remove it")
        last = named[-1]
        function = _key(last).partition("=")[2]
        if not last.node.is_object:
            self.reading.refuse(
                last.line, f"the value of {last.key!r} is not an object", "write {}"
            )
        if function not in self.known:
            what = f"{self.whose} has no algorithm {function!r} and aborts"
            self.reading.refuse(last.line, what, "name an algorithm that it has")
        keys = [_BLANK.sub("", member.key) for member in last.node.members]
        pairs = tuple((n, v) for n, _, v in (key.partition("=") for key in keys if key != MARK))
        return Leaf(function, pairs, left_to_library=MARK in keys, line=last.line)


def _key(member: Member) -> str:
    return _BLANK.sub("", member.key)
