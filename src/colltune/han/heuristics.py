"""What is left out of a search by what is known beforehand of modules and algorithms.

The paper's own heuristics are in the same spirit (sec. III-C): SOLO only from 512 KB on, chains
only with enough segments; it names no others. Each can cost accuracy, so that all of them together
can be switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from colltune.domain import Configuration, Shape
from colltune.han.space import segments_of
from colltune.mpi.openmpi.han_setups import ADAPT

ADAPT_FROM_BYTES = 16384
SM_UP_TO_BYTES = 8192
INNER_SEGMENTS_AT_LEAST = 4
PIECES_PER_NODE = 2
MOST_SEGMENTS = 64
CHAINS_OF_ADAPT, MOST_BRANCHES = 4, 32
TEXTS = (
    f"coll/sm only with segments of {SM_UP_TO_BYTES} bytes or less, which are its own fragments,"
    " and coll/tuned only with larger ones",
    f"coll/adapt cuts messages only into segments of {ADAPT_FROM_BYTES} bytes or more: it sends"
    " each one synchronously, which costs small ones a round trip",
    "coll/adapt's pipeline only where the longest message has at least"
    f" {PIECES_PER_NODE} segments, or segments of segments, per node",
    "of coll/adapt's trees that are the same on so many nodes, only the first",
    f"coll/adapt's own segments only where a segment has {INNER_SEGMENTS_AT_LEAST} of them or more",
    f"only segments of which the longest message has {MOST_SEGMENTS} or less, if any are left",
    "half of the repetitions",
)
"""One sentence on each."""


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


def repetitions(reps: int) -> int:
    """Return how many of `reps` repetitions are taken."""
    return -(-reps // 2)


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
