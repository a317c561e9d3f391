"""Which component of Open MPI owns a collective on a communicator.

Every component has a priority; the highest one that serves the collective there wins
(``ompi/mca/coll/base/coll_base_comm_select.c``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from colltune.domain import Collective
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.openmpi.mca import Variables
from colltune.mpi.rules import Call

C = Collective
TUNED, HAN, BASIC, SELF, ADAPT = "tuned", "han", "basic", "self", "adapt"
_LARGEST_PRIORITY = 100
# without these there is nothing for some collectives, which is an error
_NEEDED = (BASIC, "libnbc")
# components that some build of some release has
_KNOWN = frozenset(
    {TUNED, HAN, BASIC, SELF, ADAPT, "libnbc", "inter", "sm", "sync", "demo", "monitoring", "cuda"}
    | {"hcoll", "ucc", "fca", "ml", "ftagree", "portals4", "xhc", "acoll", "accelerator"}
    | {"bcol", "hierarch", "gpu", "spacc", "mxm"}
)
# collectives of coll/han where the catalogue does not list them, since it is off by default
_HAN_BEFORE_5 = frozenset(
    {C.ALLGATHER, C.ALLREDUCE, C.BARRIER, C.BCAST, C.GATHER, C.REDUCE, C.SCATTER}
)
_NOT_TUNED = frozenset({C.SCAN, C.EXSCAN})
_NOT_SELF = frozenset({C.REDUCE_SCATTER_BLOCK})
# which of equal priorities was seen to be taken, by series; the others stand behind
_OF_EQUALS = {"4.1": (SELF, TUNED, "sm", HAN, BASIC), "": (SELF, "sm", TUNED, HAN, BASIC)}
_HCOLL = frozenset(
    {
        *(C.BARRIER, C.BCAST, C.ALLGATHER, C.ALLGATHERV, C.ALLREDUCE, C.ALLTOALL, C.ALLTOALLV),
        *(C.REDUCE, C.REDUCE_SCATTER, C.REDUCE_SCATTER_BLOCK),
    }
)
_UCC = _HCOLL | {C.GATHER, C.SCATTER}


# components of priority 0, which only a user brings up
_RAISED = {
    ADAPT: frozenset({C.BCAST, C.REDUCE}),
    "sm": frozenset({C.ALLREDUCE, C.BARRIER, C.BCAST, C.REDUCE}),
    "xhc": frozenset({C.ALLREDUCE, C.BARRIER, C.BCAST, C.REDUCE}),
}


@dataclass(frozen=True)
class Owner:
    """The component that decides, and one sentence that says why it does."""

    name: str
    reason: str


class _Candidate(NamedTuple):
    name: str
    priority: int
    why: str


def owner(catalogue: Catalogue, variables: Variables, call: Call, *, dynamic: bool) -> Owner:
    """Return the component that owns the collective of `call` on its communicator.

    `dynamic` tells whether coll/tuned has rules or a forced algorithm for it: scan and exscan it
    offers only then. coll/hcoll and coll/ucc are counted where the variables switch them on; most
    installations do not have them. coll/adapt hands on what it cannot do: then the next component
    is returned.
    """
    why = why_no_start(variables)
    if why:
        return Owner("", f"{why}.")
    order = _OF_EQUALS.get(catalogue.series, _OF_EQUALS[""])
    defaults = _defaults(catalogue, variables, call, dynamic=dynamic)
    found = [_candidate(variables, name, default) for name, default in defaults]
    best, *others = sorted(
        (one for one in found if one.priority >= 0 and _opened(variables, one.name)),
        key=lambda one: (-one.priority, (*order, one.name).index(one.name)),
    )
    sentence = _sentence(best, others, variables, call)
    if best.name != ADAPT or call.collective is not C.REDUCE or call.commutative:
        return Owner(best.name, sentence)
    handed_on = (
        f"{sentence} It passes non-commutative operations on to coll/{others[0].name}, the "
        f"next one (priority {others[0].why})."
    )
    return Owner(others[0].name, handed_on)


def why_no_start(variables: Variables) -> str:
    """Return why MPI_Init fails for the choice of components; empty if it does not."""
    chosen = variables.text("coll") or ""
    if "^" in chosen[1:]:
        return f"{variables.shown('coll')} has a ^ that is not the first character: MPI_Init fails"
    if not chosen.startswith("^"):
        unknown = [name for name in chosen.split(",") if name and name not in _KNOWN]
        if unknown:
            return f"coll={chosen} names {unknown[0]!r}, which is not a component: MPI_Init fails"
    for name in _NEEDED:
        if not _opened(variables, name):
            return (
                f"coll={chosen} leaves out coll/{name}, but some collectives need it: "
                "MPI_Init fails"
            )
        priority = f"coll_{name}_priority"
        if variables.integer(priority, 0) < 0:
            return (
                f"{variables.shown(priority)} switches coll/{name} off, but some collectives "
                "need it: MPI_Init fails"
            )
    return ""


def han_serves(catalogue: Catalogue, collective: Collective) -> bool:
    """Tell whether coll/han has an implementation of `collective`."""
    return collective in (catalogue.han_collectives or _HAN_BEFORE_5)


def serves(component: str, collective: Collective) -> bool:
    """Tell whether a component has `collective` on communicators that span nodes."""
    return component in (HAN, TUNED, BASIC) or (component == ADAPT and collective in _RAISED[ADAPT])


def _defaults(
    catalogue: Catalogue, variables: Variables, call: Call, *, dynamic: bool
) -> Iterator[tuple[str, int]]:
    """Yield the components that serve a call, with the priorities that they have by default."""
    collective = call.collective
    yield BASIC, 10
    if call.comm_size == 1:
        if collective not in _NOT_SELF:
            yield SELF, 75
        return
    if collective not in _NOT_TUNED or dynamic:
        yield TUNED, 30
    if call.nodes > 1 and han_serves(catalogue, collective):
        yield HAN, catalogue.han_priority or 0
    if collective in _HCOLL and variables.flag("coll_hcoll_enable", False):
        yield "hcoll", 90
    if collective in _UCC and variables.flag("coll_ucc_enable", False):
        yield "ucc", 10
    for name, served in _RAISED.items():
        raised = variables.text(f"coll_{name}_priority") is not None
        if raised and collective in served and (name == ADAPT or call.nodes == 1):
            yield name, 0


def _candidate(variables: Variables, name: str, default: int) -> _Candidate:
    parameter = f"coll_{name}_priority"
    told = variables.text(parameter) is not None
    priority = min(variables.integer(parameter, default), _LARGEST_PRIORITY)
    return _Candidate(name, priority, variables.shown(parameter) if told else f"{default}")


def _opened(variables: Variables, name: str) -> bool:
    chosen = variables.text("coll") or ""
    names = {word for word in chosen.removeprefix("^").split(",") if word}
    if not names:
        return True
    return (name not in names) if chosen.startswith("^") else (name in names)


def _sentence(best: _Candidate, others: list[_Candidate], variables: Variables, call: Call) -> str:
    where = f"communicators that span {call.nodes} nodes"
    if call.comm_size == 1:
        where = "communicators of one process"
    elif call.nodes == 1:
        where = "communicators on one node"
    text = f"On {where} coll/{best.name} decides {call.collective} (priority {best.why})"
    equal = [c for c in others if c.priority == best.priority]
    if equal:
        names = " and ".join(f"coll/{c.name}" for c in equal)
        return f"{text}, before {names} with the same priority, in the builds that were tested."
    beaten = [c for c in others if c.name in (TUNED, HAN)]
    if beaten:
        return text + ", above " + " and ".join(f"coll/{c.name} ({c.why})" for c in beaten) + "."
    closed = [name for name in (TUNED, HAN) if not _opened(variables, name)]
    if closed and call.comm_size > 1:
        return f"{text}: coll={variables.text('coll')} leaves out coll/{' and coll/'.join(closed)}."
    return text + "."
