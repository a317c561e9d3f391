"""HAN's composition of task times."""

from __future__ import annotations

import math

import pytest

from colltune.errors import DataError
from colltune.models.costs import han
from colltune.models.costs.han import AllreduceTasks, BcastTasks, Setup
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


def test_best_segment_size() -> None:
    """Small segments win for small messages, large ones for large; times are the formula's."""
    table = {
        Setup("binary", 1024): BcastTasks([1.0], [1.0], [1.0]),
        Setup("binary", 8192): BcastTasks([4.0], [4.0], [4.0]),
    }
    assert han.best_setup(table, 1024) == (Setup("binary", 1024), 2.0)
    assert han.best_setup(table, 0) == (Setup("binary", 1024), 2.0)
    assert han.best_setup(table, 1025) == (Setup("binary", 1024), 3.0)
    assert han.best_setup(table, 65536) == (Setup("binary", 8192), 36.0)
    assert han.runtimes_s(table, 65536)[Setup("binary", 1024)] == 65.0


def test_setups_without_a_full_pipeline_do_not_count() -> None:
    """An allreduce is estimated from segments that cut the message in three at least."""
    table = {Setup("small", 1024): ALLREDUCE, Setup("large", 4096): ALLREDUCE}
    assert han.best_setup(table, 4096) == (Setup("small", 1024), 28.0)
    with refused("no-task-times-cover", DataError):
        han.best_setup(table, 2048)
    with refused("no-task-times-cover", DataError):
        han.best_setup({}, 2048)


def test_huge_message() -> None:
    """2^40 bytes in segments of 1 byte are a number like any other."""
    table = {Setup("a", 1): BcastTasks([1e-6], [1e-6], [1e-6])}
    assert han.best_setup(table, 2**40).time_s == pytest.approx((2**40 + 1) * 1e-6)


def test_wrong_times() -> None:
    """Times that are missing, or not positive are refused by name."""
    with refused("time-per-leader", DataError, name="ib_s"):
        BcastTasks([], [], [])
    with refused("time-per-leader", DataError, name="sb_s"):
        BcastTasks([1.0], [1.0], [0.0])
    with refused("time-per-leader", DataError, name="sbib_s"):
        BcastTasks([1.0], [math.nan], [1.0])
