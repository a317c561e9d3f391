"""What is wrong with a selection tree that MPICH reads: dead, unsafe, in the wrong unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from colltune.mpi.mpich.environment import DEVICE
from colltune.mpi.mpich.functions import LEAST_CHUNK, TREE_TYPES, Functions
from colltune.mpi.mpich.library import TITLE
from colltune.mpi.mpich.tree import (
    DEFINED,
    MARK,
    MESSAGE,
    Branch,
    Known,
    Leaf,
    Test,
    Tree,
    as_c_int,
    brief,
    leaves,
)
from colltune.mpi.mpich.tree_file import COLLECTIVES, DeviceTree, ParsedTree
from colltune.mpi.programs import Harms, ProgramOutcome
from colltune.mpi.rules import Fault, Finding, harm_findings

_OPPOSITE = {"yes": "no", "no": "yes", "intra": "inter", "inter": "intra"}
_NEEDS = {
    "commutative": ("is_commutative=yes", Fault.WRONG_RESULT),
    "builtin-op": ("is_op_built_in=yes", Fault.WRONG_RESULT),
    "size-ge-pof2": ("count>=pow2", Fault.ENDS_PROGRAM),
    "power-of-two": ("comm_size=pow2", Fault.ENDS_PROGRAM),
    "inplace": ("is_sendbuf_inplace=yes", Fault.ENDS_PROGRAM),
    "noinplace": ("is_sendbuf_inplace=no", Fault.WRONG_RESULT),
    "parent-comm": ("comm_hierarchy=parent", Fault.ENDS_PROGRAM),
    "block-regular": ("is_block_regular=yes", Fault.ENDS_PROGRAM),
}
_MENDS = {"count>=pow2": 'go before it with "count<pow2" and another algorithm'}
_RADIXES = ("k", "scatterv_k", "allgatherv_k")
_HIERARCHICAL = "bcast, reduce, allreduce, barrier and scan"
_PARTS = ("node", "node_roots", "flat")
_HARMLESS_UNREAD = frozenset({"MPIR_Barrier_intra_recexch"})
# their ranks compute the size from arguments that may differ by rank
_LOCAL_SIZE = ("gather", "scatter", "alltoallv", "alltoallw")
_TOTALS = ("allgather", "allgatherv", "reduce_scatter_block", "iallgather", "iallgatherv")


@dataclass(frozen=True)
class _Path:
    """What holds on the way to a place of the tree."""

    known: Known = field(default_factory=Known)
    holds: frozenset[str] = frozenset()
    collective: str = ""
    at_call: bool = False
    last_line: int = 0


def lint(file: ParsedTree) -> tuple[Finding, ...]:
    """Return everything that is wrong with a selection file, by line."""
    if isinstance(file, DeviceTree):
        # what it leaves out is left to the selection tree
        return tuple(sorted(set(file.reading.findings)))
    linter = _Linter(file.functions)
    linter.walk(file.tree, _Path())
    linter.check_collectives(file.tree)
    linter.check_units(file.tree)
    if not file.is_ours:
        linter.find(
            0,
            Fault.NOT_EVERYWHERE,
            f"the device splits {_HIERARCHICAL} by nodes before it asks this tree",
            f"set {DEVICE}=none, so that the tree is asked for whole communicators",
        )
    return tuple(sorted({*file.reading.findings, *linter.findings}))


_ELSEWHERE = {
    "is_commutative=no": ("pairs", "own_operations"),
    "is_commutative=yes": ("non_commutative",),
    "is_op_built_in=yes": ("own_operations", "non_commutative"),
    "is_sendbuf_inplace=no": ("in_place",),
    "is_block_regular=yes": ("uneven",),
}
"""The modes of which no call comes below a test, by the test."""


class _Linter:
    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.findings: list[Finding] = []

    def find(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.findings.append(Finding(line, fault, brief(message), brief(mend)))

    def walk(self, tree: Tree, path: _Path) -> None:
        if isinstance(tree, Leaf):
            self.check_leaf(tree, path)
            return
        seen: list[Test] = []
        start = path
        for found, then in tree.tests:
            path = replace(path, at_call=path.at_call or found.is_of_call)
            self.check_test(found, path, seen)
            seen.append(found)
            inside, path = _split(path, found)
            self.walk(then, inside)
        self.check_end(tree, start)

    def check_test(self, found: Test, path: _Path, seen: list[Test]) -> None:
        of = path.collective
        if found.is_of_call and not of:
            what = f"{found.key!r} comes before any collective, and {TITLE} aborts"
            self.find(found.line, Fault.ENDS_PROGRAM, what, "put it below a collective")
        elif of and not found.is_any and of not in DEFINED.get(found.name, {of}):
            what = f"{found.name} is not defined for {of}, so the call ends the program"
            known = " or ".join(name for name in MESSAGE if of in DEFINED[name])
            mend = f"use {known or 'no test of the message'}"
            self.find(found.line, Fault.ENDS_PROGRAM, what, mend)
        elif path.known.holds(found) is False:
            self.dead(found, seen)
        if found.name == "comm_size" and found.relation == "<" and path.at_call:
            what = f"{TITLE} takes {found.key!r} for <= here, below a test of the call"
            mend = f'write "comm_size<={(found.number or 0) - 1}"'
            self.find(found.line, Fault.INHERITED, what, mend)
        parts = found.name == "comm_hierarchy" and found.value in _PARTS
        if parts and not self.functions.knows_parts:
            what = f"{found.key!r} holds for every communicator that is not a parent"
            mend = 'use only "parent", which MPICH 5.0 and later tell from the others'
            self.find(found.line, Fault.OTHER_RELEASE, what, mend)

    def dead(self, found: Test, seen: list[Test]) -> None:
        bound = found.number or 0
        larger = [s for s in seen if s.name == found.name and (s.number or -1) >= bound]
        if larger:
            what = f"{found.key!r} is never reached, because {larger[-1].key!r} comes before it"
            mend = "sort the tests of a chain from small to large"
            self.find(found.line, Fault.UNSORTED, what, mend)
        else:
            what = f"{found.key!r} never holds here"
            self.find(found.line, Fault.DEAD_RULE, what, "remove it")

    def check_end(self, tree: Branch, path: _Path) -> None:
        """Tell of calls that fall off a chain."""
        last = tree.tests[-1][0]
        if last.is_any or last.number is not None or last.name in ("", "collective"):
            return
        keys = {found.key for found, _ in tree.tests}
        opposite = f"{last.name}={_OPPOSITE.get(last.value, '')}"
        if opposite in keys or opposite in path.holds or last.value == "pow2":
            return
        two_kinds = last.name == "comm_hierarchy" and not self.functions.knows_parts
        if two_kinds and "comm_hierarchy=parent" in keys:
            return
        if last.key == "comm_type=intra" and "neighbor_" in path.collective:
            return
        what = f"calls for which {last.key!r} does not hold have no algorithm and end the program"
        mend = f"add the other case to {last.key!r}"
        self.find(last.line, Fault.ENDS_PROGRAM, what, mend)

    def check_leaf(self, leaf: Leaf, path: _Path) -> None:
        of, function = path.collective, leaf.function
        if function not in self.functions.all or not of:
            return
        if function not in self.functions.by_collective[of]:
            what = f"{function} is not an algorithm of {of}, so the call ends the program"
            self.find(leaf.line, Fault.ENDS_PROGRAM, what, "name an algorithm of this collective")
            return
        kind = next((each for each in ("inter", "intra") if f"_{each}_" in function), "")
        other = f"comm_type={_OPPOSITE.get(kind, '')}"
        if kind and not of.endswith("scan") and f"comm_type={kind}" not in path.holds:
            where = "on" if other in path.holds else "also on"
            what = f"{function} runs {where} communicators of the other type, and fails there"
            self.find(leaf.line, Fault.ENDS_PROGRAM, what, f'put it below "comm_type={kind}"')
        self.check_parameters(leaf)
        self.check_programs(leaf, path)
        if other not in path.holds:
            self.check_needs(leaf, path)

    def check_programs(self, leaf: Leaf, path: _Path) -> None:
        collective = COLLECTIVES.get(path.collective)
        if collective is None or leaf.left_to_library or "_inter_" in leaf.function:
            return
        found = self.functions.configuration_of(collective, leaf)
        if found is not None:
            harms = self.reached(self.functions.space.harms(found), leaf, path)
            for each in harm_findings(leaf.line, leaf.function, harms):
                short = each._replace(message=brief(each.message), mend=brief(each.mend))
                self.findings.append(short)

    def reached(self, harms: Harms, leaf: Leaf, path: _Path) -> Harms:
        """Return what calls meet that come to this leaf.

        What aborts even for tidy programs lacks one of its needs, which `check_needs` tells.
        """
        elsewhere = {mode for key in path.holds for mode in _ELSEWHERE.get(key, ())}
        aborts = {harm.mode.name for harm in harms.found if harm.outcome is ProgramOutcome.ABORTS}
        if leaf.function in self.functions.needs and "tidy" in aborts:
            elsewhere |= aborts
        return replace(harms, found=tuple(h for h in harms.found if h.mode.name not in elsewhere))

    def check_parameters(self, leaf: Leaf) -> None:
        function = leaf.function
        wanted = self.functions.parameters.get(function, ())
        said = dict(leaf.parameters)
        for name in wanted:
            if name not in said:
                what = f"{function} needs {name}: without it {TITLE} uses an undefined value"
                self.find(leaf.line, Fault.HANGS, what, f'add "{name}=…": {{}} to its parameters')
        for name in self.functions.unread.get(function, ()):
            if function not in _HARMLESS_UNREAD:
                what = f"{function} needs {name}, which {TITLE} cannot read from a file"
                self.find(leaf.line, Fault.HANGS, what, "name another algorithm")
        for name, value in leaf.parameters:
            key = f"{name}={value}" if value else name
            # a k-ary tree of radix 1 is a chain
            least = 1 if name == "k" and function.endswith("_tree") else 2
            if name not in wanted and name != MARK and not name.startswith("topo_"):
                what = f"{key!r} has no effect on {function}"
                self.find(leaf.line, Fault.NO_EFFECT, what, "remove it")
            elif name == "tree_type" and value not in TREE_TYPES:
                what = f"a file has no tree type {value!r}, so kary is used"
                self.find(leaf.line, Fault.UNKNOWN, what, f"name one of {', '.join(TREE_TYPES)}")
            elif name == "chunk_size" and 0 < as_c_int(value) < LEAST_CHUNK:
                what = f"{key!r}: every few elements become a message"
                self.find(leaf.line, Fault.WRONG_UNIT, what, "write bytes, for example 65536")
            elif name in _RADIXES and as_c_int(value) < least:
                what = f"{key!r}: a radix below 2 never ends"
                self.find(leaf.line, Fault.HANGS, what, "write 2 or more")

    def check_needs(self, leaf: Leaf, path: _Path) -> None:
        for need in self.functions.needs.get(leaf.function, ()):
            key, fault = _NEEDS[need]
            if key in path.holds or path.known.holds(_as_test(key)):
                continue
            if need == "parent-comm" and path.known.bounds.get("avg_msg_size", (0, 1))[1] < 1:
                continue  # nothing is sent
            if need == "commutative" and "is_op_built_in=yes" in path.holds:
                continue
            what = (
                f"{leaf.function} needs {key!r}, which {TITLE} does not check for an "
                "algorithm from a file"
            )
            mend = _MENDS.get(key, f'put it below "{key}", with another algorithm next to it')
            self.find(leaf.line, fault, what, mend)

    def check_collectives(self, tree: Tree) -> None:
        there = {t.value for path, _ in leaves(tree) for t in path if t.name == "collective"}
        missing = [name for name in self.functions.by_collective if name not in there]
        if missing:
            what = f"no {', '.join(missing)}: such a call ends the program, often within MPI_Init"
            self.find(
                0, Fault.ENDS_PROGRAM, what, "add the missing collectives; a file must have all"
            )

    def check_units(self, tree: Tree) -> None:
        for collective, line in sorted(_local_sizes(tree).items()):
            what = (
                f"{collective}: each rank computes this size from its own arguments, which may "
                "differ"
            )
            self.find(line, Fault.RANKS_DISAGREE, what, "use one algorithm for all sizes")
        by_size: dict[str, dict[int, list[Test]]] = {}
        for path, leaf in leaves(tree):
            of = next((t.value for t in path if t.name == "collective"), "")
            size = next((t for t in path if t.name == "comm_size" and t.number is not None), None)
            totals = [t for t in path if t.name == "total_msg_size" and t.number is not None]
            if of in _TOTALS and size is not None and totals and not leaf.left_to_library:
                by_size.setdefault(of, {}).setdefault(size.number or 0, []).append(totals[-1])
        for of, sizes in by_size.items():
            bounds = {size: tuple(t.number for t in tests) for size, tests in sizes.items()}
            if len(bounds) > 1 and len(set(bounds.values())) == 1:
                line = next(iter(sizes.values()))[0].line
                what = (
                    f"{of} has the same bounds for all communicators, so they look like sizes of "
                    "one block"
                )
                mend = f"multiply them by comm_size: {TITLE} compares the sum over all processes"
                self.find(line, Fault.WRONG_UNIT, what, mend)


def _split(path: _Path, found: Test) -> tuple[_Path, _Path]:
    """Return what holds if a test holds, and what if it does not."""
    known, otherwise = path.known.split(found)
    against = f"{found.name}={_OPPOSITE[found.value]}" if found.value in _OPPOSITE else ""
    if found.key == "count<pow2":
        against = "count>=pow2"
    of = found.value if found.name == "collective" else path.collective
    inside = replace(path, known=known, collective=of, holds=path.holds | {found.key})
    return inside, replace(path, known=otherwise, holds=path.holds | ({against} - {""}))


def _as_test(key: str) -> Test:
    name, _, value = key.partition("=")
    return Test(name, "=", value)


def _local_sizes(tree: Tree) -> dict[str, int]:
    """Return the collectives whose ranks may disagree, with the line of the first such test."""
    found: dict[str, int] = {}
    for collective, branch in _chains(tree):
        first = branch.tests[0][0]
        different = {replace(leaf, left_to_library=False) for _, leaf in leaves(branch)}
        local = collective.removeprefix("i") in _LOCAL_SIZE
        if local and first.is_size and len(different) > 1:
            found.setdefault(collective, first.line)
    return found


def _chains(tree: Tree, collective: str = "") -> Iterator[tuple[str, Branch]]:
    """Yield all chains with their collective, except those between groups of processes."""
    if isinstance(tree, Leaf):
        return
    yield collective, tree
    for found, then in tree.tests:
        of = found.value if found.name == "collective" else collective
        if found.key != "comm_type=inter":
            yield from _chains(then, of)
