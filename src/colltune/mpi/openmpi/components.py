"""Which component of Open MPI owns a collective on a communicator.

Every component has a priority; the highest one that serves the collective there wins
(``ompi/mca/coll/base/coll_base_comm_select.c``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from colltune.domain import Collective
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.openmpi.variables import Variables

C = Collective
TUNED, HAN, BASIC = "tuned", "han", "basic"
_LARGEST_PRIORITY = 100
# without these there is nothing for some collectives, which is an error
_NEEDED = (BASIC, "libnbc")
# collectives of coll/han where the catalogue does not list them, since it is off by default
_HAN_BEFORE_5 = frozenset(
    {C.ALLGATHER, C.ALLREDUCE, C.BARRIER, C.BCAST, C.GATHER, C.REDUCE, C.SCATTER}
)
_NOT_TUNED = frozenset({C.SCAN, C.EXSCAN})
_HCOLL = frozenset(
    {
        *(C.BARRIER, C.BCAST, C.ALLGATHER, C.ALLGATHERV, C.ALLREDUCE, C.ALLTOALL, C.ALLTOALLV),
        *(C.REDUCE, C.REDUCE_SCATTER, C.REDUCE_SCATTER_BLOCK),
    }
)
_UCC = _HCOLL | {C.GATHER, C.SCATTER}


@dataclass(frozen=True)
class Owner:
    """The component that decides, and one sentence that says why it does."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Candidate:
    name: str
    priority: int
    why: str


def owner(
    catalogue: Catalogue,
    variables: Variables,
    collective: Collective,
    nodes: int,
    *,
    dynamic: bool,
) -> Owner:
    """Return the component that owns `collective` on a communicator that lies on `nodes` nodes.

    `dynamic` tells whether coll/tuned has rules or a forced algorithm for it: scan and exscan it
    offers only then. coll/hcoll and coll/ucc are counted where the variables switch them on; most
    installations do not have them.
    """
    found = [
        candidate
        for candidate in _candidates(catalogue, variables, collective, nodes, dynamic=dynamic)
        if candidate.priority >= 0 and _opened(variables, candidate.name)
    ]
    lacking = [name for name in _NEEDED if not _opened(variables, name)]
    if lacking or not found:
        what = f"coll/{lacking[0]}" if lacking else f"any component for {collective}"
        return Owner(
            "", f"coll={variables.text('coll')} leaves out {what}, so that MPI_Init fails."
        )
    # of equals the first one is taken
    best = max(found, key=lambda candidate: min(candidate.priority, _LARGEST_PRIORITY))
    return Owner(best.name, _sentence(best, found, variables, collective, nodes))


def han_serves(catalogue: Catalogue, collective: Collective) -> bool:
    """Tell whether coll/han has an implementation of `collective`."""
    return collective in (catalogue.han_collectives or _HAN_BEFORE_5)


def _candidates(
    catalogue: Catalogue,
    variables: Variables,
    collective: Collective,
    nodes: int,
    *,
    dynamic: bool,
) -> Iterator[_Candidate]:
    if collective not in _NOT_TUNED or dynamic:
        yield _candidate(variables, TUNED, 30)
    if nodes > 1 and han_serves(catalogue, collective):
        yield _candidate(variables, HAN, catalogue.han_priority or 0)
    yield _candidate(variables, BASIC, 10)
    if collective in _HCOLL and variables.flag("coll_hcoll_enable", False):
        yield _candidate(variables, "hcoll", 90)
    if collective in _UCC and variables.flag("coll_ucc_enable", False):
        yield _candidate(variables, "ucc", 10)
    for name, served in _RAISED.items():
        on_one_node = name != "adapt"
        raised = variables.text(f"coll_{name}_priority") is not None
        if raised and collective in served and not (on_one_node and nodes > 1):
            yield _candidate(variables, name, 0)


_RAISED = {
    "adapt": frozenset({C.BCAST, C.REDUCE}),
    "sm": frozenset({C.ALLREDUCE, C.BARRIER, C.BCAST, C.REDUCE}),
    "xhc": frozenset({C.ALLREDUCE, C.BARRIER, C.BCAST, C.REDUCE}),
}
"""Components of priority 0, which only a user brings up."""


def _candidate(variables: Variables, name: str, default: int) -> _Candidate:
    parameter = f"coll_{name}_priority"
    told = variables.text(parameter) is not None
    priority = variables.integer(parameter, default)
    return _Candidate(name, priority, variables.shown(parameter) if told else f"{default}")


def _opened(variables: Variables, name: str) -> bool:
    chosen = (variables.text("coll") or "").strip()
    names = {word.strip() for word in chosen.lstrip("^").split(",") if word.strip()}
    if not names:
        return True
    return (name not in names) if chosen.startswith("^") else (name in names)


def _sentence(
    best: _Candidate,
    found: list[_Candidate],
    variables: Variables,
    collective: Collective,
    nodes: int,
) -> str:
    where = "communicators on one node" if nodes == 1 else f"communicators that span {nodes} nodes"
    text = f"On {where} coll/{best.name} decides {collective} (priority {best.why})"
    others = [c for c in found if c.name in (TUNED, HAN) and c is not best]
    if others:
        return text + ", above " + " and ".join(f"coll/{c.name} ({c.why})" for c in others) + "."
    closed = [name for name in (TUNED, HAN) if not _opened(variables, name)]
    if closed:
        return f"{text}: coll={variables.text('coll')} leaves out coll/{' and coll/'.join(closed)}."
    return text + "."
