"""MPICH's selection tree: tests, branches, leaves; how it is merged, cut down and rendered.

A tree is a leaf that names a function, or a chain of tests, each with what follows if it holds. The
tests of a chain are tried in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

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
