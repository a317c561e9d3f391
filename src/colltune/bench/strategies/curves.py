"""Regret over cost of the schedule strategies, by replay of a recorded dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from colltune.bench.backends.replay import Noise, ReplayBackend
from colltune.bench.strategies import STRATEGIES
from colltune.bench.strategies.trial import Trial, simulate
from colltune.dataset import PerformanceDataset
from colltune.domain import Collective
from colltune.errors import DataError

LEARNER = "knn"
LAUNCH_S = 2.0
_BUDGETED = ("full_grid",)
_BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
Gains = Mapping[Collective, float]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """After spending ``cost``, a share of the exhaustive campaign's seconds, ``gained`` is reached.

    ``gained`` is the sum of log(t_default / t_selected) over the test instances.
    """

    cost: float
    gained: Gains


@dataclass(frozen=True)
class Reference:
    """Sums to compare gains with: the full training grid's, the oracle's; and the instances.

    ``instances`` are how many instances of each collective are judged.
    """

    full: Gains
    possible: Gains
    instances: Mapping[Collective, int]


@dataclass(frozen=True)
class Curve:
    """One strategy's way, with one seed; points by ascending cost.

    ``seed`` is that of the random choices of ``strategy``, a key of ``STRATEGIES``; ``points`` are
    one for each cost that was reached.
    """

    strategy: str
    seed: int
    points: tuple[Point, ...]
    reference: Reference

    def captured(self, point: Point) -> dict[Collective, float]:
        """Return the share of the full training grid's gain, where that gained anything."""
        full = self.reference.full
        return {c: point.gained[c] / full[c] for c in full if full[c] > 0}

    def worst(self, point: Point) -> float:
        """Return the worst collective's share of the full training grid's gain."""
        return min(self.captured(point).values(), default=math.nan)

    def together(self, point: Point) -> float:
        """Return the share of the full training grid's gain over all collectives together.

        NaN where the full grid gains nothing.
        """
        full = sum(self.reference.full.values())
        return sum(point.gained.values()) / full if full > 0 else math.nan

    def cost_at(self, share: float, by: Callable[[Point], float] | None = None) -> float:
        """Return the least cost from which on `by`, normally `worst`, stays at `share` or above.

        Infinite if the curve ends below it.
        """
        judged = by or self.worst
        cost = math.inf
        for point in reversed(self.points):
            if not judged(point) >= share:
                break
            cost = point.cost
        return cost


def alternate_nodes(dataset: PerformanceDataset) -> tuple[list[int], list[int]]:
    """Return training and test nodes: every second node count between the extremes is tested on.

    Raises
    ------
    DataError
        If fewer than 3 node counts were measured.
    """
    nodes = sorted({shape.nodes for shape in dataset.shapes()})
    if len(nodes) < 3:
        raise DataError(
            "comparing strategies needs at least 3 node counts, one of them to hold out, but "
            f"the data have {', '.join(map(str, nodes)) or 'none'}"
        )
    test = nodes[1:-1:2]
    return [n for n in nodes if n not in test], test


def curves(  # noqa: PLR0913
    dataset: PerformanceDataset,
    *,
    strategies: Sequence[str] = tuple(STRATEGIES),
    seeds: Sequence[int] = (0, 1, 2),
    shared_launches: bool = True,
    learner: str = LEARNER,
    noise: float = 0.2,
    most: float = 1.0,
    progress: Progress = lambda _what: None,
) -> list[Curve]:
    """Return a curve per strategy and seed, on node counts held out of `dataset`.

    Parameters
    ----------
    dataset
        What was recorded; see `alternate_nodes` for its split.
    strategies
        Names of `STRATEGIES`.
    seeds
        One simulated campaign for each; repetitions scatter differently.
    shared_launches
        Whether one launch holds all smaller shapes, too; else each shape needs a launch of its own.
    learner, noise
        See `Trial`, and ``repetition`` of `Noise`.
    most
        Up to which cost the strategies are followed, as a share of the exhaustive campaign's.
    progress
        Called with what is computed next.

    Raises
    ------
    DataError
        If the dataset has too few node counts, or none on which to judge.
    """
    trial = Trial.of(dataset, *alternate_nodes(dataset), learner=learner)
    how: dict[str, Any] = {"shared_launches": shared_launches, "noise": noise, "most": most}
    found = []
    for strategy, seed in product(strategies, seeds):
        progress(f"{strategy}, seed {seed}")
        found.append(curve([trial], strategy, seed, **how))
    return found


def curve(
    trials: Sequence[Trial],
    strategy: str,
    seed: int,
    *,
    shared_launches: bool,
    noise: float = 0.2,
    most: float = 1.0,
) -> Curve:
    """Return the curve of `strategy` over all `trials` together, up to the cost `most`.

    Costs are shares of `exhaustive_s` of each trial with the same launches. A strategy that shares
    out its whole budget in advance is run with several; of the others the way is followed.

    `seed` makes random choices repeatable, `noise` is the scatter of repetitions as a standard
    deviation of logarithms, and with `shared_launches` a launch holds smaller shapes, too.
    """
    gains = [_way(trial, strategy, seed, shared_launches, noise, most) for trial in trials]
    costs = sorted({point.cost for way in gains for point in way})
    points = []
    for cost in costs:
        reached = [_reached(t, way, cost) for t, way in zip(trials, gains, strict=True)]
        points.append(Point(cost, _summed(reached)))
    reference = Reference(
        _summed([trial.full for trial in trials]),
        _summed([trial.possible for trial in trials]),
        {c: int(n) for c, n in _summed([trial.instances for trial in trials]).items()},
    )
    return Curve(strategy, seed, tuple(points), reference)


def exhaustive_s(trial: Trial, *, shared_launches: bool) -> float:
    """Return the seconds of the exhaustive campaign: one launch in all, or one per shape.

    With `shared_launches` one launch holds all shapes of `trial`.
    """
    launches = 1 if shared_launches else len(trial.train.shapes())
    return trial.exhaustive_s + LAUNCH_S * launches


def _way(
    trial: Trial, strategy: str, seed: int, shared_launches: bool, noise: float, most: float
) -> list[Point]:
    whole_s = exhaustive_s(trial, shared_launches=shared_launches)
    budgeted = strategy in _BUDGETED
    points = []
    for budget in [b for b in _BUDGETS if b <= most] if budgeted else [most]:
        backend = ReplayBackend(trial.train, LAUNCH_S, Noise(noise, seed=seed))
        granted = trial.granted if shared_launches else None
        way = simulate(
            STRATEGIES[strategy],
            backend,
            trial.cells,
            budget * whole_s,
            launch_s=LAUNCH_S,
            granted=granted,
            seed=seed,
        )
        followed = list(way)[-1 if budgeted else 0 :]
        points += [Point(r.cost_s / whole_s, trial.gained(r.measurements)) for r in followed]
    return sorted(points, key=lambda point: point.cost)


def _reached(trial: Trial, way: Sequence[Point], cost: float) -> Gains:
    """Return the gains of the last point not beyond `cost`; before the first nothing is gained."""
    before = [point.gained for point in way if point.cost <= cost]
    return before[-1] if before else dict.fromkeys(trial.tested, 0.0)


def _summed(gains: Iterable[Mapping[Collective, float]]) -> dict[Collective, float]:
    total: dict[Collective, float] = {}
    for collective, gain in (item for gained in gains for item in gained.items()):
        total[collective] = total.get(collective, 0.0) + gain
    return total
