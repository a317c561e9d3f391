"""What measurements prove of what was predicted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.dataset import PerformanceDataset
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.selector.argmin import ModelSelector
from colltune.selector.confirming import (
    Cell,
    ContestedInstance,
    ContestState,
    confirmations,
    contests,
    cuts_between,
    evidence,
    judge,
)
from tests.models.machines import CONTEXT, FORMULAS, MSIZES, measured

BCAST = Collective.BCAST
SHAPE = Shape(4, 4)
DEFAULT = Configuration.default("openmpi", BCAST)
FIRST, SECOND, THIRD = (Configuration("openmpi", BCAST, name) for name in ("a", "b", "c"))
SIZES = (4, 64, 1024, 16384)
INSTANCES = tuple(Instance(BCAST, SHAPE, size) for size in SIZES)
INSTANCE = INSTANCES[0]
CONTEST = ContestedInstance(INSTANCE, DEFAULT, (FIRST, SECOND, THIRD), 0, 32768, 1.2, 1e-5)
WHEN = "2026-11-22T10:00:00+00:00"
Times = dict[Cell, dict[str, Sequence[float]]]


def _times(gains: dict[Configuration, float], launches: int = 1) -> Times:
    """Return repetitions without scatter: the default, and log gains."""
    return {
        (configuration, INSTANCE): {
            str(launch): (1e-5 * math.exp(-log),) * 12 for launch in range(launches)
        }
        for configuration, log in {DEFAULT: 0.0, **gains}.items()
    }


def _judged(times: Times, **more: object) -> list[ContestState]:
    return judge([CONTEST], times, **more)  # type: ignore[arg-type]


def test_one_launch_proves_nothing() -> None:
    """However large a gain is, it takes a second launch to tell it from the first one's luck."""
    (once,) = _judged(_times({FIRST: 0.5, SECOND: 0.9}))
    assert (once.status, once.configuration, once.is_open) == (Status.PREDICTED, DEFAULT, True)
    assert once.gain is not None
    assert (once.gain.found, once.gain.lower, once.gain.launches) == (None, None, 1)
    assert confirmations([once], WHEN) == ()


def test_a_clear_gain_is_confirmed_in_two_launches() -> None:
    """Two launches with a gain far beyond the noise of launches decide, the best wins."""
    (only,) = _judged(_times({FIRST: 0.7, SECOND: 0.8}, launches=2))
    assert (only.status, only.configuration, only.is_open) == (Status.CONFIRMED, SECOND, False)
    assert only.gain is not None
    assert only.gain.found is not None
    assert only.gain.sums.log == pytest.approx(0.8)
    assert 0 < only.gain.found.lower < only.gain.expected < 0.8
    (record,) = confirmations([only], WHEN)
    assert dict(record.sums)[SECOND] == only.gain.sums
    assert record.noise is only.gain.noise


def test_a_clear_loss_is_not_measured_again() -> None:
    """Where all candidates are far behind, no second launch is made, and no interval is claimed."""
    (only,) = _judged(_times({FIRST: -0.3, SECOND: -0.25}))
    assert (only.status, only.configuration, only.is_open) == (Status.WITHDRAWN, DEFAULT, False)
    (record,) = confirmations([only], WHEN)
    assert record.gain is not None
    assert (record.lower, record.upper, record.launches) == (None, None, 1)


def test_a_small_gain_needs_more_launches() -> None:
    """What few launches cannot tell gets up to six; more of them narrow the interval."""
    found = [_judged(_times({FIRST: 0.06}, launches=n))[0] for n in range(1, 7)]
    assert [j.is_open for j in found] == [True] * 5 + [False]
    widths = [j.gain.found.upper - j.gain.found.lower for j in found if j.gain and j.gain.found]
    assert widths == sorted(widths, reverse=True)
    assert len(widths) == 5


def test_what_stays_open_is_withdrawn_in_the_end() -> None:
    """After six launches that prove nothing the default is used."""
    (only,) = _judged(_times({FIRST: 0.02}, launches=6))
    (record,) = confirmations([only], WHEN)
    assert (record.status, record.configuration, record.launches) == (
        Status.WITHDRAWN,
        DEFAULT,
        6,
    )


def test_launches_that_differ_widen_the_interval() -> None:
    """The confirmation's own launches tell the noise of launches, beside what was known before."""
    steady = _judged(_times({FIRST: 0.4}, launches=3))[0]
    times = _times({FIRST: 0.4}, launches=3)
    for launch, log in zip("012", (0.0, 0.4, 0.8), strict=True):
        times[FIRST, INSTANCE][launch] = (1e-5 * math.exp(-log),) * 12
    wild = _judged(times)[0]
    assert steady.status is Status.CONFIRMED
    assert wild.status is Status.WITHDRAWN


def test_the_noise_is_that_of_the_other_contests_in_the_same_launches() -> None:
    """A contest whose own launches agree is not proved where all others are wild."""
    others = [replace(CONTEST, instance=i, candidates=(FIRST,)) for i in INSTANCES[1:]]
    times = _times({FIRST: 0.4}, launches=3)
    assert judge([CONTEST, *others], times)[0].status is Status.CONFIRMED
    for other in others:
        for cell, logs in zip(other.cells, ((0.0,) * 3, (0.4, -0.4, 0.0)), strict=True):
            times[cell] = {str(k): (1e-5 * math.exp(-log),) * 12 for k, log in enumerate(logs)}
    assert judge([CONTEST, *others], times)[0].status is Status.WITHDRAWN


def _on_record(log: float, launches: int) -> Confirmation:
    (record,) = confirmations(_judged(_times({FIRST: log}, launches=launches)), WHEN)
    return record


def test_what_was_measured_before_is_added_to() -> None:
    """What six launches left open is proved by as many on another night, and all are kept."""
    before = _on_record(0.09, 4)
    assert (before.status, before.is_undecided) == (Status.WITHDRAWN, True)
    again = replace(CONTEST, before=before)
    (asked,) = judge([again], {})
    assert (asked.status, asked.is_open) == (Status.PREDICTED, True)
    (found,) = judge([again], _times({FIRST: 0.09}, launches=6))
    assert (found.status, found.configuration) == (Status.CONFIRMED, FIRST)
    (record,) = confirmations([found], WHEN)
    assert (record.launches, dict(record.sums)[FIRST].launches) == (10, 10)


def test_a_proof_falls_only_to_a_proof_of_the_contrary() -> None:
    """Launches that show nothing leave a confirmed decision in force; slower ones end it."""
    before = _on_record(0.4, 3)
    again = replace(CONTEST, before=before)
    for log, status in ((0.01, Status.CONFIRMED), (-0.5, Status.WITHDRAWN)):
        (found,) = judge([again], _times({FIRST: log}, launches=4))
        assert found.status is status
        (record,) = confirmations([found], WHEN)
        assert record.lower is not None
        assert (record.lower > 1) == (status is Status.CONFIRMED)


def test_what_was_not_measured_stays_predicted() -> None:
    """Without times there is no record; the contest is open as long as it can be measured."""
    (only,) = _judged({})
    assert (only.status, only.is_open) == (Status.PREDICTED, True)
    assert confirmations([only], WHEN) == ()
    assert not _judged({}, closed={(DEFAULT, INSTANCE)})[0].is_open


def test_what_crashed_proves_nothing() -> None:
    """A candidate that failed is withdrawn, however fast it was in another launch."""
    times = _times({FIRST: 0.9, SECOND: 0.8}, launches=2)
    (only,) = _judged(times, failed={(FIRST, INSTANCE)})
    assert only.configuration == SECOND
    everything = {(c, INSTANCE) for c in CONTEST.candidates}
    (none,) = _judged(times, failed=everything)
    assert (none.status, none.is_open) == (Status.WITHDRAWN, False)
    (record,) = confirmations([none], WHEN)
    assert (record.gain, record.configuration) == (None, DEFAULT)
    assert "failed" in record.reason


def test_a_default_that_fails_decides_nothing() -> None:
    """Without the default's time nothing is confirmed, and nothing is withdrawn."""
    (only,) = _judged({}, failed=set(CONTEST.cells))
    assert (only.status, only.is_open) == (Status.PREDICTED, False)


def test_what_was_given_up_as_slow_is_not_measured_again() -> None:
    """An open contest whose candidates are all closed ends."""
    times = _times({FIRST: 0.05})
    closed = {(c, INSTANCE) for c in CONTEST.candidates}
    assert not _judged(times, closed=closed)[0].is_open


def test_turns_are_compared_one_by_one() -> None:
    """A drift of the machine that hits both alike is no scatter."""
    drift = np.repeat(np.exp(np.linspace(0, 1, 5)), 20)
    drifting = {
        (DEFAULT, INSTANCE): {"l": (1e-5 * drift).tolist()},
        (FIRST, INSTANCE): {"l": (0.8e-5 * drift).tolist()},
    }
    (only,) = judge([replace(CONTEST, candidates=(FIRST,))], drifting)
    assert only.gain is not None
    assert only.gain.sums.log == pytest.approx(math.log(1.25))
    assert only.gain.sums.inside == pytest.approx(0.0, abs=1e-6)


def test_turns_that_were_not_made_are_not_compared() -> None:
    """A candidate that was given up after a turn is compared by that turn, not by its share."""
    drift = np.repeat(np.exp(np.linspace(0, 0.5, 6)), 20)
    times = {
        (DEFAULT, INSTANCE): {"l": (1e-5 * drift).tolist()},
        (FIRST, INSTANCE): {"l": (1e-5 * drift[:20]).tolist()},
    }
    (only,) = judge([replace(CONTEST, candidates=(FIRST,))], times)
    assert only.gain is not None
    assert only.gain.sums.log == pytest.approx(0.0)


def test_what_shared_no_launch_is_not_compared() -> None:
    """Launches of one configuration each, 0 s, and a few ticks of a clock prove nothing."""
    cases = (("ab", "cd", 3e-5, 1e-5), ("ab", "ab", 1e-5, 0.0), ("ab", "ab", 2e-6, 1e-6))
    for launches, others, default_s, time_s in cases:
        (only,) = _judged(
            {
                (DEFAULT, INSTANCE): dict.fromkeys(launches, (default_s,) * 12),
                (FIRST, INSTANCE): dict.fromkeys(others, (time_s,) * 12),
            }
        )
        assert (only.status, only.gain) == (Status.PREDICTED, None)


def test_what_is_no_faster_is_hardly_ever_confirmed() -> None:
    """Three candidates as fast as the default, up to six launches, each with its own luck."""
    rng = np.random.default_rng(1)
    found = [j for _ in range(40) for j in _simulated(0.0, rng)]
    assert sum(j.status is Status.CONFIRMED for j in found) <= 0.05 * len(found)
    known = [j.gain.found for j in found if j.gain and j.gain.found]
    assert sum(one.lower <= 0 <= one.upper for one in known) >= 0.95 * len(known)


def test_a_gain_beyond_the_noise_is_confirmed_nearly_always() -> None:
    """The same procedure confirms 20 % in nine of ten cases."""
    rng = np.random.default_rng(2)
    found = [j.status for _ in range(20) for j in _simulated(math.log(1.2), rng)]
    assert found.count(Status.CONFIRMED) >= 0.9 * len(found)


def _simulated(gain: float, rng: np.random.Generator) -> list[ContestState]:
    """Measure until all is decided; a launch shifts each configuration, and turns scatter."""
    asked = [replace(CONTEST, instance=i) for i in INSTANCES]
    times: Times = {}
    for launch in map(str, range(6)):
        for judgement in judge(asked, times):
            if not judgement.is_open:
                continue
            for configuration in (DEFAULT, *judgement.open_candidates):
                shift = rng.normal(-gain if configuration == FIRST else 0.0, 0.034)
                logs = shift + np.repeat(rng.normal(0, 0.03, 5), 20) + rng.normal(0, 0.1, 100)
                cell = times.setdefault((configuration, judgement.contest.instance), {})
                cell[launch] = (1e-5 * np.exp(logs)).tolist()
    return judge(asked, times)


def test_what_is_certainly_no_faster_is_not_measured_again() -> None:
    """A candidate that lost by far leaves, one that is in doubt stays."""
    (only,) = _judged(_times({FIRST: 0.06, SECOND: -0.3}))
    assert only.open_candidates == (FIRST,)


def test_what_is_predicted_slower_is_measured_too_unless_by_far() -> None:
    """Where the default is predicted to be the fastest there is a contest of what comes near."""
    factors = {"default": 1.0, "linear": 1.1, "binomial": 1.3, "scatter_allgather": 3.0}
    data = [
        Measurement(
            Instance(BCAST, Shape(nodes, 4), size),
            DEFAULT if name == "default" else Configuration("openmpi", BCAST, name),
            "one",
            RunStatus.OK,
            (factor * FORMULAS["default"](4 * nodes, size),) * 3,
        )
        for nodes in (2, 4, 8)
        for size in SIZES
        for name, factor in factors.items()
    ]
    selector = ModelSelector(fit(PerformanceDataset.of(CONTEXT, data), jobs=1))
    found = contests(selector, BCAST, SHAPE, SIZES)
    assert [contest.instance for contest in found] == list(INSTANCES)
    for contest in found:
        assert [c.algorithm for c in contest.candidates] == ["linear", "binomial"]
        assert contest.gain < 1
    (worse, better) = (replace(found[0], gain=gain) for gain in (0.7, 0.95))
    assert judge([worse], {})[0].value < judge([better], {})[0].value


def test_proposals_are_the_unguarded_fastest() -> None:
    """What the guard refuses is proposed, too; every gain is predicted, the default is none."""
    selector = ModelSelector(fit(measured(), "gam", jobs=1))
    found = contests(selector, BCAST, Shape(8, 4), MSIZES)
    assert found
    for contest in found:
        times = {n: f(32, contest.instance.msize_bytes) for n, f in FORMULAS.items()}
        assert times[contest.candidates[0].algorithm] <= 1.2 * min(times.values())
        assert contest.gain > 1.01
        assert DEFAULT not in contest.candidates
        assert len(contest.candidates) <= 3
    sizes = [contest.instance.msize_bytes for contest in found]
    assert sizes == sorted(set(sizes))


def test_ranges_of_contests_follow_each_other() -> None:
    """Contests of a shape do not overlap, and end at twice the largest size."""
    selector = ModelSelector(fit(measured(), "gam", jobs=1))
    found = contests(selector, BCAST, Shape(8, 4), MSIZES)
    for one, two in itertools.pairwise(found):
        assert one.last_bytes is not None
        assert one.last_bytes < two.first_bytes
    assert found[-1].last_bytes == 2 * MSIZES[-1]


def _bed(
    default_s: Callable[[int], float], alike: Callable[[ContestedInstance], tuple[int, int] | None]
) -> list[ContestState]:
    """Return what four launches tell of FIRST, which takes 10 us at each size."""
    cuts = cuts_between(SIZES)
    ends = zip(INSTANCES, [0, *cuts], [*(c - 1 for c in cuts), 2 * SIZES[-1]], strict=True)
    found = [
        ContestedInstance(i, DEFAULT, (FIRST,), first, last, 1.2, 1e-5) for i, first, last in ends
    ]
    times: Times = {}
    for instance in INSTANCES:
        sides = ((DEFAULT, default_s(instance.msize_bytes)), (FIRST, 1e-5))
        for configuration, time_s in sides:
            repeated = tuple(time_s * (1 + 1e-4 * k) for k in range(12))
            times[configuration, instance] = dict.fromkeys("abcd", repeated)
    return judge([replace(one, alike=alike(one)) for one in found], times)


@given(st.integers(1, 2 * SIZES[-1]), st.booleans())
def test_what_is_confirmed_is_faster_at_the_ends_of_its_range(switch: int, is_seen: bool) -> None:
    """Wherever the default goes over to a faster algorithm, seen or not, and in both directions."""
    for fast_below in (True, False):

        def is_slow(size: int, below: bool = fast_below) -> bool:
            return (size >= switch) is below

        def alike(
            contest: ContestedInstance, slow: Callable[[int], bool] = is_slow
        ) -> tuple[int, int]:
            size, last = contest.instance.msize_bytes, contest.last_bytes or 0
            here = slow(size)
            return (
                contest.first_bytes if slow(contest.first_bytes) is here else size,
                last if slow(last) is here else size,
            )

        known = alike if is_seen else lambda _: None
        judged = _bed(lambda size, slow=is_slow: 1.5e-5 if slow(size) else 0.8e-5, known)  # type: ignore[misc]
        records = confirmations(judged, WHEN)
        proved = [one for one in records if one.confirmed]
        assert len(proved) == sum(is_slow(size) for size in SIZES)
        for one in proved:
            assert one.last_bytes is not None
            assert is_slow(one.first_bytes)
            assert is_slow(one.last_bytes)


def test_ranges_meet_where_both_sizes_prove_the_same() -> None:
    """Between sizes at which it is faster a configuration holds, and beyond them it does not."""
    records = confirmations(_bed(lambda _: 2e-5, lambda _: None), WHEN)
    first, *_, last = records
    assert all(
        two.first_bytes == (one.last_bytes or 0) + 1 for one, two in itertools.pairwise(records)
    )
    assert (first.first_bytes, last.last_bytes) == (SIZES[0], SIZES[-1])


def test_a_small_gain_ends_where_the_neighbour_loses_more() -> None:
    """Though the default runs alike: halfway between them nothing would be gained."""
    loses = {SIZES[1]: 0.5e-5, SIZES[2]: 1.2e-5}
    judged = _bed(lambda size: loses.get(size, 1e-5), lambda c: (c.first_bytes, c.last_bytes or 0))
    (only,) = (one for one in judged if one.status is Status.CONFIRMED)
    assert only.contest.instance.msize_bytes == only.first_bytes == SIZES[2]
    assert only.last_bytes == only.contest.last_bytes


def test_evidence_is_taken_from_measurements() -> None:
    """Times by launch and failures are found; what was skipped tells nothing."""
    cell = (FIRST, INSTANCE)
    found = [
        Measurement(cell[1], cell[0], "one", RunStatus.OK, (1.0, 2.0)),
        Measurement(cell[1], cell[0], "two", RunStatus.ABANDONED, (3.0,)),
        Measurement(INSTANCES[1], FIRST, "one", RunStatus.CRASH),
        Measurement(INSTANCES[2], FIRST, "one", RunStatus.SKIPPED),
    ]
    times, failed = evidence(found)
    assert times == {cell: {"one": (1.0, 2.0), "two": (3.0,)}}
    assert failed == {(FIRST, INSTANCES[1])}
