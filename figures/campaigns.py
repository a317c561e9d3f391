"""Campaigns by replay of a recorded dataset: what decisions are worth after each part of a cost.

A campaign sees the training nodes' cells only, and pays what a real one would: the repetitions' own
time, and ``launch_s`` a launch. What it measured is given to the product's own learner and
selector, and the chosen configurations' recorded times on the test nodes are compared with the
default's and the best's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from colltune.bench.backends.protocol import Backend, LaunchPlan
from colltune.bench.backends.replay import ReplayBackend, ReplayNoise
from colltune.bench.progress import MeasuredCells
from colltune.bench.schedule import Cell
from colltune.bench.strategies import STRATEGIES
from colltune.bench.strategies.protocol import Strategy, Visited
from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Measurement, Shape
from colltune.errors import DataError
from colltune.evaluation import folds
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit_cells
from colltune.selector.argmin import ModelSelector

_MOST_LAUNCHES = 10_000
LAUNCH_S = 2.0
_BUDGETED = ("full_grid",)
_BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
Gains = Mapping[Collective, float]


class Reached(NamedTuple):
    """Everything measured up to the end of a launch, and the seconds spent until then."""

    cost_s: float
    measurements: tuple[Measurement, ...]


def simulate(  # noqa: PLR0913
    strategy: Strategy,
    backend: Backend,
    cells: Sequence[Cell],
    total_s: float,
    *,
    launch_s: float = 2.0,
    granted: Shape | None = None,
    max_reps: int = 500,
    cell_s: float = 0.5,
    seed: int = 0,
) -> Iterator[Reached]:
    """Yield what is known after every launch, until the strategy or the time ends."""
    known = MeasuredCells(tuple(cells), granted, [])
    measurements: list[Measurement] = []
    rng = random.Random(seed)  # noqa: S311
    cost_s = 0.0
    while len(known.history) < _MOST_LAUNCHES:
        state = known.state(total_s - cost_s, launch_s, max_reps, cell_s)
        visit = strategy(state, rng)
        if visit is None:
            return
        plan = LaunchPlan(visit.shape, known.cells, visit.steps, visit.budget_s)
        launch = f"launch-{len(known.history)}"
        result = backend.run(plan, launch, Path(), lambda _spent_s: None)
        cost_s += result.wall_s
        known.history.append(Visited(visit.what, visit.shape, result.wall_s))
        known.learn(result.measurements)
        measurements += result.measurements
        yield Reached(cost_s, tuple(measurements))


@dataclass(frozen=True, eq=False)
class Trial:
    """Training and test part of one context's measurements; ``learner`` is what decides."""

    train: PerformanceDataset
    tested: Mapping[Collective, CellMatrix]
    learner: str

    @classmethod
    def of(
        cls,
        dataset: PerformanceDataset,
        train_nodes: Sequence[int],
        test_nodes: Sequence[int],
        *,
        learner: str,
        max_nprocs: int | None = None,
    ) -> Trial:
        """Split `dataset` by node counts, leaving out instances of more than `max_nprocs`."""
        frame = dataset.frame
        small = frame["nodes"] * frame["ppn"] <= (max_nprocs or np.inf)
        train = dataset.where(small & frame["nodes"].isin(list(train_nodes)))
        test = dataset.where(small & frame["nodes"].isin(list(test_nodes)))
        learned = {c.value for c in train.collectives}
        tested = {}
        for collective, cells in cell_matrices(test).items():
            column = cells.default_column
            if column is not None and collective.value in learned:
                tested[collective] = cells.rows(np.isfinite(cells.time_s[:, column]))
        tested = {c: m for c, m in tested.items() if len(m)}
        if not tested:
            raise DataError(
                "the schedule cannot be judged: after training on nodes "
                f"{', '.join(map(str, train_nodes))}, no collective has a measured default on "
                f"nodes {', '.join(map(str, test_nodes))}"
            )
        return cls(train, tested, learner)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The training cells, in the order of the record."""
        found = (Cell(m.configuration, m.instance) for m in self.train.measurements())
        return tuple(dict.fromkeys(found))

    @cached_property
    def granted(self) -> Shape:
        shapes = self.train.shapes()
        return Shape(max(s.nodes for s in shapes), max(s.ppn for s in shapes))

    @cached_property
    def exhaustive_s(self) -> float:
        """Seconds of all training cells, 500 repetitions or half a second each; no launches."""
        return folds.exhaustive_s(self.train.cells()["time_s"].to_numpy(np.float64))

    @cached_property
    def full(self) -> dict[Collective, float]:
        """Log gain of the full training grid."""
        return self._gained(cell_matrices(self.train))

    @cached_property
    def possible(self) -> dict[Collective, float]:
        """Log gain of the best decisions."""
        return {
            c: float(np.log(_default_s(m) / np.nanmin(m.time_s, axis=1)).sum())
            for c, m in self.tested.items()
        }

    @cached_property
    def instances(self) -> dict[Collective, int]:
        return {collective: len(cells) for collective, cells in self.tested.items()}

    def gained(self, measurements: Sequence[Measurement]) -> dict[Collective, float]:
        """Return the log of t_default / t_selected, summed over the test instances."""
        if not measurements:
            return self._gained({})
        return self._gained(cell_matrices(PerformanceDataset.of(self.train.context, measurements)))

    def _gained(self, matrices: Mapping[Collective, CellMatrix]) -> dict[Collective, float]:
        return {
            c: self._gained_on(matrices[c], tested) if c in matrices else 0.0
            for c, tested in self.tested.items()
        }

    def _gained_on(self, cells: CellMatrix, tested: CellMatrix) -> float:
        try:
            context = self.train.context
            bundle = fit_cells(context, {cells.collective: cells}, self.learner, jobs=1)
        except DataError:
            return 0.0
        selections = ModelSelector(bundle).select_many(tested.instances())
        columns = folds.measured_columns(tested, [s.configuration for s in selections])
        selected_s = tested.time_s[np.arange(len(tested)), columns]
        return float(np.log(_default_s(tested) / selected_s).sum())


def _default_s(cells: CellMatrix) -> np.typing.NDArray[np.float64]:
    return np.asarray(cells.time_s[:, cells.default_column])


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
        backend = ReplayBackend(trial.train, LAUNCH_S, ReplayNoise(noise, seed=seed))
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
