"""What coll/han makes of a call that it owns: hands it on, or calls on parts of the communicator.

The parts are the processes of one node, and one process of every node; of the pipelined ("intra")
algorithms the blocking calls, as coll/tuned sees them, of the first segment
(``coll_han_dynamic.c``, ``coll_han_bcast.c``, ``coll_han_subcomms.c`` and so on).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from colltune.domain import Collective
from colltune.mpi.openmpi.decide.components import HAN, TUNED, serves
from colltune.mpi.openmpi.mca import Variables
from colltune.mpi.rules import Call, Rule
from colltune.text import counted

C = Collective
COMPONENTS = ("self", "basic", "libnbc", "tuned", "sm", "adapt", "han")
"""Components by the numbers that coll/han's variables use; 6.x adds xhc as 7."""
# these look at how many processes there are on each node; the others do not
_EVEN_ONLY = frozenset({C.ALLGATHER, C.BCAST, C.GATHER, C.REDUCE, C.SCATTER})
_COMMUTATIVE_ONLY = frozenset({C.ALLREDUCE, C.REDUCE})
_SEGMENTED = frozenset({C.ALLREDUCE, C.BCAST, C.REDUCE})
_SEGSIZE_BYTES, _SEGSIZE_BYTES_OF_6 = 65536, 524288
_ABSENT = "It does not serve this collective across nodes, so coll/tuned gets the call."
_SIMPLE, _INTRA, _REPRODUCIBLE = "simple", "intra", "reproducible"


class HanLevel(StrEnum):
    INTRA_NODE = "intra_node"
    INTER_NODE = "inter_node"
    GLOBAL_COMMUNICATOR = "global_communicator"


@dataclass(frozen=True)
class HanMatch:
    """The rule of a file for coll/han that a call meets.

    ``component`` is a name (``tuned``); ``algorithm`` what stands after ``@`` (``simple``), empty
    where nothing does; ``reason`` is one sentence.
    """

    rule: Rule
    component: str
    algorithm: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What coll/han does with a call.

    ``component`` is who serves it: coll/han, or whom it hands the call on to; ``rule`` the rule of
    coll/han's file that said so; ``inner`` the calls on parts of the communicator;
    ``ends_program`` why the call kills the program, empty if it does not; ``handed_on`` whether
    coll/han looks at the processes before it hands the call on.
    """

    component: str
    reasons: tuple[str, ...]
    rule: Rule | None = None
    inner: tuple[Call, ...] = ()
    ends_program: str = ""
    handed_on: bool = False


def plan(series: str, variables: Variables, match: HanMatch | None, call: Call) -> Plan:
    """Return what coll/han of a release series does with a call that it owns."""
    component, why = _component(variables, match, call.collective)
    rule = match.rule if match is not None else None
    if component != HAN:
        ends = ""
        if series.startswith("4.") and call.collective is C.ALLREDUCE and why[-1] != _ABSENT:
            # coll_han_dynamic.c calls its own function with the other component's data
            ends = (
                f"coll/han passes allreduce on to coll/{component}, which ends programs with a "
                "segmentation fault"
            )
        return Plan(component, why, rule, ends_program=ends)
    handed_on = _hands_on(call)
    if handed_on:
        passed = f"coll/han passes the call on to coll/tuned: {handed_on}."
        return Plan(TUNED, (*why, passed), rule, handed_on=True)
    algorithm = _algorithm(series, variables, match, call.collective)
    runs = f"coll/han runs its {algorithm} algorithm, with calls inside nodes and between them."
    return Plan(HAN, (*why, runs), rule, tuple(_inner(series, variables, algorithm, call)))


def _component(
    variables: Variables, match: HanMatch | None, collective: Collective
) -> tuple[str, tuple[str, ...]]:
    """Return which component gets the call, and why."""
    name = f"coll_han_{collective}_dynamic_global_communicator_module"
    if match is not None:
        component, why = match.component, match.reason
    elif variables.text(name) is None:
        return HAN, ()
    else:
        number = variables.integer(name, len(COMPONENTS) - 1)
        known = 0 <= number < len(COMPONENTS)
        component = COMPONENTS[number] if known else ""
        why = f"{variables.shown(name)} names coll/{component or 'no component'}."
    return (component, (why,)) if serves(component, collective) else (TUNED, (why, _ABSENT))


def _hands_on(call: Call) -> str:
    """Return why coll/han does not serve the call itself; empty if it does."""
    if call.comm_size <= call.nodes:
        return "no node has more than one process"
    if call.comm_size % call.nodes and call.collective in _EVEN_ONLY:
        return (
            f"the {counted(call.comm_size, 'process', 'es')} are spread unevenly over "
            f"{counted(call.nodes, 'node')}"
        )
    if call.collective in _COMMUTATIVE_ONLY and not call.commutative:
        return "the operation is not commutative"
    return ""


def _algorithm(
    series: str, variables: Variables, match: HanMatch | None, collective: Collective
) -> str:
    if collective in _COMMUTATIVE_ONLY and variables.flag("coll_han_reproducible", False):
        return _REPRODUCIBLE
    named = variables.text(f"coll_han_use_{collective}_algorithm")
    if named is None and match is not None:
        named = match.algorithm
    numbered = {"1": _INTRA, "2": _SIMPLE, "3": _REPRODUCIBLE}
    algorithm = numbered.get(named or "", (named or "").lower())
    if algorithm in (_INTRA, _SIMPLE, _REPRODUCIBLE):
        return _SIMPLE if collective is C.BARRIER else algorithm
    usual = collective is C.GATHER and not series.startswith("4.")
    simple = variables.flag(f"coll_han_use_simple_{collective}", usual)
    return _SIMPLE if simple or collective is C.BARRIER else _INTRA


def _inner(series: str, variables: Variables, algorithm: str, call: Call) -> Iterator[Call]:
    if algorithm == _REPRODUCIBLE:
        return
    part = call
    if algorithm == _INTRA and call.collective in _SEGMENTED:
        default = _SEGSIZE_BYTES_OF_6 if series.startswith("6") else _SEGSIZE_BYTES
        segsize = variables.integer(f"coll_han_{call.collective}_segsize", default)
        part = replace(call, msize_bytes=_first_segment(call, segsize))
    ppn = -(-call.comm_size // call.nodes)
    node = replace(part, comm_size=ppn, nodes=1, is_world=False, in_place=False)
    leaders = replace(part, comm_size=call.nodes, is_world=False, in_place=False)
    for inner in _calls(algorithm, call.collective, node, leaders):
        if inner.comm_size > 1:
            yield inner


def _first_segment(call: Call, segsize: int) -> int:
    if not call.element_bytes <= segsize < call.msize_bytes:
        return call.msize_bytes
    return segsize // call.element_bytes * call.element_bytes


def _calls(algorithm: str, collective: Collective, node: Call, leaders: Call) -> Iterator[Call]:
    """Yield the blocking calls in their order; non-blocking ones are never coll/tuned's."""
    of_node = node.comm_size * node.msize_bytes
    gathering = replace(leaders, msize_bytes=of_node)
    between = (leaders,) if algorithm == _SIMPLE else ()
    steps = {
        C.BCAST: (leaders, node),
        C.BARRIER: (node, leaders),
        C.REDUCE: (node, *between),
        C.ALLREDUCE: (
            replace(node, collective=C.REDUCE),
            *between,
            replace(node, collective=C.BCAST),
        ),
        C.GATHER: (node, gathering),
        C.SCATTER: (gathering, node),
        C.ALLGATHER: (
            replace(node, collective=C.GATHER),
            gathering,
            replace(node, collective=C.BCAST, msize_bytes=leaders.comm_size * of_node),
        ),
    }
    yield from steps.get(collective, ())
