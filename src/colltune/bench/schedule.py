"""In which order cells are measured, for how long, and what they are predicted to take.

A campaign first surveys every cell briefly, then spends the rest of its time where the decision is
made: on the default and on the configurations near the best. Cells are interleaved in random order
over several rounds, so that drift of the machine hits all alike (Hunold and Carpen-Amarie, 2016).
Within a round the cells of one shape stand together: the processes that a smaller shape does not
need sleep meanwhile, and waking them takes time.
"""

from __future__ import annotations

import math
import random
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from colltune.domain import Collective, Configuration, Instance, Shape

ENOUGH_REPS = 6
"""The fewest repetitions whose extremes bound their median with 95 % confidence."""
SURVEY_SHARE = 0.35
SURVEY_REPS = 20
_SURVEY_ROUNDS = 2
_REFINE_ROUNDS = 3
_SPARE_ROUNDS = 9
_LEAST_STEP_S = 0.0005
_KNOWN_WELL, _MEDIAN_ERROR, _QUARTILES_SD = 0.01, 1.2533, 0.7413
_SHARED_EQUALLY = 0.25
_LEAST_ENOUGH_S, _ENOUGH_S = 0.002, 0.01
_NEAR_BEST = 1.3
_MOST_NEAR = 6
_CALLS_BEFORE_A_TIME = 2
_LATENCY_S = 2e-6
_SECONDS_PER_BYTE = 1e-10
_ALL_TO_ALL = frozenset({Collective.ALLTOALL, Collective.ALLTOALLV})


class Cell(NamedTuple):
    """One configuration on one instance."""

    configuration: Configuration
    instance: Instance


def grouped(cells: Iterable[Cell], by: Callable[[Cell], Hashable]) -> tuple[tuple[Cell, ...], ...]:
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(by(cell), []).append(cell)
    return tuple(map(tuple, groups.values()))


class ScheduleStep(NamedTuple):
    """A visit to a cell (by index): up to `max_reps` repetitions or `max_seconds` of them."""

    cell: int
    max_reps: int
    max_seconds: float


def survey(
    cells: Sequence[Cell],
    indices: Sequence[int],
    budget_s: float,
    cell_s: float,
    rng: random.Random,
    weight: Callable[[int], float] = lambda _cell: 1.0,
) -> tuple[ScheduleStep, ...]:
    """Visit the cells `indices` a few times, briefly enough that all get a turn in `budget_s`."""
    fair_s = min(cell_s, _fair_share_s(budget_s, len(indices)))
    return rounds(cells, indices, _SURVEY_ROUNDS, (SURVEY_REPS, fair_s), rng, weight)


def survey_once(
    cells: Sequence[Cell],
    indices: Sequence[int],
    launches: tuple[int, float],
    budget_s: float,
    limits: tuple[int, float],
    rng: random.Random,
    weight: Callable[[int], float] = lambda _cell: 1.0,
) -> tuple[ScheduleStep, ...]:
    """Visit the cells `indices` as if there were no other launch for them, each long enough.

    They take so many `launches` of so many seconds each, and `budget_s` beside those; `limits` are
    the repetitions and seconds of a visit at most. Of what does not fit into one launch some
    configurations are taken; where there are several, whoever makes them takes some.
    """
    (n_launches, launch_s), (max_reps, cell_s) = launches, limits
    share_s = launch_s * n_launches / (max(1, len(indices)) * _SURVEY_ROUNDS)
    least_s = min(cell_s, _ENOUGH_S, max(_LEAST_ENOUGH_S, share_s))
    if n_launches == 1:
        indices = _fitting(cells, indices, int(budget_s / (least_s * _SURVEY_ROUNDS)))
    fair_s = max(least_s, _fair_share_s(budget_s, len(indices)))
    return rounds(cells, indices, _SURVEY_ROUNDS, (max_reps, min(cell_s, fair_s)), rng, weight)


def _fitting(cells: Sequence[Cell], indices: Sequence[int], most: int) -> Sequence[int]:
    """Return at most so many of `indices`, but one configuration: whole ones, of all algorithms."""
    members: dict[Configuration, list[int]] = {}
    for index in indices:
        members.setdefault(cells[index].configuration, []).append(index)
    groups = list(members.values())
    order = by_algorithm([cells[group[0]] for group in groups])
    sizes = accumulate(len(groups[number]) for number in order)
    fitting = max(1, sum(size <= most for size in sizes))
    return sorted(index for number in order[:fitting] for index in groups[number])


def by_algorithm(cells: Sequence[Cell]) -> list[int]:
    """Return the order of `cells`, by index, in which the most important ones come first.

    The default, with which all others are compared, comes first, then each algorithm once, then
    each with other parameters.
    """
    seen: Counter[tuple[Collective, str]] = Counter()
    keys: list[tuple[bool, int]] = []
    for cell in cells:
        algorithm = cell.instance.collective, cell.configuration.algorithm
        keys.append((not cell.configuration.is_default, seen[algorithm]))
        seen[algorithm] += 1
    return sorted(range(len(cells)), key=keys.__getitem__)


def refine(
    cells: Sequence[Cell],
    times_s: Mapping[int, float],
    budget_s: float,
    max_reps: int,
    rng: random.Random,
    weight: Callable[[int], float] = lambda _cell: 1.0,
    seen_s: Mapping[int, Sequence[float]] = MappingProxyType({}),
) -> tuple[ScheduleStep, ...]:
    """Spend `budget_s` on the default and on what is within 1.3x of the best of each instance.

    `seen_s` are the repetitions so far of cells whose medians are `times_s`: those that scatter
    get more of the time.
    """
    by_instance: dict[Instance, list[int]] = {}
    for index in sorted(times_s):
        by_instance.setdefault(cells[index].instance, []).append(index)
    chosen: list[int] = []
    for indices in by_instance.values():
        ranked = sorted(indices, key=lambda i: times_s[i])
        best_s = times_s[ranked[0]]
        near = [i for i in ranked if times_s[i] <= _NEAR_BEST * best_s][:_MOST_NEAR]
        default = [i for i in ranked if cells[i].configuration.is_default and i not in near]
        chosen += near + default
    needed_s = [_needed_reps(seen_s.get(i, ())) * times_s[i] for i in chosen]
    shared_s = _shares_s(budget_s / _REFINE_ROUNDS, needed_s, list(map(weight, chosen)))
    visit_s = dict(zip(chosen, shared_s, strict=True))
    return tuple(
        ScheduleStep(index, max_reps, max(_LEAST_STEP_S, visit_s[index]))
        for _ in range(_REFINE_ROUNDS + _SPARE_ROUNDS)
        for index in shuffled(cells, chosen, rng, weight)
    )


def _needed_reps(seen_s: Sequence[float]) -> float:
    """Return after how many repetitions the median is known well, infinity where it is open."""
    if len(seen_s) < ENOUGH_REPS:
        return math.inf
    ordered = sorted(seen_s)
    low, middle, high = (ordered[len(ordered) * part // 4] for part in (1, 2, 3))
    error_of_one = _MEDIAN_ERROR * _QUARTILES_SD * (high - low) / middle
    return max(float(ENOUGH_REPS), (error_of_one / _KNOWN_WELL) ** 2)


def _shares_s(total_s: float, needed_s: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Share out `total_s`: a part of it by weights alone, and the rest up to what each needs.

    What nobody needs goes to all, by what they need.
    """
    mean = math.fsum(weights) / max(1, len(weights))
    fair_s = [total_s / len(weights) * weight / mean for weight in weights]
    left, level = (1 - _SHARED_EQUALLY) * total_s, 0.0
    order = sorted(range(len(weights)), key=lambda at: needed_s[at] / fair_s[at])
    filled_s = [0.0] * len(weights)
    open_s = math.fsum(fair_s)
    for at in order:
        level = left / open_s if open_s > 0 else 0.0
        filled_s[at] = min(needed_s[at], level * fair_s[at])
        left, open_s = left - filled_s[at], open_s - fair_s[at]
    more = max(0.0, left) / (math.fsum(filled_s) or 1.0)
    return [
        _SHARED_EQUALLY * fair + filled * (1 + more)
        for fair, filled in zip(fair_s, filled_s, strict=True)
    ]


def _fair_share_s(budget_s: float, n_cells: int) -> float:
    return max(_LEAST_STEP_S, budget_s / (max(1, n_cells) * _SURVEY_ROUNDS))


def rounds(
    cells: Sequence[Cell],
    indices: Sequence[int],
    n_rounds: int,
    limits: tuple[int, float],
    rng: random.Random,
    weight: Callable[[int], float] = lambda _cell: 1.0,
) -> tuple[ScheduleStep, ...]:
    """Visit the cells `indices` once per round, each time in a new random order."""
    return tuple(
        ScheduleStep(index, *limits)
        for _ in range(n_rounds)
        for index in shuffled(cells, indices, rng, weight)
    )


def shuffled(
    cells: Sequence[Cell],
    indices: Sequence[int],
    rng: random.Random,
    weight: Callable[[int], float] = lambda _cell: 1.0,
) -> list[int]:
    """Return the cells `indices` in random order; those of more `weight` than 1 come first."""
    by_shape: dict[tuple[bool, Shape], list[int]] = {}
    for index in indices:
        at = weight(index) <= 1, cells[index].instance.shape
        by_shape.setdefault(at, []).append(index)
    groups = sorted(by_shape)
    rng.shuffle(groups)
    order: list[int] = []
    for group in sorted(groups, key=lambda at: at[0]):
        rng.shuffle(by_shape[group])
        order += by_shape[group]
    return order


def octaves_apart(one: Shape, other: Shape) -> float:
    return abs(math.log2(one.nodes / other.nodes)) + abs(math.log2(one.ppn / other.ppn))


def guessed_s(instance: Instance) -> float:
    """Return a rough runtime in seconds of a good algorithm where nothing was measured.

    Latency and bandwidth of a common cluster (Hockney's model), logarithmic trees, and the bytes
    that leave each process; it is a guess to plan with, not a prediction to decide with.
    """
    nprocs = instance.shape.nprocs
    blocks = nprocs if instance.collective.has_block_per_rank else 1
    processes = max(2, nprocs)
    rounds = processes - 1 if instance.collective in _ALL_TO_ALL else math.log2(processes)
    sharing = instance.shape.ppn if instance.shape.nodes > 1 else 1
    return _LATENCY_S * rounds + _SECONDS_PER_BYTE * instance.msize_bytes * blocks * sharing


class NearestForecast:
    """Predicts runtimes from the nearest measured cell of the same configuration."""

    def __init__(self, times_s: Mapping[Cell, float] | None = None) -> None:
        self._times_s: dict[Configuration, dict[Instance, float]] = {}
        self._points: dict[Configuration, array[float]] = {}
        self._slowest: dict[Configuration, float] = {}
        for cell, time_s in (times_s or {}).items():
            self.learn(cell, time_s)

    def learn(self, cell: Cell, time_s: float) -> None:
        """Take in that `cell` takes `time_s` seconds."""
        known = self._times_s.setdefault(cell.configuration, {})
        if cell.instance not in known:
            self._points.setdefault(cell.configuration, array("d")).extend(_point(cell.instance))
        known[cell.instance] = time_s
        factor = time_s / guessed_s(cell.instance)
        self._slowest[cell.configuration] = max(factor, self._slowest.get(cell.configuration, 0.0))

    def most_s(self, cell: Cell) -> float:
        """Return what `time_s` does not exceed; 0 if the configuration was never measured."""
        return self._slowest.get(cell.configuration, 0.0) * guessed_s(cell.instance)

    def time_s(self, cell: Cell) -> float | None:
        """Return the predicted runtime in seconds; None if the configuration was never measured."""
        known = self._times_s.get(cell.configuration)
        if known is None:
            return None
        points = np.frombuffer(self._points[cell.configuration]).reshape(len(known), -1)
        distances = np.abs(points - _point(cell.instance)).sum(axis=1)
        nearest = list(known)[distances.argmin()]
        return known[nearest] * guessed_s(cell.instance) / guessed_s(nearest)


def too_slow(
    cells: Sequence[Cell],
    steps: Sequence[ScheduleStep],
    forecast: NearestForecast,
    available_s: float,
) -> frozenset[int]:
    """Return the cells, by index, to be left out so that the first visits of all others fit."""
    first = dict.fromkeys(step.cell for step in steps)
    if _CALLS_BEFORE_A_TIME * math.fsum(forecast.most_s(cells[i]) for i in first) <= available_s:
        return frozenset()
    predicted = {i: forecast.time_s(cells[i]) for i in first}
    known = {index: time_s for index, time_s in predicted.items() if time_s is not None}
    best: dict[Instance, float] = {}
    for index, time_s in known.items():
        instance = cells[index].instance
        best[instance] = min(time_s, best.get(instance, math.inf))
    needed_s = _CALLS_BEFORE_A_TIME * math.fsum(known.values())
    ranked = sorted(known, key=lambda i: known[i] / best[cells[i].instance], reverse=True)
    dropped = []
    for index in ranked:
        if needed_s <= available_s:
            break
        if not cells[index].configuration.is_default:
            dropped.append(index)
            needed_s -= _CALLS_BEFORE_A_TIME * known[index]
    return frozenset(dropped)


def _point(instance: Instance) -> tuple[float, float, float]:
    shape = instance.shape
    return (
        math.log2(max(1, instance.msize_bytes)),
        math.log2(shape.nodes),
        math.log2(shape.ppn),
    )
