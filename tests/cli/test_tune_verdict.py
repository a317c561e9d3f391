"""What stays after it was measured again."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.bench.verify import Alternation
from colltune.cli.tune_verdict import Verdict, grid, judge, without_same
from colltune.decisions import Interval
from colltune.domain import Collective, Configuration, Instance, Shape

BCAST, SHAPE = Collective.BCAST, Shape(1, 4)
CHAIN = Configuration("openmpi", BCAST, "chain")
DEFAULT = Configuration.default("openmpi", BCAST)
SIZES = (4, 64, 1024, 16384)
WHOLE = Interval(0, 1 << 20, CHAIN)


def _alternation(*log_gains: float, pairs: int = 9) -> Alternation:
    return Alternation(
        {
            Instance(BCAST, SHAPE, size): tuple(gain + 0.001 * k for k in range(pairs))
            for size, gain in zip(SIZES, log_gains, strict=True)
        },
        1.0,
        2 * pairs,
    )


def _judged(alternation: Alternation, interval: Interval = WHOLE) -> list[Verdict]:
    return judge(BCAST, interval, grid(BCAST, SHAPE, interval, SIZES), alternation)


def _summary(verdicts: list[Verdict]) -> list[tuple[int, int | None, str, bool]]:
    return [
        (
            v.interval.first_bytes,
            v.interval.last_bytes,
            v.interval.configuration.algorithm,
            v.withdrawn is not None,
        )
        for v in verdicts
    ]


def test_what_is_faster_everywhere_stays_whole() -> None:
    """An interval whose sizes all gained stays as it is."""
    assert _judged(_alternation(0.1, 0.2, 0.1, 0.3)) == [Verdict(BCAST, WHOLE)]


def test_the_neighbourhood_of_a_slower_size_is_given_back() -> None:
    """Only the range around a size that was certainly slower goes back to the library."""
    assert _summary(_judged(_alternation(0.3, 0.3, -0.2, 0.3))) == [
        (0, 255, "chain", False),
        (256, 4095, "default", True),
        (4096, 1 << 20, "chain", False),
    ]


def test_each_run_between_slower_sizes_must_gain() -> None:
    """A run of sizes that is not faster by itself goes back too, though the rest gains."""
    unsure = (-0.05,) * 5 + (0.03,) * 4
    gains = ((0.5,) * 9, (-0.2,) * 9, unsure, unsure)
    instances = [Instance(BCAST, SHAPE, size) for size in SIZES]
    alternation = Alternation(dict(zip(instances, gains, strict=True)), 1.0, 18)
    assert _summary(_judged(alternation)) == [
        (0, 15, "chain", False),
        (16, 1 << 20, "default", True),
    ]


def test_what_does_not_gain_in_all_is_given_back() -> None:
    """Without a gain over the sizes together the whole interval is withdrawn."""
    (only,) = _judged(_alternation(-0.05, -0.05, 0.02, 0.0, pairs=5))
    assert only.withdrawn == CHAIN
    assert only.interval.configuration == DEFAULT
    assert (only.interval.first_bytes, only.interval.last_bytes) == (0, 1 << 20)


def test_what_was_not_measured_is_given_back() -> None:
    """A choice between the measured sizes, or never measured again, is not kept."""
    between = Interval(100, 200, CHAIN)
    (only,) = _judged(_alternation(0.3, 0.3, 0.3, 0.3), between)
    assert only.withdrawn == CHAIN
    assert "not measured again" in only.interval.reason
    (unmeasured,) = _judged(Alternation())
    assert unmeasured.withdrawn == CHAIN


def test_a_gain_that_may_be_luck_is_given_back() -> None:
    """Seven pairs of which three were lost prove nothing, though the median gains."""
    logs = tuple(math.log(x) for x in (0.71, 0.94, 0.99, 1.06, 1.1, 1.2, 1.27))
    instances = [Instance(BCAST, SHAPE, size) for size in SIZES]
    (only,) = _judged(Alternation(dict.fromkeys(instances, logs), 1.0, 14))
    assert only.withdrawn == CHAIN
    assert only.interval.configuration == DEFAULT
    assert "not proven faster" in only.interval.reason


def test_a_size_that_could_not_be_measured_does_not_stay_with_its_neighbours() -> None:
    """A size without a single pair is given back, though the others of its range gained."""
    measured = [Instance(BCAST, SHAPE, size) for size in SIZES[:3]]
    verdicts = _judged(Alternation(dict.fromkeys(measured, (0.1,) * 6), 1.0, 12))
    assert [v.withdrawn for v in verdicts] == [None, CHAIN]
    assert verdicts[1].interval.holds(SIZES[3])


def test_what_the_library_does_by_itself_is_left_to_it() -> None:
    """The range around a size where the default is the chosen algorithm is not written."""
    instances = grid(BCAST, SHAPE, WHOLE, SIZES)
    parts = without_same(BCAST, WHOLE, instances, instances[:2])
    assert [(p.first_bytes, p.last_bytes, p.configuration) for p in parts] == [
        (0, 255, DEFAULT),
        (256, 1 << 20, CHAIN),
    ]
    assert parts[0].reason == "the default runs this algorithm by itself"
    assert without_same(BCAST, WHOLE, instances, []) == [WHOLE]


def test_the_default_is_not_judged() -> None:
    """An interval left to the library stays with it."""
    left = Interval(0, None, DEFAULT)
    assert _judged(_alternation(-1, -1, -1, -1), left) == [Verdict(BCAST, left)]


@given(st.lists(st.floats(-0.5, 0.5), min_size=4, max_size=4))
def test_verdicts_cover_the_interval_without_gaps(log_gains: list[float]) -> None:
    """Whatever was measured, the parts are ascending, adjacent, and together the interval."""
    found = [v.interval for v in _judged(_alternation(*log_gains))]
    assert found[0].first_bytes == WHOLE.first_bytes
    assert found[-1].last_bytes == WHOLE.last_bytes
    for before, after in itertools.pairwise(found):
        assert before.last_bytes is not None
        assert after.first_bytes == before.last_bytes + 1
        assert before.configuration != after.configuration


@pytest.mark.parametrize(("first", "last", "sizes"), [(0, 64, [4, 64]), (65, None, [1024, 16384])])
def test_the_grid_is_what_lies_inside(first: int, last: int | None, sizes: list[int]) -> None:
    """Both ends of an interval belong to it."""
    found = grid(BCAST, SHAPE, Interval(first, last, CHAIN), SIZES)
    assert [i.msize_bytes for i in found] == sizes
