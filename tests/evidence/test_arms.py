"""Bets on drawn arms: valid at every look whatever the times are like, and soon sure of harm."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from colltune.evidence.arms import (
    AT_ANY_LOOK,
    EFFECTS,
    Arms,
    BatchLevel,
    Seen,
    Total,
    Usual,
    usual_of,
)

Times = Callable[[np.random.Generator, int], NDArray[np.float64]]


def _slower(share: float, ratio: float) -> Times:
    return lambda rng, n: rng.normal(0, 0.1, n) + math.log(ratio) * (rng.random(n) < share)


def _series(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    found = rng.normal(0, 0.3, n)
    for at in range(1, n):
        found[at] = 0.95 * found[at - 1] + 0.31 * found[at]
    return found


TIMES: dict[str, Times] = {
    "normal": lambda rng, n: rng.normal(0, 0.1, n),
    "heavy": lambda rng, n: 0.2 * rng.standard_t(3, n) / math.sqrt(3),
    "slow jobs": _slower(0.1, 16.0),
    "lognormal": lambda rng, n: 0.2 * np.exp(rng.normal(0, 1, n)),
    "series": _series,
    "trend": lambda rng, n: rng.normal(0, 0.1, n) + np.linspace(0, 0.7, n),
}


def followed(
    seed: int, times: str, effect: float, jobs: int, share: float, programs: int = 10
) -> Iterator[Arms]:
    """Yield what is known after each job; without `programs` none comes twice."""
    rng = np.random.default_rng([seed, *times.encode()])
    noise, arms = TIMES[times](rng, jobs), Arms()
    usual: dict[int, Usual] = {}
    elsewhere = Usual()
    for job in range(jobs):
        program = int(rng.integers(programs)) if programs else job
        is_in = bool(rng.random() < share)
        of_program = np.random.default_rng([seed, program]).normal(0, 0.7)
        log_s = float(noise[job] + of_program + effect * is_in)
        near = usual.setdefault(program, Usual())
        if told := usual_of(near, elsewhere):
            arms.take([Seen(log_s, *told, 1.0)], is_in=is_in, probability=share)
        for one in (near, elsewhere):
            one.add(log_s, is_in=is_in, calls=1.0)
        yield arms


@pytest.mark.slow
@pytest.mark.parametrize("programs", [10, 0])
@pytest.mark.parametrize("times", TIMES)
def test_no_look_loses_the_truth_more_often_than_promised(times: str, programs: int) -> None:
    """Without an effect, an interval of 95 % misses it at any of the looks in few of 60 sites."""
    missed = 0
    for seed in range(60):
        seen = list(_bounds(followed(seed, times, 0.0, 800, 0.1, programs)))
        missed += any(not lower <= 0.0 <= upper for lower, upper in seen)
    # at 5 % more than 8 of 60 would come by chance once in 500 times
    assert missed <= 8


def _bounds(found: Iterator[Arms]) -> Iterator[tuple[float, float]]:
    for number, arms in enumerate(found):
        if number % 10 == 0 and (interval := arms.bounded()) is not None:
            yield interval.lower, interval.upper


def test_harm_is_told_soon() -> None:
    """A few jobs tell of twice the time, and of ten times also where no program comes twice."""
    for effect, programs, most in ((math.log(2), 10, 120), (math.log(10), 0, 120)):
        needed = [
            next(
                (
                    number
                    for number, arms in enumerate(followed(s, "normal", effect, 400, 0.1, programs))
                    if arms.log_e_above(math.log(1.02)) > math.log(100)
                ),
                400,
            )
            for s in range(9)
        ]
        assert float(np.median(needed)) <= most


def test_an_effect_lies_in_its_interval_and_its_evidence_is_in_order() -> None:
    """The interval of many jobs is narrow; more extreme suppositions are refuted more surely."""
    *_, arms = followed(3, "normal", -0.2, 1500, 0.3)
    found = arms.interval()
    assert found is not None
    assert found.lower < -0.2 < found.upper < 0
    assert found.upper - found.lower < 0.2
    assert found.log == pytest.approx(-0.2, abs=0.05)
    below = [arms.log_e_below(float(effect)) for effect in EFFECTS]
    above = [arms.log_e_above(float(effect)) for effect in EFFECTS]
    assert all(one <= other + 1e-9 for one, other in pairwise(below))
    assert all(one >= other - 1e-9 for one, other in pairwise(above))


def test_nothing_is_told_of_nothing() -> None:
    """No job, a job that was drawn for certain, and one with nothing beside it: no interval."""
    arms = Arms()
    one = Seen(0.0, Usual(3, 0.0, 0.5), True, 1.0)
    arms.take([one], is_in=True, probability=1.0)
    arms.take([], is_in=True, probability=0.5)
    assert arms.jobs == 0
    assert arms.interval() is None
    assert arms.bounded() is None
    assert arms.log_e_above(0.0) == arms.log_e_below(0.0) == 0.0
    assert usual_of(Usual(), Usual(2)) is None


def test_what_is_kept_goes_on_as_before() -> None:
    """Bets written as JSON and read again take in the next job alike."""
    *_, arms = followed(1, "normal", 0.1, 200, 0.3)
    again = Arms.of(json.loads(json.dumps(arms.as_json())))
    assert again.as_json() == arms.as_json()
    for one in (arms, again):
        one.take([Seen(0.4, Usual(5, 0.0, 0.4), True, 1.0)], is_in=True, probability=0.3)
    assert np.allclose(arms.slower, again.slower, atol=1e-3)


def test_many_programs_of_a_job_are_one_bet() -> None:
    """What a job of twenty programs wins is what a job of one wins."""
    one = Seen(0.3, Usual(5, 0.0, 0.5), True, 1.0)
    wealth = []
    for kinds in (1, 20):
        arms = Arms()
        arms.take([one] * kinds, is_in=True, probability=0.5)
        wealth.append(arms.slower)
        assert arms.jobs == 1
    assert np.allclose(wealth[0], wealth[1])


def test_one_user_shows_harm_and_no_harmlessness() -> None:
    """Bets that it does no harm are limited by user, those that it harms are not."""
    usual = Usual(9, 0.0, 0.5)
    gains, harms = Arms(), Arms()
    for number in range(200):
        is_long = number % 2 == 0
        seen = [Seen(0.5 if is_long else -0.5, usual, True, 1.0)]
        for arms, is_in in ((gains, not is_long), (harms, is_long)):
            arms.take(seen, is_in=is_in, probability=0.5, user="ann", user_share=0.2)
    assert gains.log_e_below(0.0) < 5
    assert gains.capped > 190
    assert harms.log_e_above(0.0) > 50


def test_saved_hours_weigh_long_jobs_as_long() -> None:
    """Short jobs that gain do not make up for long ones that lose, whichever are more."""
    rng = np.random.default_rng(2)
    total, true, arms = Total(), 0.0, Arms()
    gains, calls, usual = {0: 1.3, 1: 0.97}, {0: 1.0, 1: 100.0}, {0: Usual(), 1: Usual()}
    for _ in range(3000):
        kind, is_in = int(rng.integers(2)), bool(rng.random() < 0.8)
        base = math.exp(float(rng.normal(0, 0.1)))
        time_s = base / (gains[kind] if is_in else 1.0)
        true += (base - time_s) * calls[kind] * is_in
        one = Seen(math.log(time_s), usual[kind], True, 1.0)
        saved = arms.saved(one, is_in=is_in, probability=0.8)
        if saved is not None:
            total.add(saved)
        arms.take([one], is_in=is_in, probability=0.8)
        usual[kind].add(math.log(time_s), is_in=is_in, calls=calls[kind])
    hours, lower, upper = total.interval
    assert true < 0
    assert lower < true < upper
    assert abs(hours - true) < abs(true)
    assert (upper - lower) / 2 == pytest.approx(AT_ANY_LOOK * math.sqrt(total.squares))


def test_a_level_that_shifts_is_told_once() -> None:
    """It is told with its ratio and beginning; what is small, or only scatters, is not."""
    rng = np.random.default_rng(7)
    level = BatchLevel()
    quiet = [level.add(float(v)) for v in rng.normal(0, 0.02, 200)]
    assert not any(quiet)
    told = [level.add(float(v)) for v in rng.normal(math.log(1.2), 0.02, 40)]
    [(at, shift)] = [(at, shift) for at, shift in enumerate(told) if shift is not None]
    assert at <= 5
    assert math.exp(shift) == pytest.approx(1.2, abs=0.03)
    assert not any(level.add(float(v)) for v in rng.normal(math.log(1.22), 0.02, 40))
