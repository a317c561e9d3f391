"""Cost at which a campaign of evenly spread cells has 95 % of the exhaustive one's gain."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from colltune.dataset import PerformanceDataset, read
from colltune.domain import Collective
from colltune.evaluation.folds import exhaustive_s as exhaustive_cells_s
from colltune.models.cells import cell_matrices
from colltune.models.learners import AUTO
from figures.campaigns import LAUNCH_S, Curve, Point, Trial, curve, exhaustive_s
from figures.figure import Figure

FOLDER = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[2] / "shared")) / "data"
LEARNER = os.environ.get("COLLTUNE_LEARNER", AUTO)
SEEDS = range(int(os.environ.get("COLLTUNE_SEEDS", "5")))
_SHARE, _MOST, _MOST_ON_LEONARDO, _NEAR = 0.95, 0.12, 0.4, 3.0
_AT_ON_LEONARDO = (0.05, 0.1, 0.2, 0.33)
_TRAIN, _TEST = (4, 8, 16, 24, 32, 36), (7, 13, 19, 27, 35)
_SMALL_TRAIN = (4, 16, 36)
_LEONARDO = [Collective.ALLGATHER.value, Collective.ALLREDUCE.value]


def run() -> Figure:
    """Return the cost of a Latin hypercube at 95 % over that of the exhaustive campaign.

    The value is the median over seeds for the worst collective of the simulated fat tree, with
    sub-shapes measured inside one launch in both campaigns. Decisions are those of the product's
    learner and guard. The other lines, on standard error: all sizes of the fat tree, one launch per
    shape, a smaller split, a full grid of the same data, and Leonardo, where single repetitions
    are so expensive that the line beside it tells the least that any campaign costs.
    """
    fat_tree = read([FOLDER / "simulated_fattree36.csv.gz"])
    small = [Trial.of(fat_tree, _TRAIN, _TEST, learner=LEARNER, max_nprocs=288)]
    value = _report("fat tree, p <= 288", small)
    if "COLLTUNE_VALUE_ONLY" not in os.environ:
        _report_others(fat_tree, small)
    whole_s = exhaustive_s(small[0], shared_launches=True)
    return Figure("campaign_cost_at_95pct", value, "fraction", value * whole_s, whole_s)


def _report_others(fat_tree: PerformanceDataset, small: list[Trial]) -> None:
    _report("fat tree, p <= 288, repetitions scatter by 40 %", small, noise=0.4)
    _report("fat tree, all", [Trial.of(fat_tree, _TRAIN, _TEST, learner=LEARNER)])
    few = Trial.of(fat_tree, _SMALL_TRAIN, _TEST, learner=LEARNER, max_nprocs=288)
    _report("fat tree, p <= 288, trained on 3 node counts", [few])
    _report("fat tree, p <= 288, one launch per shape", small, shared_launches=False)
    _report("fat tree, p <= 288, full grid", small, strategy="full_grid", most=1.0)
    _report_leonardo()


def _report_leonardo() -> None:
    leonardo = read([FOLDER / "leonardo_openmpi-4.1.6.csv.gz"])
    leonardo = leonardo.where(leonardo.frame["collective"].isin(_LEONARDO))
    nodes = sorted({shape.nodes for shape in leonardo.shapes()})
    folds = [
        Trial.of(leonardo, [n for n in nodes if n != out], [out], learner=LEARNER) for out in nodes
    ]
    _report_bounds("Leonardo", folds)
    what = "Leonardo, one node count left out at a time"
    _report(what, folds, most=_MOST_ON_LEONARDO, at=_AT_ON_LEONARDO)


def _report_bounds(what: str, trials: list[Trial]) -> None:
    """Print what one repetition of each cell costs over an exhaustive campaign; no launches."""
    for collective in sorted({c for trial in trials for c in trial.tested}):
        costs = np.zeros(3)
        timed_s = 0.0
        for trial in trials:
            cells = cell_matrices(trial.train)[collective]
            time_s = cells.time_s
            near = time_s <= _NEAR * np.nanmin(time_s, axis=1, keepdims=True)
            assert cells.default_column is not None
            default_s = time_s[:, cells.default_column]
            costs += np.nansum(time_s), np.nansum(time_s[near]), np.nansum(default_s)
            timed_s += exhaustive_cells_s(time_s)
        every, near_best, default = costs / timed_s
        print(
            f"{what}, one repetition of each cell of {collective}: {every:.4f} of the exhaustive"
            f" campaign; of those within {_NEAR:g}x of the best {near_best:.4f}; of the defaults"
            f" {default:.4f}",
            file=sys.stderr,
            flush=True,
        )


def _report(
    what: str,
    trials: list[Trial],
    *,
    strategy: str = "latin_hypercube",
    shared_launches: bool = True,
    noise: float = 0.2,
    most: float = _MOST,
    at: Sequence[float] = (0.05,),
) -> float:
    """Print the costs at 95 % to standard error; return the median for the worst collective."""
    found = [
        curve(trials, strategy, s, shared_launches=shared_launches, noise=noise, most=most)
        for s in SEEDS
    ]
    costs = sorted(c.cost_at(_SHARE) for c in found)
    each = {
        collective.value: _median_cost(found, partial(_captured, collective))
        for collective in found[0].captured(found[0].points[-1])
    }
    each["together"] = _median_cost(found, Curve.together)
    median = statistics.median(costs)
    print(
        f"{what} ({strategy}, {LEARNER}): median {median:.4f}, worst seed {costs[-1]:.4f};"
        f" {_listed(each)}; {_other_launches(trials, shared_launches, median)};"
        f" {'; '.join(f'at {cost:.0%}: {_at(found, cost)}' for cost in at)}",
        file=sys.stderr,
        flush=True,
    )
    return median


def _captured(collective: Collective, curve: Curve, point: Point) -> float:
    return curve.captured(point)[collective]


def _median_cost(found: list[Curve], judged: Callable[[Curve, Point], float]) -> float:
    return statistics.median(c.cost_at(_SHARE, partial(judged, c)) for c in found)


def _listed(costs: dict[str, float]) -> str:
    return ", ".join(f"{name} {cost:.4f}" for name, cost in costs.items())


def _other_launches(trials: list[Trial], shared_launches: bool, cost: float) -> str:
    """Return the same seconds over an exhaustive campaign with more launches."""
    ours = sum(exhaustive_s(trial, shared_launches=shared_launches) for trial in trials)
    timed = sum(trial.exhaustive_s for trial in trials)
    block = ["nodes", "ppn", "collective"]
    blocks = timed + LAUNCH_S * _combinations(trials, block)
    single = timed + LAUNCH_S * _combinations(trials, [*block, "algorithm", "parameters"])
    return (
        f"of one launch per shape and collective {cost * ours / blocks:.4f},"
        f" per configuration and shape {cost * ours / single:.4f}"
    )


def _combinations(trials: list[Trial], columns: list[str]) -> int:
    return sum(len(trial.train.cells()[columns].drop_duplicates()) for trial in trials)


def _at(found: list[Curve], cost: float) -> str:
    """Return the median share of the full grid's gain that is captured at `cost`."""
    captured: dict[str, list[float]] = {}
    for c in found:
        before = [point for point in c.points if point.cost <= cost]
        if before:
            captured.setdefault("together", []).append(c.together(before[-1]))
            for collective, share in c.captured(before[-1]).items():
                captured.setdefault(collective.value, []).append(share)
    return ", ".join(f"{name} {statistics.median(v):.3f}" for name, v in captured.items())
