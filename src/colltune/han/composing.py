"""Runtimes of collectives composed of the times of their tasks (equations 1 to 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective
from colltune.errors import DataError
from colltune.han.series import Measured, depth
from colltune.models.costs.han import AllreduceTasks, BcastTasks

Numbers = NDArray[np.float64]
_FILLING_SHARE = 3


def runtime_s(series: Measured, segments: int) -> float:
    """Return the runtime of a message of so many segments, in seconds.

    The lower median over repetitions of the slowest leader's total. The tasks in the middle that
    were run count as they were (eq. 1), all further ones as the steady task (eq. 3, eq. 4).
    """
    if not series.covers(segments) or not series.times_s:
        raise DataError(
            f"{series.setup.id} on {series.shape}: tasks of {series.segments} segments do not tell"
            f" the time of {segments}"
        )
    totals = sorted(_of_repetition(series, tasks, segments) for tasks in series.array)
    return totals[(len(totals) - 1) // 2]


def steady_s(series: Measured) -> Numbers:
    """Return the cost of the steady task on each leader: the mean of those behind the first third.

    Shape (leaders). Costs may come in bursts, of which a median would know nothing.
    """
    middle = series.array[:, :, _middle(series)]
    if not middle.shape[2]:
        raise DataError(f"{series.setup.id}: {series.segments} segments have no steady task")
    steady: Numbers = np.median(_behind_the_first(middle).mean(axis=2), axis=0)
    return steady


def _middle(series: Measured) -> slice:
    fill = depth(series.setup.collective)
    return slice(fill, max(fill, series.segments))


def _behind_the_first(middle: Numbers) -> Numbers:
    return middle[..., middle.shape[-1] // _FILLING_SHARE :]


def _of_repetition(series: Measured, tasks: Numbers, segments: int) -> float:
    """Return the total of one repetition, whose `tasks` have the shape (leaders, tasks)."""
    fill = depth(series.setup.collective)
    if segments < fill:
        return float(tasks.sum(axis=1).max())
    repeated = _mean_of(tasks[:, _middle(series)], segments - fill)
    if series.setup.collective is Collective.BCAST:
        return BcastTasks(tasks[:, 0], repeated, tasks[:, -1]).total_s(segments)
    head, tail = tasks[:, :3].T, tasks[:, -3:].T
    whole = AllreduceTasks(head[0], head[1], head[2], repeated, tail[0], tail[1], tail[2])
    return whole.total_s(segments)


def _mean_of(middle: Numbers, n: int) -> Numbers:
    """Return the mean cost of `n` tasks in the middle, per leader; any if there are none."""
    run = middle.shape[1]
    if not n:
        return np.ones(len(middle))
    if n <= run:
        mean: Numbers = middle[:, :n].mean(axis=1)
        return mean
    further = (n - run) * _behind_the_first(middle).mean(axis=1)
    total: Numbers = middle.sum(axis=1) + further
    return total / n
