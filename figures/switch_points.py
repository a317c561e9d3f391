"""What a file loses that switches over message sizes only for a gain beyond the noise.

The recorded tree, with 5 % of noise on what is learned, and Leonardo's runs where the shared data
is found. Each inner node count is left out in turn, and every shape with it is decided twice: as
the selector decides each size, and as the decision table, which goes on with a choice through
near-ties. Both are judged by the predictions at sizes drawn between the measured ones, and by the
recorded times at the measured ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset, read
from colltune.decisions import Interval
from colltune.domain import Configuration, Shape
from colltune.evaluation.folds import measured_columns
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit
from colltune.selector.argmin import Decisions, ModelSelector
from colltune.selector.decision_table import grid, intervals, largest_msize, switch_points
from figures.figure import Figure

RECORDED = Path(__file__).parents[1] / "notebooks/data/simulated_tree.csv.gz"
SHARED = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[2] / "shared")) / "data"
_NOISE, _DRAWN = 0.05, 200
_TIMES = ("time_s", "time_mean_s", "time_min_s", "time_p90_s", "time_max_s")
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


class Held(NamedTuple):
    """Of one shape and collective: switch points, and gains over the default.

    ``predicted`` and ``recorded`` (n, 2) are logs of them by size: decided exactly, by the table.
    """

    every: int
    kept: int
    predicted: Numbers
    recorded: Numbers


def run() -> Figure:
    """Return the share of the predicted log gain that is lost by not switching in near-ties.

    ``ours`` and ``baseline`` are the switch points that are left and all of them, on the recorded
    tree; ``facts`` the share of the recorded gain, and all of it on the other data.
    """
    tree = read([RECORDED])
    found = list(_left_out(_noisy(tree), tree))
    facts: dict[str, object] = {"recorded": round(_lost([h.recorded for h in found]), 6)}
    leonardo = SHARED / "leonardo_openmpi-4.1.6.csv.gz"
    if leonardo.exists():
        real = read([leonardo])
        there = list(_left_out(real, real))
        facts["leonardo"] = round(_lost([h.predicted for h in there]), 6)
        facts["leonardo_recorded"] = round(_lost([h.recorded for h in there]), 6)
        facts["leonardo_kept_of"] = _counts(there)
    else:
        print(f"{leonardo} is missing; set COLLTUNE_SHARED", file=sys.stderr)
    return Figure(
        "switch_points", _lost([h.predicted for h in found]), "share", *_counts(found), facts
    )


def _counts(found: Sequence[Held]) -> tuple[int, int]:
    return sum(h.kept for h in found), sum(h.every for h in found)


def _lost(gains: Sequence[Numbers]) -> float:
    exact, by_table = np.concatenate(gains).sum(axis=0).tolist()
    return float(1 - by_table / exact)


def _noisy(dataset: PerformanceDataset) -> PerformanceDataset:
    """Return `dataset`, whose times are exact, with noise on them."""
    frame = dataset.frame.copy()
    factors = np.random.default_rng(1).lognormal(0, _NOISE, len(frame))
    for name in _TIMES:
        frame[name] *= factors
    frame["times_s"] = [
        tuple(time_s * factor for time_s in times)
        for times, factor in zip(frame["times_s"], factors.tolist(), strict=True)
    ]
    return replace(dataset, frame=frame)


def _left_out(learned: PerformanceDataset, judged: PerformanceDataset) -> Iterator[Held]:
    for nodes in sorted(judged.frame["nodes"].unique())[1:-1]:
        selector = ModelSelector(fit(learned.where(learned.frame["nodes"] != nodes), jobs=1))
        for collective, cells in cell_matrices(
            judged.where(judged.frame["nodes"] == nodes)
        ).items():
            if collective not in selector.bundle.collectives or cells.default_column is None:
                continue
            known = cells.rows(np.isfinite(cells.time_s[:, cells.default_column]))
            for ppn in np.unique(known.ppn):
                yield _held(selector, known.rows(known.ppn == ppn))


def _held(selector: ModelSelector, tested: CellMatrix) -> Held:
    collective, shape = tested.collective, Shape(int(tested.nodes[0]), int(tested.ppn[0]))

    def decide(sizes: Integers) -> Decisions:
        nodes, ppn = (np.full(len(sizes), n) for n in (shape.nodes, shape.ppn))
        return selector.decide(collective, nodes, ppn, sizes)

    bound, portfolio = largest_msize(selector, collective), selector.portfolio(collective)
    sizes = grid(bound, selector.bundle.model(collective).coverage.sizes)
    (every,) = switch_points(lambda _, sizes: decide(sizes).chosen, 1, sizes)
    table = intervals(selector, collective, shape, describe=False)
    default = portfolio.index(selector.default(collective))
    drawn = np.exp(np.random.default_rng(1).uniform(0, np.log(bound), _DRAWN)).astype(np.int64)
    decided = decide(drawn)
    in_table = np.array([portfolio.index(c) for c in _of_table(table, drawn)])
    rows = np.arange(len(drawn))
    default_s = decided.rank_s[rows, default]
    predicted = [np.log(default_s / decided.rank_s[rows, c]) for c in (decided.chosen, in_table)]
    exact = [s.configuration for s in selector.select_many(tested.instances())]
    recorded = [_log_gains(tested, c) for c in (exact, _of_table(table, tested.msize_bytes))]
    # a table ends with what lies beyond the data
    beyond = every[-1][1] != default
    return Held(
        len(every) - 1 + beyond, len(table) - 1, np.stack(predicted, 1), np.stack(recorded, 1)
    )


def _of_table(table: Sequence[Interval], sizes: Integers) -> list[Configuration]:
    at = np.searchsorted([interval.first_bytes for interval in table], sizes, "right") - 1
    return [table[k].configuration for k in at.tolist()]


def _log_gains(tested: CellMatrix, chosen: Sequence[Configuration]) -> Numbers:
    columns = measured_columns(tested, chosen)
    chosen_s = tested.time_s[np.arange(len(tested)), columns]
    return np.asarray(np.log(tested.time_s[:, tested.default_column] / chosen_s))
