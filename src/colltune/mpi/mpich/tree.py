"""MPICH's selection tree: tests, branches, leaves; how it is merged, cut, rendered and searched.

A tree is a leaf that names a function, or a chain of tests, each with what follows if it holds. The
tests of a chain are tried in order.

It is searched twice: once when a communicator is made, as far as only tests of communicators stand
on the path, and from there at each call. The second search takes ``comm_size<N`` for ``<=``
(``csel.c``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from colltune.domain import Collective
from colltune.mpi.rules import Call

MARK = "left_to_library"
"""Key in a leaf's parameters that MPICH skips: the library would have chosen this by itself."""
LARGEST = 2**31 - 1
"""The largest number that a test can hold: MPICH reads a C int."""
_PAGE = 4096
_NO_END = 1 << 63
_LONGEST = 600
_C_INT = re.compile(r"[+-]?[0-9]+")
_NUMBERS = ("comm_size", "comm_avg_ppn", "avg_msg_size", "total_msg_size", "count")
MESSAGE = ("avg_msg_size", "total_msg_size", "count")
_CALL = (
    "is_multi_threaded",
    "is_commutative",
    "is_op_built_in",
    "is_sendbuf_inplace",
    "is_block_regular",
)


@dataclass(frozen=True)
class Test:
    """One test: ``comm_size<=8`` is ("comm_size", "<=", "8"); ``any`` alone has no name."""

    name: str
    relation: str
    value: str
    line: int = field(default=0, compare=False)

    @property
    def key(self) -> str:
        return f"{self.name}{self.relation}{self.value}"

    @property
    def number(self) -> int | None:
        """The bound of a test with ``<=`` or ``<``; None for any other."""
        if self.relation in ("", "=") or self.value in ("any", "pow2"):
            return None
        return int(self.value)

    @property
    def is_any(self) -> bool:
        return self.value == "any"

    @property
    def is_size(self) -> bool:
        """Whether it looks at the message's size, in whichever unit."""
        return self.name in MESSAGE

    @property
    def is_of_call(self) -> bool:
        """Whether it is left until a call: the others are decided with the communicator."""
        return not self.is_any and (self.is_size or self.name in _CALL)


@dataclass(frozen=True)
class Leaf:
    """The function that a path ends with, and its parameters.

    ``left_to_library`` tells that the library would choose it by itself. ``function`` is empty for
    an end that names nothing: the device then asks the next tree.
    """

    function: str
    parameters: tuple[tuple[str, str], ...] = ()
    left_to_library: bool = False
    line: int = field(default=0, compare=False)

    @property
    def kind(self) -> str:
        """What the file calls it."""
        return "composition" if "_composition_" in self.function else "algorithm"


@dataclass(frozen=True)
class Branch:
    """A chain of tests with what follows each."""

    tests: tuple[tuple[Test, Tree], ...]


Tree = Leaf | Branch
NOTHING = Leaf("")
DEFAULT = Leaf("", left_to_library=True)
"""A place that is left to the library, whatever it would choose there."""


def parsed_test(key: str, line: int = 0) -> Test | None:
    """Return the test that a key of a file stands for; None if it is none."""
    if key == "any":
        return Test("", "", "any", line)
    for relation in ("<=", "<", "="):
        name, found, value = key.partition(relation)
        if found:
            break
    else:
        return None
    if relation != "=" and value != "pow2":
        return Test(name, relation, str(as_c_int(value)), line) if name in _NUMBERS else None
    return Test(name, relation, value, line)


def as_c_int(text: str) -> int:
    """Return what the C function ``atoi`` makes of `text`: cut to 32 bits, 0 for no number."""
    match = _C_INT.match(text)
    if match is None:
        return 0
    # more digits than that are beyond 64 bits, where strtol stops
    number = int(match[0][:30])
    return (max(-(2**63), min(2**63 - 1, number)) + 2**31) % 2**32 - 2**31


def brief(message: str) -> str:
    """Return a message of bearable length: what it cites may be as long as a file."""
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"


def test(key: str) -> Test:
    """Return the test of a key that is known to be one."""
    found = parsed_test(key)
    if found is None:
        raise ValueError(key)
    return found


def chain(*steps: tuple[str, Tree]) -> Branch:
    """Return a branch from (key, what follows) pairs."""
    return Branch(tuple((test(key), tree) for key, tree in steps))


def leaves(tree: Tree) -> Iterator[tuple[tuple[Test, ...], Leaf]]:
    """Yield all leaves in the order of the file, each with the tests that lead to it."""
    if isinstance(tree, Leaf):
        yield (), tree
        return
    for found, then in tree.tests:
        for path, leaf in leaves(then):
            yield (found, *path), leaf


def with_leaves(tree: Tree, change: Callable[[Leaf], Tree]) -> Tree:
    """Return the tree with every leaf replaced by what `change` makes of it."""
    if isinstance(tree, Leaf):
        return change(tree)
    return Branch(tuple((found, with_leaves(then, change)) for found, then in tree.tests))


def merged(tree: Tree) -> Tree:
    """Return the tree without tests that change nothing.

    Neighbours with the same bound name and the same outcome become one; a chain whose outcomes are
    all the same becomes that outcome.
    """
    if isinstance(tree, Leaf):
        return tree
    kept: list[tuple[Test, Tree]] = []
    for found, below in tree.tests:
        then = merged(below)
        if kept and kept[-1][1] == then and _follows(kept[-1][0], found):
            kept.pop()
        kept.append((found, then))
    keys = {found.key for found, _ in kept}
    complete = any(key.endswith("any") for key in keys) or any(
        key.removesuffix("yes") + "no" in keys for key in keys if key.endswith("=yes")
    )
    if complete and all(then == kept[0][1] for _, then in kept):
        return kept[0][1]
    return Branch(tuple(kept))


def _follows(first: Test, second: Test) -> bool:
    """Whether `second` holds wherever `first` does, so that it can stand for both."""
    if second.is_any:
        return True
    if first.number is None or second.number is None or first.name != second.name:
        return False
    return first.relation == second.relation and first.number <= second.number


@dataclass(frozen=True)
class Known:
    """What is known on a path: bounds of numbers, and whether the communicator is a parent.

    ``bounds`` has the least and the largest value by name; an absent name can be anything.
    """

    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    parent: bool | None = None

    def _within(self, name: str, low: int, high: int) -> Known:
        old_low, old_high = self.bounds.get(name, (0, _NO_END))
        bounds = dict(self.bounds) | {name: (max(low, old_low), min(high, old_high))}
        return replace(self, bounds=bounds)

    def holds(self, found: Test) -> bool | None:
        """Tell whether a test holds; None if that is open."""
        low, high = self.bounds.get(found.name, (0, _NO_END))
        if found.is_any:
            return True
        if found.name == "comm_hierarchy" and found.value == "parent":
            return self.parent
        if found.key == "comm_size=pow2":
            return low & (low - 1) == 0 if low == high else None
        if found.number is None or found.name not in self.bounds:
            return None
        bound = found.number - (found.relation == "<")
        return True if high <= bound else (False if low > bound else None)

    def split(self, found: Test) -> tuple[Known, Known]:
        """Return what is known if a test holds, and what if it does not."""
        if found.name == "comm_hierarchy" and not found.is_any:
            parent = found.value == "parent"
            return replace(self, parent=parent), replace(self, parent=False if parent else None)
        # an average is no whole number, so that nothing lies beside its bounds for sure
        if found.number is None or found.name == "comm_avg_ppn":
            return self, self
        bound = found.number - (found.relation == "<")
        return self._within(found.name, 0, bound), self._within(found.name, bound + 1, _NO_END)


def cut(tree: Tree, known: Known, default: Tree | None = None) -> Tree:
    """Return the tree without what `known` decides; bounds of a chain's tests count from then on.

    Leaves that are `DEFAULT` become what is left of `default` there. A ``<`` is not told from a
    ``<=`` here where MPICH itself does not: write ``<=``.
    """
    if isinstance(tree, Leaf):
        return cut(default, known) if tree == DEFAULT and default is not None else tree
    kept: list[tuple[Test, Tree]] = []
    for found, then in tree.tests:
        holds = known.holds(found)
        if holds is False:
            continue
        inside, known = known.split(found)
        rest = cut(then, inside, default)
        if not holds:
            kept.append((found, rest))
            continue
        if not kept:
            return rest
        # MPICH insists on a chain's end
        name = found.name if found.name in (*MESSAGE, "comm_size") else "comm_size"
        kept.append((replace(found, name=name, relation="=", value="any"), rest))
        break
    return Branch(tuple(kept))


def rendered(collectives: Mapping[str, Tree]) -> str:
    """Return the text of a file with a tree per collective, in their order.

    MPICH maps the file into memory and reads on to the next zero byte, which follows only if the
    file does not end with a page: one more line end makes sure. Bytes that are no UTF-8 count as
    they were read.
    """
    parts = [f'  "collective={name}": {_object(tree, 2)}' for name, tree in collectives.items()]
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    size = len(text.encode("utf-8", "surrogateescape"))
    return text if size % _PAGE else text + "\n"


def _object(tree: Tree, depth: int) -> str:
    if isinstance(tree, Leaf):
        return "{" + _leaf(tree) + "}"
    blank = " " * (depth + 1)
    parts = [f'{blank}"{found.key}": {_object(then, depth + 1)}' for found, then in tree.tests]
    return "{\n" + ",\n".join(parts) + "\n" + " " * depth + "}"


def _leaf(leaf: Leaf) -> str:
    if not leaf.function:
        # true for no communicator that gets here, so that the search ends without a function
        return '"comm_type=inter": {"composition=MPIDI_Barrier_intra_composition_beta": {}}'
    values = [f'"{name}={value}": {{}}' for name, value in leaf.parameters]
    if leaf.left_to_library and leaf.kind == "algorithm":
        values.append(f'"{MARK}": {{}}')
    return f'"{leaf.kind}={leaf.function}": {{{", ".join(values)}}}'


_REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")
_AVERAGE = ("bcast", "allreduce", "reduce", "alltoall")
_TOTAL = (
    *_AVERAGE,
    *("allgather", "allgatherv", "alltoallv", "alltoallw", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_block"),
)


def _with_nonblocking(*names: str) -> frozenset[str]:
    return frozenset(names) | {f"i{name}" for name in names}


DEFINED: dict[str, frozenset[str]] = {
    "avg_msg_size": _with_nonblocking(*_AVERAGE),
    "total_msg_size": _with_nonblocking(*_TOTAL),
    "count": _with_nonblocking("bcast", "allgather", "allgatherv", *_REDUCTIONS) - {"ibcast"},
    "is_sendbuf_inplace": _with_nonblocking("alltoall", "alltoallv", "alltoallw"),
    "is_commutative": _with_nonblocking(*_REDUCTIONS),
    "is_op_built_in": _with_nonblocking("allreduce", "reduce"),
    "is_block_regular": _with_nonblocking("reduce_scatter"),
}
"""For which collectives a test of the call can be asked; for any other one it ends the program."""

_TOTAL_TOLD = ("allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block")
UNITS = {Collective(name): "avg_msg_size" for name in _AVERAGE} | {
    Collective(name): "total_msg_size" for name in _TOTAL_TOLD
}
"""By which test a collective's message sizes are told apart; for all others one rule is safe.

For scan, exscan and barrier no test is defined, alltoallv's sizes are each rank's own, and those of
gather and scatter come from arguments that MPI ignores at some ranks."""


def size_of(call: Call, name: str) -> int:
    """Return a message's size in the unit of a test: bytes, `count` in elements."""
    collective, count = call.collective, call.msize_bytes // call.element_bytes
    if name == "count":
        return count * call.comm_size if collective is Collective.ALLGATHERV else count
    if name == "avg_msg_size":
        return 0 if call.in_place and collective is Collective.ALLTOALL else call.msize_bytes
    if collective in (Collective.GATHER, Collective.SCATTER):
        return count * call.comm_size
    whole = collective is Collective.REDUCE_SCATTER
    return call.msize_bytes if whole else call.msize_bytes * call.comm_size


@dataclass(frozen=True)
class Facts:
    """A call as the tests of a release see it.

    ``knows_parts`` is that of `functions.Functions`; ``between`` tells that the communicator joins
    two groups of processes.
    """

    call: Call
    knows_parts: bool
    between: bool = False

    @cached_property
    def _words(self) -> set[str]:
        """All tests for words that hold."""
        call = self.call
        # there are parts for the nodes and for their first processes
        is_parent = call.nodes < call.comm_size
        answers = {
            # without parts a single node counts as not consecutive
            "is_node_consecutive": is_parent and call.nodes >= (1 if self.knows_parts else 2),
            "is_sendbuf_inplace": call.in_place,
            "is_commutative": call.commutative,
            "is_op_built_in": call.builtin_operation,
            "is_multi_threaded": False,
            "is_block_regular": True,
        }
        found = {f"{name}={'yes' if holds else 'no'}" for name, holds in answers.items()}
        found.add(f"comm_type={'inter' if self.between else 'intra'}")
        # `node` and `node_roots` are the parts of a communicator, which no program calls
        alone = ("flat",) if self.knows_parts else ("flat", "node", "node_roots")
        found |= {f"comm_hierarchy={word}" for word in (("parent",) if is_parent else alone)}
        if call.comm_size & (call.comm_size - 1) == 0:
            found.add("comm_size=pow2")
        return found | ({"comm_size=node_comm_size"} if call.nodes == 1 else set())

    def holds(self, found: Test, *, at_call: bool) -> bool:
        """Tell whether a test holds, in the search at the call or in the one before."""
        if found.is_any:
            return True
        if found.number is not None:
            strict = found.relation == "<" and not (found.name == "comm_size" and at_call)
            bound = found.number * (self.call.nodes if found.name == "comm_avg_ppn" else 1)
            of_communicator = found.name in ("comm_size", "comm_avg_ppn")
            actual = self.call.comm_size if of_communicator else size_of(self.call, found.name)
            return actual <= bound - strict
        if found.key == "count<pow2":
            return size_of(self.call, "count") < 1 << (self.call.comm_size.bit_length() - 1)
        return found.key in self._words


@dataclass(frozen=True)
class Found:
    """Where a search ended: the leaf (None if it fell off the tree) and the tests that held.

    ``undefined`` is a test on the way that ends the program for this collective.
    """

    leaf: Leaf | None
    path: tuple[Test, ...] = ()
    undefined: Test | None = None


def search(tree: Tree, facts: Facts) -> Found:
    """Return where MPICH's search ends."""
    before = _search(tree, facts, at_call=False)
    if before.leaf is None and before.undefined is None:
        # the first search fell off the tree; the one at the call starts again from its root
        return _search(tree, facts, at_call=True)
    return before


def _search(tree: Tree, facts: Facts, *, at_call: bool) -> Found:
    collective = str(facts.call.collective)
    path: list[Test] = []
    while not isinstance(tree, Leaf):
        for found, then in tree.tests:
            at_call = at_call or found.is_of_call
            if collective not in DEFINED.get(found.name, {collective}) and not found.is_any:
                return Found(None, tuple(path), undefined=found)
            wanted = found.name == "collective" and found.value == collective
            if wanted or facts.holds(found, at_call=at_call):
                path.append(found)
                tree = then
                break
        else:
            return Found(None, tuple(path))
    return Found(tree if tree.function else None, tuple(path))


def msize_after(found: Test, collective: Collective, comm_size: int) -> int | None:
    """Return the message size (our ``msize_bytes``, bytes as elements) from which on a test fails.

    None if the test does not look at sizes or fails for all of them.
    """
    if not found.is_size or found.is_any:
        return None
    if found.number is None:
        return 1 << (comm_size.bit_length() - 1)
    last = min(found.number, LARGEST) - (found.relation == "<")
    if last < 0:
        return None
    return last // max(1, size_of(Call(collective, comm_size, 1), found.name)) + 1
