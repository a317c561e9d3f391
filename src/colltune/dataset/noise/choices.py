"""Which configuration each statistic of the repetitions would choose, and what that costs later.

A configuration is chosen by some launches and paid for in others, so that a statistic cannot look
good by the luck of the launch that it was computed from. Paid is the mean, which is what a program
that calls the collective often waits for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colltune.dataset.frame import PerformanceDataset
from colltune.dataset.objective import Objective, launch_times
from colltune.domain import DEFAULT_ALGORITHM
from colltune.errors import say
from colltune.evidence.components import clustered
from colltune.text import counted

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
INSTANCE = ["collective", "nodes", "ppn", "msize_bytes"]
_PAID = "paid"


class Statistic(StrEnum):
    """A number that a launch's repetitions of a cell are judged by."""

    MIN = "min"
    MEDIAN = "median"
    TRIMMED_MEAN = "trimmed-mean"
    MEAN = "mean"

    def of(self, frame: pd.DataFrame) -> Numbers:
        """Return the statistic of every row of a dataset's `frame`, in seconds, shape (n).

        Raises
        ------
        DataError
            As `colltune.dataset.objective.launch_times`.
        """
        if self is Statistic.MIN:
            return frame["time_min_s"].to_numpy(np.float64)
        return launch_times(frame, Objective(self.value))


def chosen(dataset: PerformanceDataset) -> pd.DataFrame:
    """Return what each `Statistic` chooses by each launch alone.

    One row per launch and instance on which it timed two configurations or more: the columns of
    `INSTANCE`, ``launch``, and for each statistic the configuration, ``algorithm parameters``.

    Raises
    ------
    DataError
        If there is no such instance, or a statistic is unknown of a measurement.
    """
    timed = _judged(dataset)
    keys = [*INSTANCE, "launch"]
    timed = timed[timed.groupby(keys)["configuration"].transform("size") > 1]
    if timed.empty:
        raise say("nothing-to-choose", context=dataset.context)
    timed = timed.sort_values([*keys, "configuration"], ignore_index=True)
    columns = {
        str(statistic): timed.loc[timed.groupby(keys)[str(statistic)].idxmin()].set_index(keys)[
            "configuration"
        ]
        for statistic in Statistic
    }
    return pd.DataFrame(columns).reset_index()


def disagreement(choices: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the rows of `choices` on which two statistics choose differently.

    Square, by statistic; 0 on the diagonal.
    """
    names = [str(statistic) for statistic in Statistic]
    shares = [[float((choices[a] != choices[b]).mean()) for b in names] for a in names]
    return pd.DataFrame(shares, index=names, columns=names)


@dataclass(frozen=True)
class Payoff:
    """What choosing by ``statistic`` of ``launches`` launches promises, and what it brings.

    All are geometric means of the library's default over the choice, over instances and draws of
    launches: ``promised`` by the statistic in the launches that were chosen by, ``gained`` by the
    mean time in others; ``low`` to ``high`` is the 95 % interval of ``gained``, whose witnesses are
    the shapes of the ``instances``, None for fewer than three of them.
    """

    statistic: Statistic
    launches: int
    promised: float
    gained: float
    low: float | None
    high: float | None
    instances: int


def payoffs(
    dataset: PerformanceDataset,
    launch_counts: Sequence[int],
    statistics: Sequence[Statistic] = tuple(Statistic),
    draws: int = 20,
    seed: int = 0,
) -> list[Payoff]:
    """Return what each statistic brings for each number of launches to choose by.

    Of several launches the median of their statistics counts. Launches are drawn at random, the
    same ones for every statistic, and paid is always in as many as the largest of the numbers
    leaves. A configuration takes part where it was timed in a launch of either kind, an instance
    where the default and another one do. `launch_counts` are the numbers to choose by; there are
    `draws` of launches for each, which `seed` makes repeatable.

    Raises
    ------
    DataError
        If a number of launches is less than 1 or leaves no launch to pay in, there is no such
        instance, or a statistic is unknown of a measurement.
    """
    timed = _judged(dataset)
    tables = {name: _table(timed, name) for name in (*map(str, statistics), _PAID)}
    n_launches = tables[_PAID].shape[2]
    for count in launch_counts:
        if not 1 <= count < n_launches:
            raise say(
                "launches-to-choose", count=count, n_launches=counted(n_launches, "launch", "es")
            )
    default = np.array([name == DEFAULT_ALGORITHM for name in _configurations(timed)])
    rows = timed[INSTANCE].drop_duplicates().sort_values(INSTANCE)
    shapes = rows.groupby(["nodes", "ppn"]).ngroup().to_numpy(np.int64)
    rng = np.random.default_rng(seed)
    picks = [rng.permutation(n_launches) for _ in range(draws)]
    most = max(launch_counts)
    found = []
    for count in launch_counts:
        for statistic in statistics:
            judged, paid = tables[str(statistic)], tables[_PAID]
            draw = [_drawn(judged[:, :, p[:count]], paid[:, :, p[most:]], default) for p in picks]
            found.append(_payoff(statistic, count, np.stack(draw), shapes))
    return found


def _judged(dataset: PerformanceDataset) -> pd.DataFrame:
    """Return the timed rows with a column per statistic, the time paid, and the configuration."""
    timed = dataset.timed()
    values: dict[str, Any] = {str(statistic): statistic.of(timed) for statistic in Statistic}
    values[_PAID] = values[Statistic.MEAN]
    names = (timed["algorithm"] + " " + timed["parameters"]).str.strip()
    return timed[[*INSTANCE, "launch"]].assign(**values, configuration=names)


def _configurations(timed: pd.DataFrame) -> list[str]:
    return sorted(timed["configuration"].unique())


def _table(timed: pd.DataFrame, name: str) -> Numbers:
    """Return the column `name` as seconds by (instance, configuration, launch), NaN: not timed."""
    rows, instances = pd.factorize(pd.MultiIndex.from_frame(timed[INSTANCE]), sort=True)
    columns, configurations = pd.factorize(timed["configuration"], sort=True)
    layers, launches = pd.factorize(timed["launch"], sort=True)
    table = np.full((len(instances), len(configurations), len(launches)), np.nan)
    table[rows, columns, layers] = timed[name].to_numpy(np.float64)
    return table


def _drawn(judged: Numbers, paid: Numbers, default: Flags) -> Numbers:
    """Return the logs of the promised and of the gained speed-up, shape (2, n), NaN: no choice.

    `judged` and `paid` are seconds by (n, C, launch), `default` (C) tells the library's own choice.
    """
    known: Flags = np.asarray(np.isfinite(judged).any(axis=2) & np.isfinite(paid).any(axis=2))
    rows = np.flatnonzero(known[:, default].any(axis=1) & (known.sum(axis=1) > 1))
    result = np.full((2, len(known)), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of what was never timed
        both = np.nanmedian(judged, axis=2), np.nanmean(paid, axis=2)
    for number, times in enumerate(both):
        usable = np.where(known, times, np.inf)[rows]
        if number == 0:
            at = usable.argmin(axis=1)
        reference = usable[:, default].min(axis=1, initial=np.inf)
        result[number, rows] = np.log(reference / usable[np.arange(len(rows)), at])
    return result


def _payoff(statistic: Statistic, count: int, logs: Numbers, shapes: NDArray[Any]) -> Payoff:
    """Put draws (d) of instances (n), logs of the shape (d, 2, n), together; `shapes` has (n)."""
    known = np.isfinite(logs[:, 0])
    seen = known.any(axis=0)
    if not seen.any():
        raise say("no-instance-to-judge", count=counted(count, "launch", "es"))
    counts = known.sum(axis=0)[seen]
    promised, gained = np.nansum(logs, axis=0)[:, seen]
    ends = clustered(gained, counts, shapes[seen])
    low, high = np.exp(ends).tolist() if ends else (None, None)
    means = np.exp([promised.sum(), gained.sum()] / counts.sum())
    return Payoff(statistic, count, float(means[0]), float(means[1]), low, high, len(counts))
