"""HAN's composition of task times."""

from __future__ import annotations

import math

import pytest

from colltune.errors import DataError
from colltune.models.costs.han import AllreduceTasks, BcastTasks
from tests.refusals import refused

BCAST = BcastTasks([1.0, 4.0], [2.0, 1.0], [0.5, 0.25])
ALLREDUCE = AllreduceTasks([1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0])


def test_totals_of_a_pipeline() -> None:
    """Eq. 3 and 4 by hand; eq. 4 needs three segments or more, which is said.

    The broadcast's second leader is slowest while the pipeline is short, then the first.
    """
    for segments, total_s in ((1, 4.25), (2, 5.25), (4, 7.5), (11, 21.5)):
        assert BCAST.total_s(segments) == total_s, segments
    for segments, total_s in ((3, 24.0), (4, 28.0), (103, 424.0)):
        assert ALLREDUCE.total_s(segments) == total_s, segments
    for segments in (0, 1, 2, -3):
        with refused("too-few-segments", DataError, least=3):
            ALLREDUCE.total_s(segments)


def test_huge_message() -> None:
    """2^40 segments are a number like any other."""
    tasks = BcastTasks([1e-6], [1e-6], [1e-6])
    assert tasks.total_s(2**40) == pytest.approx((2**40 + 1) * 1e-6)


def test_wrong_times() -> None:
    """Times that are missing, or not positive are refused by name."""
    with refused("time-per-leader", DataError, name="ib_s"):
        BcastTasks([], [], [])
    with refused("time-per-leader", DataError, name="sb_s"):
        BcastTasks([1.0], [1.0], [0.0])
    with refused("time-per-leader", DataError, name="sbib_s"):
        BcastTasks([1.0], [math.nan], [1.0])
