"""A Latin-hypercube subset: instances spread evenly over nodes, ppn and message sizes.

McKay, Beckman and Conover, Technometrics 21(2), 1979. Every batch is one Latin hypercube over the
levels of the three axes; the batches follow each other until all instances have had their turn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from colltune.bench import schedule
from colltune.bench.strategies.protocol import CampaignState, Visit
from colltune.domain import Instance

_REPS = 10
_VISIT_S = 0.001
_ORDER_SEED = 0


def latin_hypercube(state: CampaignState, rng: random.Random) -> Visit | None:
    """Visit instances, with all their configurations, in an order that fills the space evenly."""
    if state.left_s <= state.launch_s:
        return None
    fresh = [i for i in state.open if i not in state.times_s]
    pending = {state.cells[i].instance for i in fresh}
    order = [i for i in _order([c.instance for c in state.cells]) if i in pending]
    weights = {c.instance: state.weight(i) for i, c in enumerate(state.cells)}
    order.sort(key=lambda instance: -weights[instance])
    if not order:
        return None
    shape = state.granted or order[0].shape
    if state.granted is None:
        chosen = {instance for instance in order if instance.shape == shape}
    else:
        visited = len({state.cells[i].instance for i in state.times_s})
        chosen = set(order[: max(visited, _batch_size(order))])
    cells = [i for i in fresh if state.cells[i].instance in chosen]
    limits = (min(_REPS, state.max_reps), min(_VISIT_S, state.cell_s))
    steps = schedule.rounds(state.cells, cells, 1, limits, rng, state.weight)
    return Visit("latin hypercube", shape, steps, state.left_s)


def _batch_size(instances: Sequence[Instance]) -> int:
    """Return how many levels the longest axis has, for all collectives together."""
    collectives = {i.collective for i in instances}
    return len(collectives) * max(len({_levels(i)[axis] for i in instances}) for axis in range(3))


def _levels(instance: Instance) -> tuple[int, int, int]:
    return instance.shape.nodes, instance.shape.ppn, instance.msize_bytes


def _order(instances: Sequence[Instance]) -> Iterator[Instance]:
    """Yield the distinct instances, batch by batch; the order depends on them alone."""
    waiting = dict.fromkeys(sorted(set(instances), key=lambda i: (i.collective, *_levels(i))))
    rng = random.Random(_ORDER_SEED)  # noqa: S311
    while waiting:
        for collective in sorted({i.collective for i in waiting}):
            for instance in _hypercube([i for i in waiting if i.collective is collective], rng):
                del waiting[instance]
                yield instance


def _hypercube(instances: Sequence[Instance], rng: random.Random) -> list[Instance]:
    """Return one Latin hypercube of `instances`; where a point is not one, the nearest is taken."""
    axes = [sorted({_levels(i)[axis] for i in instances}) for axis in range(3)]
    n_points = max(len(levels) for levels in axes)
    columns = []
    for levels in axes:
        ranks = [point * len(levels) // n_points for point in range(n_points)]
        rng.shuffle(ranks)
        columns.append(ranks)
    ranked = {
        i: [levels.index(at) for levels, at in zip(axes, _levels(i), strict=True)]
        for i in instances
    }
    chosen: dict[Instance, None] = {}
    for point in zip(*columns, strict=True):
        left = [i for i in instances if i not in chosen]
        nearest = min(left, key=lambda i: _apart(ranked[i], point, axes), default=None)
        if nearest is not None:
            chosen[nearest] = None
    return list(chosen)


def _apart(ranks: Sequence[int], point: Sequence[int], axes: Sequence[Sequence[int]]) -> float:
    return sum(
        abs(rank - wanted) / len(levels)
        for rank, wanted, levels in zip(ranks, point, axes, strict=True)
    )
