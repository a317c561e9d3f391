"""The table from which noise is computed: what was measured well, with its noise beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from colltune.dataset.frame import CELL_COLUMNS, PerformanceDataset
from colltune.dataset.noise.allocations import Allocations
from colltune.dataset.noise.repetitions import describe, independent_reps, median_variance
from colltune.domain import RunStatus
from colltune.errors import DataError

SIZE_CLASSES: dict[str, int | None] = {
    "up to 2 KiB": 2048,
    "up to 64 KiB": 65536,
    "above 64 KiB": None,
}
_INSTANCE_COLUMNS = ["collective", "nodes", "ppn", "msize_bytes"]


def size_class(msize_bytes: int) -> str:
    """Return the name of the class of message sizes."""
    return next(n for n, last in SIZE_CLASSES.items() if last is None or msize_bytes <= last)


def measured(dataset: PerformanceDataset, allocations: Allocations, seed: int = 0) -> pd.DataFrame:
    """Return the ok rows in random order with what the components are computed from.

    Columns beside the dataset's and those of `repetitions.describe`: ``cell`` and ``instance``
    (numbers), ``allocation``, ``log_time`` and ``variance``, its sampling variance (NaN: unknown).

    `seed` makes the draws repeatable.

    Raises
    ------
    DataError
        If no row is ok.
    """
    frame = dataset.frame
    frame = frame[(frame["status"] == RunStatus.OK) & (frame["time_s"] > 0)]
    if frame.empty:
        raise DataError(f"no measurement of {dataset.context} is ok; there is no noise to report")
    table = frame.join(describe(frame)).sample(frac=1, random_state=seed)
    table["allocation"] = table["launch"].map(allocations.by_launch)
    table["cell"] = table.groupby(CELL_COLUMNS, sort=False).ngroup()
    table["instance"] = table.groupby(_INSTANCE_COLUMNS, sort=False).ngroup()
    table["log_time"] = np.log(table["time_s"])
    table["variance"] = _sampling_variance(table)
    return table


def _sampling_variance(table: pd.DataFrame) -> pd.Series[float]:
    """Return the variance of each launch's median; few repetitions borrow their neighbours' noise.

    A spread that cannot be told is taken from the same instance, else collective, else all.
    """
    spread, autocorrelation = table["spread"], table["autocorrelation"]
    for keys in (_INSTANCE_COLUMNS, ["collective"]):
        groups = table.groupby(keys)
        spread = spread.fillna(groups["spread"].transform("median"))
        autocorrelation = autocorrelation.fillna(groups["autocorrelation"].transform("median"))
    spread = spread.fillna(table["spread"].median())
    autocorrelation = autocorrelation.fillna(table["autocorrelation"].median()).fillna(0.0)
    variances = [
        median_variance(sd, independent_reps(n, correlation))
        for sd, n, correlation in zip(spread, table["n_reps"], autocorrelation, strict=True)
    ]
    return pd.Series(variances, index=table.index, dtype=float)
