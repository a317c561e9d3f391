"""What MPICH's tests see of a call, and which way they lead.

A tree is searched twice: once when a communicator is made, as far as only tests of communicators
stand on the path, and from there at each call. The second search takes ``comm_size<N`` for ``<=``
(``csel.c``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colltune.domain import Collective
from colltune.mpi.file_format import Call
from colltune.mpi.mpich.tree import LARGEST, Leaf, Test, Tree

_REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")
_AVERAGE = ("bcast", "allreduce", "reduce", "alltoall")
_TOTAL = (
    *_AVERAGE,
    *("allgather", "allgatherv", "alltoallv", "alltoallw", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_block"),
)


def _with_nonblocking(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names) | {f"i{name}" for name in names}


_COUNTED = ("bcast", "allreduce", "reduce", "allgather", "allgatherv", *_REDUCTIONS)
DEFINED: dict[str, frozenset[str]] = {
    "avg_msg_size": _with_nonblocking(_AVERAGE),
    "total_msg_size": _with_nonblocking(_TOTAL),
    "count": _with_nonblocking(_COUNTED) - {"ibcast"},
    "is_sendbuf_inplace": _with_nonblocking(("alltoall", "alltoallv", "alltoallw")),
    "is_commutative": _with_nonblocking(_REDUCTIONS),
    "is_op_built_in": _with_nonblocking(("allreduce", "reduce")),
    "is_block_regular": _with_nonblocking(("reduce_scatter",)),
}
"""For which collectives a test of the call can be asked; for any other one it ends the program."""

UNITS = {
    Collective.BCAST: "avg_msg_size",
    Collective.REDUCE: "avg_msg_size",
    Collective.ALLREDUCE: "avg_msg_size",
    Collective.ALLTOALL: "avg_msg_size",
    Collective.ALLGATHER: "total_msg_size",
    Collective.ALLGATHERV: "total_msg_size",
    Collective.REDUCE_SCATTER: "total_msg_size",
    Collective.REDUCE_SCATTER_BLOCK: "total_msg_size",
}
"""By which test a collective's message sizes are told apart; for all others one rule is safe.

For scan, exscan and barrier no test is defined, alltoallv's sizes are each rank's own, and those of
gather and scatter come from arguments that MPI ignores at some ranks."""

LOCAL_SIZE = frozenset({"gather", "scatter", "igather", "iscatter"})
"""Collectives whose ranks compute the size from arguments that MPI ignores at some of them."""


@dataclass(frozen=True)
class Facts:
    """A call as the tests see it; sizes in bytes, `count` in elements."""

    call: Call
    between: bool = False
    """Whether the communicator joins two groups of processes."""

    @property
    def is_parent(self) -> bool:
        """Whether there are parts for the nodes and for their first processes."""
        return self.call.nodes < self.call.comm_size

    def size(self, name: str) -> int:
        """Return the message's size in the unit of a test."""
        call, collective = self.call, self.call.collective
        count = call.msize_bytes // call.element_bytes
        if name == "count":
            return count * call.comm_size if collective is Collective.ALLGATHERV else count
        if name == "avg_msg_size":
            return 0 if call.in_place and collective is Collective.ALLTOALL else call.msize_bytes
        if collective in (Collective.GATHER, Collective.SCATTER):
            return count * call.comm_size
        whole = collective is Collective.REDUCE_SCATTER
        return call.msize_bytes if whole else call.msize_bytes * call.comm_size

    def holds(self, found: Test, release: str, *, at_call: bool) -> bool:
        """Tell whether a test holds, in the search at the call or in the one before."""
        if found.is_any:
            return True
        number = found.number
        if number is not None:
            strict = found.relation == "<" and not (found.name == "comm_size" and at_call)
            return self._number(found.name, number) <= _bound(found.name, number, self, strict)
        if found.key == "count<pow2":
            return self.size("count") < 1 << (self.call.comm_size.bit_length() - 1)
        known = _WORDS.get(found.key)
        return known is not None and known(self, release)

    def _number(self, name: str, number: int) -> int:
        if name in ("comm_size", "comm_avg_ppn"):
            return self.call.comm_size
        return self.size(name)


def _bound(name: str, number: int, facts: Facts, strict: bool) -> int:
    bound = number * facts.call.nodes if name == "comm_avg_ppn" else number
    return bound - strict


def _consecutive(facts: Facts, release: str) -> bool:
    # from 5.0 on a single node counts as not consecutive
    least = 2 if release.lstrip("v").startswith("5.") else 1
    return facts.is_parent and facts.call.nodes >= least


_WORDS: dict[str, Callable[[Facts, str], bool]] = {
    "is_multi_threaded=no": lambda _, __: True,
    "comm_type=intra": lambda f, _: not f.between,
    "comm_type=inter": lambda f, _: f.between,
    "comm_size=pow2": lambda f, _: f.call.comm_size & (f.call.comm_size - 1) == 0,
    "comm_size=node_comm_size": lambda f, _: f.call.nodes == 1,
    "comm_hierarchy=parent": lambda f, _: f.is_parent,
    # before 5.0 `node` and `node_roots` are the parts of a communicator, which no program calls
    "comm_hierarchy=flat": lambda f, _: not f.is_parent,
    "comm_hierarchy=node": lambda f, r: not f.is_parent and r.lstrip("v").startswith("5."),
    "comm_hierarchy=node_roots": lambda f, r: not f.is_parent and r.lstrip("v").startswith("5."),
    "is_node_consecutive=yes": _consecutive,
    "is_node_consecutive=no": lambda f, r: not _consecutive(f, r),
    "is_sendbuf_inplace=yes": lambda f, _: f.call.in_place,
    "is_sendbuf_inplace=no": lambda f, _: not f.call.in_place,
    "is_commutative=yes": lambda f, _: f.call.commutative,
    "is_commutative=no": lambda f, _: not f.call.commutative,
    "is_op_built_in=yes": lambda f, _: f.call.builtin_operation,
    "is_op_built_in=no": lambda f, _: not f.call.builtin_operation,
    "is_block_regular=yes": lambda _, __: True,
}


@dataclass(frozen=True)
class Found:
    """Where a search ended: the leaf (None if it fell off the tree) and the tests that held.

    ``undefined`` is a test on the way that ends the program for this collective.
    """

    leaf: Leaf | None
    path: tuple[Test, ...] = ()
    undefined: Test | None = None


def search(tree: Tree, facts: Facts, release: str, collective: str = "") -> Found:
    """Return where MPICH's search ends for one collective's tree."""
    collective = collective or str(facts.call.collective)
    before = _search(tree, facts, release, collective, at_call=False)
    if before.leaf is None and before.undefined is None:
        # the first search fell off the tree; the one at the call starts again from its root
        return _search(tree, facts, release, collective, at_call=True)
    return before


def _search(tree: Tree, facts: Facts, release: str, collective: str, *, at_call: bool) -> Found:
    path: list[Test] = []
    while not isinstance(tree, Leaf):
        for found, then in tree.tests:
            at_call = at_call or found.is_of_call
            if collective not in DEFINED.get(found.name, {collective}) and not found.is_any:
                return Found(None, tuple(path), undefined=found)
            wanted = found.name == "collective" and found.value == collective
            if wanted or facts.holds(found, release, at_call=at_call):
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
    per_byte = Facts(Call(collective, comm_size, 1)).size(found.name)
    return last // max(1, per_byte) + 1
