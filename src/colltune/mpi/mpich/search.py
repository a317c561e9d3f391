"""What MPICH's tests see of a call, and where its search of a tree ends.

A tree is searched twice: once when a communicator is made, as far as only tests of communicators
stand on the path, and from there at each call. The second search takes ``comm_size<N`` for ``<=``
(``csel.c``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective
from colltune.mpi.mpich.tree import LARGEST, Leaf, Test, Tree
from colltune.mpi.rules import Call

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
