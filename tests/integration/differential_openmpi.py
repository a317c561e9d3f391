"""What a real Open MPI runs with a configuration, against what `decide` says that it runs.

A launch performs hundreds of random calls on communicators of many sizes. Of each call, rank 0 of
the communicator tells by the call tracer which function of the library ran first, into which one it
fell back, and with which segment size, fan-out and limit of requests; the communicator itself tells
which component owns the collective. Where the library's own decision is expected, the same calls in
a launch without any configuration tell what that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from colltune.domain import Collective, Configuration
from colltune.mpi import trace
from colltune.mpi.catalogue import Algorithm
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.rules import Call, Outcome
from tests.integration.real import RealMpi

MSIZES = (0, 8, 16, 24, 56, 104, 128, 400, 1000, 1016, 1024, 2000, 4096, 5000, 8192, 20008, 70000)
ELEMENTS = (1, 4, 8)
REDUCTIONS = frozenset(
    {
        *(Collective.ALLREDUCE, Collective.REDUCE, Collective.SCAN, Collective.EXSCAN),
        *(Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER_BLOCK),
    }
)
ROOTED = frozenset({Collective.BCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER})
NEVER_IN_PLACE = frozenset({Collective.BCAST, Collective.BARRIER})
DECIDED_AT_CALLS = frozenset({"tuned", "han"})
Decide = Callable[[Call], Outcome]
_ENDED = re.compile(r"\bMARK [a-z_]+ \d+ \d+ (\d+) (\w+)\b")
_UNTOLD = "unknown"
_BASE = "ompi_coll_base_"
_WORDS = {
    "bcast_intra_chain": {"segsize": 0, "fanout": 1},
    "bcast_intra_pipeline": {"segsize": 0},
    "bcast_intra_split_bintree": {"segsize": 0},
    "bcast_intra_bintree": {"segsize": 0},
    "bcast_intra_binomial": {"segsize": 0},
    "bcast_intra_knomial": {"segsize": 0, "radix": 1},
    "reduce_intra_chain": {"segsize": 2, "fanout": 3, "requests": 4},
    "reduce_intra_pipeline": {"segsize": 2, "requests": 3},
    "reduce_intra_binary": {"segsize": 2, "requests": 3},
    "reduce_intra_binomial": {"segsize": 2, "requests": 3},
    "reduce_intra_in_order_binary": {"segsize": 2, "requests": 3},
    "allreduce_intra_ring_segmented": {"segsize": 1},
    "gather_intra_linear_sync": {"segsize": 3},
    "alltoall_intra_linear_sync": {"requests": 2},
    "scatter_intra_linear_nb": {"requests": 3},
}
"""Where a function's parameters stand among its arguments after the sixth."""


@dataclass(frozen=True)
class Request:
    """A call to be performed: on the world, or on a communicator of its first processes."""

    call: Call
    variant: str = "plain"
    root: int = 0


@dataclass(frozen=True)
class Seen:
    """What a call ran, in the names of the library's functions: `selected` first.

    `ran` is the one into which it fell back, or itself, with its `parameters`; `error` the class of
    the error, or 0; `component` owns the collective, empty if that cannot be found out; `functions`
    are all, also those of inner calls.
    """

    selected: str
    ran: str
    parameters: tuple[tuple[str, int], ...]
    error: int
    component: str = field(default="", compare=False)
    functions: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Agreement:
    """How many calls were compared, of how many a file or variable decided, which disagreed."""

    compared: int
    decided: int
    disagreements: tuple[str, ...]


def requests(rng: Random, world: int, count: int) -> tuple[Request, ...]:
    """Return random calls on communicators of 1 to `world` processes."""
    return tuple(_request(rng, world) for _ in range(count))


def _request(rng: Random, world: int) -> Request:
    collective = rng.choice(list(Collective))
    comm_size = rng.randint(1, world)
    element = rng.choice(ELEMENTS)
    msize = 0 if collective is Collective.BARRIER else rng.choice(MSIZES)
    if collective.has_block_per_rank:
        msize = min(msize, 8192)
    variants = ["plain", "plain"]
    if collective not in NEVER_IN_PLACE:
        variants.append("inplace")
    if collective in REDUCTIONS:
        variants += ["user", "noncommutative"]
    variant = rng.choice(variants)
    msize -= msize % element
    ignored = rng.choice((0, 0, *ELEMENTS)) if variant == "inplace" else 0
    call = Call(
        collective,
        comm_size,
        msize,
        is_world=comm_size == world,
        in_place=variant == "inplace",
        commutative=variant != "noncommutative",
        builtin_operation=variant not in ("user", "noncommutative"),
        element_bytes=element,
        ignored_send_bytes=msize // element * ignored or None,
    )
    return Request(call, variant, rng.randrange(comm_size) if collective in ROOTED else 0)


def script(wanted: Sequence[Request], *, split: bool) -> str:
    """Return the list that the test program reads.

    Without `split` communicators are made without any collective of the world, whose rules may be
    such that they fail.
    """
    sizes = sorted({r.call.comm_size for r in wanted if not r.call.is_world})
    lines = [f"comm {size} {'split' if split else 'group'}" for size in sizes]
    for r in wanted:
        made = -1 if r.call.is_world else sizes.index(r.call.comm_size)
        words = (made, r.call.collective, r.call.msize_bytes, r.call.element_bytes)
        elements = r.call.msize_bytes // r.call.element_bytes
        ignored = (r.call.ignored_send_bytes or 0) // max(1, elements)
        lines.append(f"call {' '.join(map(str, words))} {r.variant} {r.root} {ignored}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Bench:
    """A real Open MPI and a folder for the test program's files.

    `options` and `before` are those of `Real.run`, for launches across nodes.
    """

    mpi: RealMpi
    folder: Path
    options: tuple[str, ...] = ("--oversubscribe",)
    before: tuple[str, ...] = ()

    def perform(
        self,
        world: int,
        wanted: Sequence[Request],
        environment: Mapping[str, str],
        *,
        split: bool = True,
    ) -> list[Seen]:
        """Perform all calls in one launch and return what was seen of each."""
        listed = self.folder / "calls"
        listed.write_text(script(wanted, split=split))
        traced = (*trace.launch_options(self.mpi.tracer, with_words=True), *self.options)
        command = [self.mpi.compiled("differential.c"), listed]
        outcome = self.mpi.run(world, command, environment, options=traced, before=self.before)
        assert outcome.ok, outcome.explain()
        found = list(seen(outcome.stderr))
        assert len(found) == len(wanted), outcome.explain()
        return found


def seen(trace_text: str) -> Iterator[Seen]:
    """Yield what a trace tells of each marked call."""
    ended = _ENDED.findall(trace_text)
    for call, (error, owner) in zip(trace.marked(trace_text), ended, strict=True):
        # coll/basic's own functions only call those that the components share
        functions = [f for f in call.functions if not f.symbol.startswith("mca_coll_basic_")]
        own = [f for f in functions if _collective(f.symbol) is call.collective]
        first = functions[0] if functions else trace.Function("")
        last = own[-1] if own else first
        symbols = tuple(f.symbol for f in functions)
        component = "" if owner == _UNTOLD else owner
        ran = parameters(last)
        yield Seen(first.symbol, last.symbol, ran, int(error), component, symbols)


def parameters(function: trace.Function) -> tuple[tuple[str, int], ...]:
    """Return the parameters that a function was called with, as far as they have an effect."""
    places = _WORDS.get(function.symbol.removeprefix(_BASE), {})
    values = {name: function.words[at] for name, at in places.items()}
    return tuple(sorted((name, _in_effect(name, value)) for name, value in values.items()))


def _in_effect(name: str, value: int) -> int:
    # no chain is one, and there are at most 32; no size and no limit are 0 or less
    return min(max(value, 1), 32) if name == "fanout" else max(value, 0)


def _collective(symbol: str) -> Collective | None:
    named = symbol.removeprefix(_BASE)
    fitting = [c for c in Collective if named.startswith(f"{c}_")]
    return max(fitting, key=len, default=None)


def agreed_on_by_ranks(decide: Decide, request: Request) -> bool:
    """Tell whether all ranks of a call will choose the same, so that it comes to an end.

    In gather and scatter the root alone passes MPI_IN_PLACE, with which the library forgets the
    size of the call. Allgather's linear algorithm hands MPI_IN_PLACE on to gather.
    """
    call = request.call
    if not call.in_place:
        return True
    if call.collective is Collective.ALLGATHER:
        ran = decide(call).configuration
        if not ran.is_default and ran.algorithm != "linear":
            return True
        call = replace(call, collective=Collective.GATHER)
    if call.collective not in (Collective.GATHER, Collective.SCATTER):
        return True
    others = replace(call, in_place=False)
    root = replace(others, msize_bytes=0)
    return len({(o.chosen, o.configuration) for o in map(decide, (root, others))}) == 1


def compare(
    release: str,
    decide: Decide,
    wanted: Sequence[Request],
    ran: Sequence[Seen],
    default: Sequence[Seen],
    *,
    by_rule: bool,
) -> Agreement:
    """Compare what ran with what is said; `default` is what runs without any configuration.

    `by_rule` tells that no variable forces an algorithm, so that the rule's is called first.
    """
    complaints, decided = [], 0
    for request, now, without in zip(wanted, ran, default, strict=True):
        outcome = decide(request.call)
        decided += bool(outcome.ends_program) or not outcome.configuration.is_default
        complaint = disagreement(release, outcome, now, without, by_rule=by_rule)
        if complaint:
            rule = f"line {outcome.rule.line}" if outcome.rule else "no rule"
            complaints.append(f"{request.call} root {request.root} ({rule}): {complaint}")
    return Agreement(len(wanted), decided, tuple(complaints))


def disagreement(
    release: str, outcome: Outcome, now: Seen, without: Seen, *, by_rule: bool = True
) -> str:
    """Return how what was seen differs from what was said; empty if it does not."""
    if outcome.returns_at_once:
        return f"said to return at once, ran {now}" if now.functions or now.error else ""
    if bool(outcome.ends_program) != bool(now.error):
        return f"said {outcome.ends_program or 'to run'!r}, returned error {now.error}"
    if outcome.ends_program:
        return ""
    ran = outcome.configuration
    elsewhere = other_component(outcome, now)
    if elsewhere or not ran.is_default:
        return elsewhere or other_algorithm(release, outcome, now, by_rule=by_rule)
    own = outcome.component not in DECIDED_AT_CALLS
    # a variable may give the library's own choice another limit of requests
    alike = (now.selected, now.ran, now.error) == (without.selected, without.ran, without.error)
    return "" if own or alike else f"said default, which is {without}; ran {now}"


def other_algorithm(release: str, outcome: Outcome, now: Seen, *, by_rule: bool) -> str:
    """Return how the algorithm that was seen differs from that which was said."""
    ran, chosen = outcome.configuration, outcome.chosen
    last = algorithm_of(release, ran)
    first = algorithm_of(release, chosen) if by_rule and not chosen.is_default else None
    said = f"said {ran.id}, chosen {chosen.id}"
    if now.ran != last.symbol or (first is not None and now.selected != first.symbol):
        return f"{said}; ran {now}"
    told, seen_values = dict(ran.parameters), dict(now.parameters)
    for name in last.parameters:
        least = 1 if name == "fanout" else 0
        if seen_values.get(name, least) != told.get(name, least):
            return f"{said}; ran with another {name}: {now}"
    return ""


def other_component(outcome: Outcome, now: Seen) -> str:
    """Return how the owner of the collective differs from what was said; empty if it does not."""
    said, owner = outcome.component, now.component
    # these hand on calls that they cannot or shall not do
    handed_on = owner in ("adapt", "han") and said != owner and bool(now.functions)
    if not owner or said == owner or handed_on:
        return ""
    return f"said coll/{said}, owned by coll/{owner}"


def algorithm_of(release: str, configuration: Configuration) -> Algorithm:
    """Return the algorithm of a configuration, which is none of the library's own decision."""
    entry = catalogue_of(release).collectives[configuration.collective]
    algorithm = entry.named(configuration.algorithm)
    assert algorithm is not None, configuration
    return algorithm
