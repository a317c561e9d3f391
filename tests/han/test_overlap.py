"""How far tasks overlap, told by the series that `colltune han measure` took."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.han.measuring import overlaps
from colltune.han.tasks_file import Manner, TaskTimes, TimedSeries
from tests.han.samples import CONTEXT, SHAPE
from tests.refusals import refused

BCAST = Configuration.parse("openmpi.bcast.han_intra:low=sm,segsize=4096,up=libnbc")
ALLREDUCE = Configuration.parse("openmpi.allreduce.han_intra:low=sm,segsize=4096,up=libnbc")
# ib 2 and 1 ms, sbib 5 and 5 ms and then 2.5 and 3 ms, sb .5 ms
_BCAST_MS = ((2, 5, 2.5, 2.5, 2.5, 0.5), (1, 5, 3, 3, 3, 0.5))
# sr, irsr, ibirsr, sbibirsr twice, sbibir, sbib, sb
_ALLREDUCE_MS = ((0.5, 4, 4, 6, 6, 6, 3, 0.5),) * 2


def _measured(setup: Configuration, leaders_ms: tuple[tuple[float, ...], ...]) -> TimedSeries:
    segments = len(leaders_ms[0]) - (1 if setup.collective is Collective.BCAST else 3)
    once = np.array(leaders_ms) / 1e3
    # a repetition that was disturbed; medians do not care
    times = tuple(tuple(map(tuple, once * factor)) for factor in (1, 1, 9))
    return TimedSeries(SHAPE, setup, segments, Manner.STEADY, times, 0.1)


TASKS = TaskTimes(CONTEXT, (_measured(BCAST, _BCAST_MS), _measured(ALLREDUCE, _ALLREDUCE_MS)))


def test_a_broadcast_tells_ib_and_sb_and_both() -> None:
    """On the slowest leader a steady sbib takes 3 ms, where ib takes 2 ms and sb half of one."""
    (one,) = (o for o in overlaps(TASKS, SHAPE) if o.setup == BCAST)
    assert one.tasks == ("ib", "sb", "sbib")
    assert one.times_s == pytest.approx((0.002, 0.0005, 0.003))
    assert one.over_longer == pytest.approx(3 / 2)
    assert one.over_sum == pytest.approx(3 / 2.5)


def test_an_allreduce_is_compared_with_the_broadcast_of_the_same_setup() -> None:
    """Its ibirsr takes 4 ms, as long as irsr alone: ib of the broadcast's 2 ms is hidden."""
    (one,) = (o for o in overlaps(TASKS, SHAPE) if o.setup == ALLREDUCE)
    assert one.tasks == ("ib", "irsr", "ibirsr")
    assert one.over_longer == pytest.approx(1)
    assert one.over_sum == pytest.approx(4 / 6)
    alone = TaskTimes(CONTEXT, TASKS.series[1:])
    with refused("no-long-series", DataError):
        overlaps(alone, SHAPE)


def test_a_segment_size_without_series_names_the_others() -> None:
    """Also where the shape has none at all."""
    with refused("no-long-series", DataError, known="4096"):
        overlaps(TASKS, SHAPE, 65536)
    with refused("no-long-series", DataError, known="none"):
        overlaps(TASKS, Shape(3, 2))
