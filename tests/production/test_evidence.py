"""The statistics of the judgement: valid at every look, blind to what slows all jobs alike."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from colltune.production.evidence import (
    LEAST,
    Decided,
    Evidence,
    Level,
    Neighbours,
    discoveries,
    saved,
)


def followed(seed: int, kind: str, effect: float, jobs: int, control: float) -> Iterator[Evidence]:
    """Yield what is known after each job of the control group; `effect` is on the others."""
    rng = np.random.default_rng([seed, *kind.encode()])
    strata = rng.integers(0, 6, jobs)
    noise = rng.standard_t(3, jobs) if kind == "heavy" else rng.standard_normal(jobs)
    if kind == "outliers":
        noise = noise + 8 * (rng.random(jobs) < 0.03)
    scale = np.full(6, 0.15) if kind != "unequal" else 0.15 * np.exp(rng.normal(0, 0.7, 6))
    neighbours, evidence = [Neighbours() for _ in range(6)], Evidence()
    for job, at in enumerate(strata.tolist()):
        rarer = bool(rng.random() < control)
        value = at + float(noise[job] * scale[at]) + (0 if rarer else effect)
        told = neighbours[at].take(value, is_rarer=rarer, group=job, user="")
        if told is not None and told.is_same:
            evidence.add_same(told.value)
        elif told is not None:
            evidence.add(-told.value, told.group)
            yield evidence


@pytest.mark.parametrize("kind", ["normal", "unequal", "heavy", "outliers"])
def test_looking_after_every_job_does_not_inflate_false_alarms(kind: str) -> None:
    """Of decisions without any effect at most a share of alpha is ever called slower, or faster."""
    wrong = {1: 0, -1: 0}
    for seed in range(150):
        called = {s for e in followed(seed, kind, 0.0, 800, 0.15) for s in wrong if e.log_e(s) > 3}
        for sign in called:
            wrong[sign] += 1
    # exp(3): alpha is 5 %; more than 17 of 150 would come by chance once in 3000 times
    assert max(wrong.values()) <= 17


def test_a_decision_that_doubles_the_time_is_found_soon() -> None:
    """A dozen jobs of the control group tell it at 0.5 %, and which of the signs it is."""
    needed = [
        next(e.count for e in followed(seed, "normal", math.log(2), 4000, 0.1) if e.log_e(1) > 5.3)
        for seed in range(20)
    ]
    assert max(needed) <= 12
    assert min(needed) >= LEAST
    last = list(followed(1, "normal", math.log(2), 4000, 0.1))[-1]
    assert last.log_e(-1) < 0
    found = last.interval()
    assert found is not None
    assert found.lower < math.log(2) < found.upper


def test_intervals_hold_the_effect_at_all_looks_together() -> None:
    """Confidence sequences of 95 % miss an effect at any of the looks in few of 100 streams."""
    missed = 0
    for seed in range(100):
        found = (e.interval() for e in followed(seed, "normal", -0.1, 800, 0.15))
        missed += any(i is not None and not i.lower <= -0.1 <= i.upper for i in found)
    assert missed <= 14


def test_a_trend_cancels() -> None:
    """Where all jobs get slower at an even pace, a job lies in the middle of its neighbours."""
    neighbours = Neighbours()
    found = [
        neighbours.take(0.5 * at, is_rarer=rarer, group=at, user="")
        for at, rarer in enumerate([False, False, True, False, True, False, True, False])
    ]
    told = [one for one in found if one is not None]
    assert [(one.is_same, one.group) for one in told] == [(False, 2), (False, 6)]
    assert [one.value for one in told] == pytest.approx([0.0, 0.0])


def test_three_jobs_of_one_arm_tell_the_scale() -> None:
    """They make a difference that says nothing of the effect; the last one is used again."""
    neighbours = Neighbours()
    values = [0.0, 1.0, 0.0, 3.0, 1.0]
    found = [neighbours.take(v, is_rarer=False, group=0, user="") for v in values]
    assert [None if one is None else (one.value, one.is_same) for one in found] == [
        None,
        None,
        (1.0, True),
        None,
        (2.5, True),
    ]


def test_no_effect_and_scale_do_not_matter() -> None:
    """The evidence is the same whatever unit the seconds' logarithms scatter in."""
    small, large = Evidence(), Evidence()
    for value in (0.3, 0.1, 0.5, 0.4, 0.2, 0.3, 0.6, 0.0, 0.35):
        small.add(value)
        large.add(3 * value)
    assert small.log_e(1) == pytest.approx(large.log_e(1))


def test_one_wild_job_does_not_decide() -> None:
    """A difference beyond all before it counts as their tail."""
    evidence = Evidence()
    for value in (0.1, -0.1, 0.05, -0.05, 0.0, 0.02):
        evidence.add(value)
    before = evidence.mean
    evidence.add(50.0)
    assert evidence.mean - before < 0.15


def test_e_values_are_rejected_by_their_rank() -> None:
    """The k-th largest of n must exceed n over k times the rate."""
    log_e = {"a": math.log(90), "b": math.log(41), "c": math.log(25), "d": 0.0}
    assert discoveries(log_e, 0.05) == {"a", "b"}
    assert discoveries(log_e | {"c": math.log(27)}, 0.05) == {"a", "b", "c"}
    assert discoveries({}, 0.05) == set()


def test_savings_are_as_sure_as_jobs_are_many() -> None:
    """What scatters by job is not averaged out by many decisions of one job."""
    rng = np.random.default_rng(5)
    jobs = rng.normal(-math.log(1.25), 0.2, 64)
    of_one = [Evidence() for _ in range(8)]
    of_many = [Evidence() for _ in range(8)]
    for number, value in enumerate(jobs.tolist()):
        for evidence in of_one:
            evidence.add(value, number)
        for evidence in of_many:
            evidence.add(float(rng.permutation(jobs)[0]), int(rng.integers(1 << 30)))
    one, many = (
        saved([Decided("x", 10.0, evidence) for evidence in several])
        for several in (of_one, of_many)
    )
    assert one[1] < 20.0 < one[2]
    assert one[2] - one[1] > 1.5 * (many[2] - many[1])
    assert saved([]) == (0.0, 0.0, 0.0)


def test_a_level_that_shifts_is_told_once() -> None:
    """It is told with its ratio and beginning; what is small, or only scatters, is not."""
    rng = np.random.default_rng(7)
    level = Level()
    quiet = [level.add(float(v)) for v in rng.normal(0, 0.02, 200)]
    assert not any(quiet)
    told = [level.add(float(v)) for v in rng.normal(math.log(1.2), 0.02, 40)]
    [(at, shift)] = [(at, shift) for at, shift in enumerate(told) if shift is not None]
    assert at <= 5
    assert math.exp(shift) == pytest.approx(1.2, abs=0.03)
    assert not any(level.add(float(v)) for v in rng.normal(math.log(1.22), 0.02, 40))
