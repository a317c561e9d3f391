"""What is tuned: the values of each parameter of table II, the setups they make, and heuristics.

The heuristics leave out of a search what is known beforehand of modules and algorithms, in the
spirit of the paper's own (sec. III-C): SOLO only from 512 KB on, chains only with enough segments;
it names no others. Each can cost accuracy, so that all of them together can be switched off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import CampaignError, say, unknown
from colltune.han.tasks_file import Asked, TaskSeries, wanted_for
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.han_setups import ADAPT, TREES, UP_MODULES
from colltune.mpi.openmpi.library import OPENMPI

REPS = 5
SEGSIZES_BYTES = (4096, 16384, 65536, 262144)
TREES_OFFERED = ("binomial", "binary", "pipeline", "linear")
INNER_SEGSIZES_BYTES = (0,)
ADAPT_FROM_BYTES = 16384
SM_UP_TO_BYTES = 8192
INNER_SEGMENTS_AT_LEAST = 4
PIECES_PER_NODE = 2
MOST_SEGMENTS = 64
CHAINS_OF_ADAPT, MOST_BRANCHES = 4, 32


@dataclass(frozen=True)
class Space:
    """The search space (table II), with coll/adapt's ``ir`` always like its ``ib``.

    "When it is possible to specify the algorithm, we select the same algorithm with the same root
    to perform ir and ib" (sec. III-B.1). ``segsizes_bytes`` are those of coll/han (fs),
    ``inner_bytes`` those of coll/adapt (ibs, irs), ``trees`` its algorithms.
    """

    segsizes_bytes: tuple[int, ...] = SEGSIZES_BYTES
    ups: tuple[str, ...] = tuple(UP_MODULES)
    lows: tuple[str, ...] = ("tuned", "sm")
    trees: tuple[str, ...] = TREES_OFFERED
    inner_bytes: tuple[int, ...] = INNER_SEGSIZES_BYTES

    def __post_init__(self) -> None:
        for name, given, known in (
            ("module between nodes", self.ups, UP_MODULES),
            ("algorithm of coll/adapt", self.trees, TREES),
        ):
            for word in given or ("",):
                if word not in known:
                    raise unknown(name, word, known, CampaignError)
        if not self.segsizes_bytes or not self.lows or not self.inner_bytes:
            raise say("no-segment-size")
        odd = [size for size in self.segsizes_bytes if size < 1 or size % 4]
        if odd:
            raise say("odd-segment-size", segsize=odd[0])

    def setups(self, release: str, collective: Collective) -> Iterator[Configuration]:
        known = OPENMPI.han_setups(release)
        for segsize, up, low in product(sorted(set(self.segsizes_bytes)), self.ups, self.lows):
            for values in self._inner(up, collective):
                given = {"segsize": segsize, "up": up, "low": low, **values}
                yield known.canonical(han_setups.setup(collective, given))

    def _inner(self, up: str, collective: Collective) -> Iterator[dict[str, int | str]]:
        if up != ADAPT:
            yield {}
            return
        for tree, size in product(self.trees, self.inner_bytes):
            both: dict[str, int | str] = {"ibalg": tree, "ibs": size}
            if collective is not Collective.BCAST:
                both |= {"iralg": tree, "irs": size}
            yield both


def segments_of(msize_bytes: int, segsize_bytes: int) -> int:
    """Return the number of segments u of a message; a segment size of 0 does not cut it."""
    return max(1, -(-msize_bytes // segsize_bytes)) if segsize_bytes else 1


def pipeline(release: str, setup: Configuration, msize_bytes: int) -> tuple[Configuration, int]:
    """Return the tasks that a message is made of, and its number of segments.

    Setups whose tasks are the same for the message give the same answer: it is the setup with the
    segment that really runs, which is the whole message where that is smaller.
    """
    cut = OPENMPI.han_setups(release).cut(setup, msize_bytes)
    segment = cut.numbers["segsize"] or msize_bytes
    values = dict(cut.parameters) | {"segsize": segment}
    return han_setups.setup(cut.collective, values), segments_of(msize_bytes, segment)


@dataclass(frozen=True)
class TuningInputs:
    """The inputs of the tuning (table I): collectives, shapes (n, p) and message sizes m."""

    collectives: tuple[Collective, ...]
    shapes: tuple[Shape, ...]
    msizes_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.collectives or not self.shapes or not self.msizes_bytes:
            raise say("nothing-to-measure")
        for collective in self.collectives:
            if collective not in han_setups.COLLECTIVES:
                what, known = "collective with task times", han_setups.COLLECTIVES
                raise unknown(what, collective, known, CampaignError)
        for shape in self.shapes:
            if why := han_setups.limit_on(shape):
                raise say("shape-without-han", shape=shape, why=why)
        if min(self.msizes_bytes) < 1:
            raise say("empty-messages")

    @property
    def launched(self) -> Shape:
        """The smallest shape that holds all others."""
        return Shape(max(s.nodes for s in self.shapes), max(s.ppn for s in self.shapes))


Setups = tuple[Configuration, ...]


@dataclass(frozen=True)
class TuningRequest:
    """What is to be tuned over which space, repetitions of each series, whether by heuristics."""

    inputs: TuningInputs
    space: Space
    reps: int = REPS
    heuristics: bool = False

    def asked(self) -> Asked:
        """Return inputs and space by the names of options of `colltune han measure`."""
        inputs, space = self.inputs, self.space
        return {
            "collective": tuple(map(str, inputs.collectives)),
            "shape": tuple(map(str, inputs.shapes)),
            "msize": tuple(map(str, inputs.msizes_bytes)),
            "segsize": tuple(map(str, space.segsizes_bytes)),
            "up": space.ups,
            "low": space.lows,
            "tree": space.trees,
            "inner": tuple(map(str, space.inner_bytes)),
        }


def every_setup(request: TuningRequest, release: str) -> dict[Collective, Setups]:
    """Return the setups to be compared on any of the request's shapes, by collective."""
    found: dict[Collective, Setups] = {}
    for shape in request.inputs.shapes:
        for collective, setups in setups_of(request, release, shape).items():
            found[collective] = tuple(dict.fromkeys((*found.get(collective, ()), *setups)))
    return found


def setups_of(request: TuningRequest, release: str, shape: Shape) -> dict[Collective, Setups]:
    """Return the setups to be compared on a shape, by collective."""
    inputs = request.inputs
    found = {c: tuple(request.space.setups(release, c)) for c in inputs.collectives}
    if not request.heuristics:
        return found
    msizes = inputs.msizes_bytes
    return {c: worth_measuring(setups, shape, msizes) for c, setups in found.items()}


def needed(request: TuningRequest, release: str) -> tuple[TaskSeries, ...]:
    """Return the series that tell the runtimes of all setups and messages, largest shapes first."""
    reps = -(-request.reps // 2) if request.heuristics else request.reps
    found: list[TaskSeries] = []
    for shape in sorted(request.inputs.shapes, reverse=True):
        segments: dict[Configuration, set[int]] = defaultdict(set)
        for setups in setups_of(request, release, shape).values():
            for setup, msize in product(setups, request.inputs.msizes_bytes):
                tasks, count = pipeline(release, setup, msize)
                segments[tasks].add(count)
        for tasks, counts in segments.items():
            found += wanted_for(shape, tasks, counts, reps)
    return tuple(found)


# coll/sm only with segments up to its own fragments, coll/tuned only with larger ones; coll/adapt
# cuts messages only into larger segments, since it sends each one synchronously, and pipelines only
# where there are enough pieces per node; of trees that are the same on so many nodes, the first;
# its own segments only where a segment has several; and not more segments than the longest message
# needs, if any are left
def worth_measuring(
    setups: Sequence[Configuration], shape: Shape, msizes_bytes: Iterable[int]
) -> tuple[Configuration, ...]:
    """Return the setups that the heuristics keep; the first one where they would keep none."""
    longest = max(msizes_bytes)
    sizes = sorted({s.numbers["segsize"] for s in setups})
    allowed = {s for s in sizes if segments_of(longest, s) <= MOST_SEGMENTS} or {sizes[-1]}
    kept = [s for s in setups if s.numbers["segsize"] in allowed and _may_pay(s, shape, longest)]
    kept = [s for s in kept if _has_right_low(s, kept)]
    return tuple(_one_of_the_same(kept, shape)) or tuple(setups[:1])


def _has_right_low(setup: Configuration, among: Sequence[Configuration]) -> bool:
    """Tell whether the module within nodes suits the segment, or none that would is there."""
    small = setup.numbers["segsize"] <= SM_UP_TO_BYTES
    unsuited = "tuned" if small else "sm"
    lows = {str(dict(other.parameters)["low"]) for other in among}
    return dict(setup.parameters)["low"] != unsuited or lows == {unsuited}


def _may_pay(setup: Configuration, shape: Shape, longest_bytes: int) -> bool:
    values = dict(setup.parameters)
    if values["up"] != ADAPT:
        return True
    segsize, inner = setup.numbers["segsize"], setup.numbers["ibs"]
    part = min(segsize, longest_bytes)
    cut = segsize < longest_bytes
    if (cut and part < ADAPT_FROM_BYTES) or (inner and part < INNER_SEGMENTS_AT_LEAST * inner):
        return False
    pieces = segments_of(longest_bytes, segsize) * segments_of(part, inner)
    return values["ibalg"] != "pipeline" or pieces >= PIECES_PER_NODE * shape.nodes


def _one_of_the_same(setups: Iterable[Configuration], shape: Shape) -> Iterator[Configuration]:
    """Yield `setups` without those whose trees equal an earlier one's on so many nodes."""
    seen = set()
    for setup in setups:
        values = dict(setup.parameters)
        tree = edges(str(values["ibalg"]), shape.nodes) if values["up"] == ADAPT else ()
        rest = tuple(sorted((n, str(v)) for n, v in values.items() if n not in ("ibalg", "iralg")))
        if (tree, rest) not in seen:
            seen.add((tree, rest))
            yield setup


def edges(tree: str, nodes: int) -> tuple[int, ...]:
    """Return the parent of each node but the first in one of coll/adapt's trees.

    As ``coll_base_topo.c`` builds them. In-order binomial trees are only told apart by the name.
    """
    others = range(1, nodes)
    if tree == "linear":
        return _fan(nodes, min(MOST_BRANCHES, max(1, nodes - 1)))
    if tree == "binary":
        return _fan(nodes, 2)
    if tree == "pipeline":
        return tuple(node - 1 for node in others)
    if tree == "chain":
        return tuple(_chained(nodes))
    parents = tuple(node - (1 << (node.bit_length() - 1)) for node in others)
    return parents if tree == "binomial" else (*parents, -1)


def _fan(nodes: int, fanout: int) -> tuple[int, ...]:
    """Return the parents in a tree whose levels are filled one after another."""
    parents = {0: 0}
    level, delta = [0], 1
    while len(parents) < nodes:
        children = {p + delta * (i + 1): p for i in range(fanout) for p in level}
        parents |= {child: parent for child, parent in children.items() if child < nodes}
        level, delta = sorted(children), delta * fanout
    return tuple(parents[node] for node in range(1, nodes))


def _chained(nodes: int) -> Iterator[int]:
    """Yield the parents in chains of as equal length as can be."""
    chains = min(CHAINS_OF_ADAPT, max(1, nodes - 1))
    length, longer = divmod(nodes - 1, chains)
    at = 1
    for chain in range(chains):
        for place in range(length + (chain < longer)):
            yield at - 1 if place else 0
            at += 1
