"""Reads a selection file as MPICH does: its rules, what is wrong, and what runs for a call.

MPICH reads with json-c, which takes comments, trailing commas and whatever follows the document,
keeps the last one of two equal keys (at the place of the first), and knows no more than 32 levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError, say
from colltune.mpi import located_json
from colltune.mpi.located_json import JsonSyntaxError, Member, Node
from colltune.mpi.mpich.environment import (
    DEVICE_FILE,
    FALLBACK,
    POSIX_FILE,
    TREE_FILE,
    Forced,
    JobVariables,
)
from colltune.mpi.mpich.functions import Functions, functions_of
from colltune.mpi.mpich.library import LIBRARY, TITLE
from colltune.mpi.mpich.tree import (
    LARGEST,
    MARK,
    MESSAGE,
    NOTHING,
    Branch,
    Facts,
    Found,
    Leaf,
    Test,
    Tree,
    brief,
    leaves,
    msize_after,
    parsed_test,
    search,
)
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules

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
NAME = "mpich-json"
_MOST_POWERS = 21
_WIDEST_GAP = 4096
COLLECTIVES = {str(collective): collective for collective in Collective}


@lru_cache(maxsize=4)
def _tree_in(path: str, _changed_ns: int, release: str) -> Tree:
    """Return the tree in a file; it is asked for with every call, and read once."""
    text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    return read(text, path, release).tree


@dataclass(frozen=True, eq=False)
class ParsedTree(Rules):
    """A selection file; see `colltune.mpi.rules.Rules`."""

    release: str
    source: str
    reading: Reading

    format = NAME
    dropped = ""
    """MPICH drops no file: it takes it, or aborts."""

    @property
    def tree(self) -> Tree:
        return self.reading.tree

    @cached_property
    def functions(self) -> Functions:
        return functions_of(self.release)

    @property
    def is_ours(self) -> bool:
        """Whether leaves say that the library would have chosen them by itself."""
        return any(leaf.left_to_library for _, leaf in leaves(self.tree))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        """All leaves of collectives that can be chosen for, in the order of the file."""
        found = []
        for path, leaf in leaves(self.tree):
            collective = _collective(path)
            inter = "comm_type=inter" in {t.key for t in path}
            if leaf.function and collective is not None and not inter:
                found.append(self._rule(collective, path, leaf))
        return tuple(found)

    def _rule(self, collective: Collective, path: tuple[Test, ...], leaf: Leaf) -> Rule:
        text = " / ".join([*(found.key for found in path), f"{leaf.kind}={leaf.function}"])
        return Rule(leaf.line, text, collective, self.named(collective, leaf))

    def named(self, collective: Collective, leaf: Leaf) -> Configuration | None:
        if leaf.left_to_library:
            return Configuration.default(LIBRARY, collective)
        if leaf.function not in self.functions.by_collective[collective]:
            return None
        return self.functions.configuration_of(collective, leaf)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`: by device, variables, tree, in this order.

        Without an `environment` the tree is asked for the communicator as a whole, as the two files
        that colltune writes, or the device switched off, make sure.
        """
        inside = self._of_tree(call, search(self.tree, Facts(call, self.functions.knows_parts)))
        if environment is None:
            return inside
        job = JobVariables(self.functions, environment)
        default = Configuration.default(LIBRARY, call.collective)
        if job.value(TREE_FILE) is None:
            why = f"{TREE_FILE} is not set: {TITLE} reads no file."
            return Outcome(default, None, (why,), inside.chosen)
        if error := job.unknown_choice():
            return Outcome(default, None, (error,), inside.chosen, ends_program=error)
        if self.reading.fatal:
            return inside
        reasons: list[str] = []
        if component := self._device(call, job, reasons):
            return Outcome(default, inside.rule, tuple(reasons), inside.chosen, component)
        forced = job.forced(call.collective)
        outcome = forced and _of_variable(call, forced, job, inside, reasons)
        return outcome or replace(inside, reasons=(*reasons, *inside.reasons))

    def _device(self, call: Call, job: JobVariables, reasons: list[str]) -> str:
        """Return which composition of the device runs in place of the tree; empty if none."""
        path, tree = job.value(DEVICE_FILE), None
        if path is not None and job.device_tree_is_asked(call.collective):
            try:
                tree = _tree_in(path, Path(path).stat().st_mtime_ns, self.release)
            except (OSError, LibraryError, ValueError):
                reasons.append(
                    f"{path} cannot be read here; it is assumed to leave this call to the tree."
                )
                return ""
        name = job.device_goes_first(call, tree)
        if not name:
            return ""
        reasons.append(f"The device decides first: {name} splits the communicator by nodes.")
        return f"ch4 {name}"

    def _of_tree(self, call: Call, found: Found) -> Outcome:
        of, ends = call.collective, self.reading.fatal
        default = Configuration.default(LIBRARY, of)
        leaf = found.leaf
        if leaf is None:
            tests = " / ".join(t.key for t in found.path) or "the root"
            why = f"no leaf below {tests}"
            if found.undefined is not None:
                why = f"line {found.undefined.line}: {found.undefined.name} is not defined for it"
            ends = ends or f"{of}: {why}, so the call ends the program"
            return Outcome(default, None, (ends,), default, ends_program=ends)
        rule = self._rule(of, found.path, leaf)
        chosen = rule.configuration or default
        reasons = [f"All tests above {leaf.function} on line {leaf.line} hold."]
        if leaf.left_to_library:
            reasons.append(f"{TITLE}'s own tree has the same algorithm.")
        if leaf.function not in self.functions.by_collective[of] or "_inter_" in leaf.function:
            ends = ends or f"line {leaf.line}: {leaf.function} cannot run {of} here"
        runs = self.functions.running_as(chosen, call.comm_size, call.msize_bytes)
        if runs != chosen:
            reasons.append(f"{chosen.id} runs as {runs.id}, because there is only one segment.")
        return Outcome(runs, rule, tuple(reasons), chosen, ends_program=ends)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return the communicator sizes from which on another decision may hold, ascending.

        Where a choice holds for several sizes, all of them are told, since bounds that count the
        bytes of all processes move with each of them.
        """
        found: set[int] = set()
        for path, tree in _trees_of(self.tree, collective):
            bounds = (test.number for test in path if test.name == "comm_size")
            high = min((bound for bound in bounds if bound is not None), default=LARGEST)
            found |= set(_sizes(tree, 1, min(high, LARGEST)))
        return tuple(sorted(found))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        after = (msize_after(t, collective, comm_size) for t in self._bounds.get(collective, ()))
        return tuple(sorted({0, *(size for size in after if size is not None)}))

    @cached_property
    def _bounds(self) -> dict[Collective, set[Test]]:
        """The tests of the message's size that stand for each collective."""
        found: dict[Collective, set[Test]] = {}
        for path, _ in leaves(self.tree):
            collective = _collective(path)
            if collective is not None:
                found.setdefault(collective, set()).update(t for t in path if t.is_size)
        return found


@dataclass(frozen=True, eq=False)
class DeviceTree(ParsedTree):
    """A tree of the device's layer: how communicators that span nodes are split.

    Where it has nothing for a call, the variables and the selection tree decide.
    """

    @property
    def variable(self) -> str:
        """The variable that names such a file: that of ch4, or of its shared memory."""
        posix = any("_POSIX_" in leaf.function for _, leaf in leaves(self.tree))
        return POSIX_FILE if posix else DEVICE_FILE

    def named(self, collective: Collective, leaf: Leaf) -> Configuration | None:
        return Configuration.default(LIBRARY, collective)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        default = Configuration.default(LIBRARY, call.collective)
        found = search(self.tree, Facts(call, self.functions.knows_parts))
        job = None if environment is None else JobVariables(self.functions, environment)
        if self.reading.fatal:
            fatal = self.reading.fatal
            return Outcome(default, None, (fatal,), default, ends_program=fatal)
        if job is not None and job.value(self.variable) is None:
            why = f"{self.variable} is not set: {TITLE} reads no file."
        elif job is not None and not job.device_tree_is_asked(call.collective):
            why = f"Variables keep the device's trees from deciding on {call.collective}."
        elif found.leaf is None:
            why = f"The tree has nothing for this call: {TITLE} decides by its selection tree."
        else:
            rule = self._rule(call.collective, found.path, found.leaf)
            why = f"All tests above {found.leaf.function} on line {found.leaf.line} hold."
            name = found.leaf.function.removeprefix("MPIDI_")
            return Outcome(default, rule, (why,), default, f"ch4 {name}")
        return Outcome(default, None, (why,), default)


def _of_variable(
    call: Call, chosen: Forced, job: JobVariables, inside: Outcome, reasons: list[str]
) -> Outcome | None:
    """Return what runs by a variable, which goes before the tree; None if the tree is asked."""
    default = Configuration.default(LIBRARY, call.collective)
    why = job.why_unusable(chosen.function, call)
    if not why:
        reasons.append(f"{chosen.text} has priority over the tree.")
        runs, ends = chosen.configuration or default, chosen.ends_inside(call)
        return Outcome(runs, None, tuple(reasons), inside.chosen, ends_program=ends)
    if job.fallback == "error":
        ends = f"{chosen.text} cannot run ({why}), and {FALLBACK}=error"
        return Outcome(default, None, (*reasons, ends), inside.chosen, ends_program=ends)
    reasons.append(f"{chosen.text} cannot run ({why}), so the tree is asked.")
    return None


def collective_trees(tree: Tree) -> dict[str, Tree] | None:
    """Return the trees of the collectives; None where other tests stand before them."""
    if not isinstance(tree, Branch) or any(found.name != "collective" for found, _ in tree.tests):
        return None
    return {found.value: then for found, then in tree.tests}


def _collective(path: tuple[Test, ...]) -> Collective | None:
    name = next((found.value for found in path if found.name == "collective"), "")
    return COLLECTIVES.get(name)


def _trees_of(tree: Tree, collective: Collective) -> Iterator[tuple[tuple[Test, ...], Tree]]:
    """Yield the trees of a collective with the tests that lead to them."""
    for found, then in tree.tests if isinstance(tree, Branch) else ():
        if found.name == "collective":
            if found.value == collective:
                yield (), then
        elif found.key != "comm_type=inter":
            for path, below in _trees_of(then, collective):
                yield (found, *path), below


def _sizes(tree: Tree, low: int, high: int) -> Iterator[int]:
    """Yield the communicator sizes between two at which something else may hold."""
    if low > high:
        return
    if all(leaf.left_to_library for _, leaf in leaves(tree)):
        yield low
        return
    if isinstance(tree, Leaf):
        yield from range(low, high + 1) if high - low < _WIDEST_GAP else (low,)
        return
    for found, then in tree.tests:
        if found.name == "comm_size" and found.number is not None:
            bound = found.number
            yield from _sizes(then, low, min(bound, high))
            if found.relation == "<":
                yield max(low, bound)
            low = max(low, bound + 1)
            continue
        if found.key == "comm_size=pow2":
            powers = (1 << exponent for exponent in range(_MOST_POWERS))
            yield from (n for power in powers for n in (power, power + 1) if low <= n <= high)
        if found.key != "comm_type=inter":
            yield from _sizes(then, low, high)


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
