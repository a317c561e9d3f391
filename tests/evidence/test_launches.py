"""What launches tell: paired turns, the noise between launches, intervals and verdicts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from colltune.evidence import launches
from colltune.evidence.launches import (
    LOOKS,
    MACHINE,
    GainInterval,
    LaunchGain,
    LaunchVerdict,
    Noise,
    Sums,
    interval,
    launch_gain,
    leading,
    likeness,
    pooled,
    shrunk,
    told,
    usual,
    verdict,
)

LOGS = st.floats(-2, 2)
GAINS = st.lists(st.builds(LaunchGain, LOGS, st.floats(0, 0.1), st.just(6)), min_size=2, max_size=6)


def sums(*logs: float, inside: float = 0.0) -> Sums:
    found = Sums.of(LaunchGain(log, inside, 6) for log in logs)
    assert found is not None
    return found


def test_the_level_of_a_look_keeps_the_error_over_all_looks() -> None:
    """Looks at 2 to 6 launches at these levels reject a true null in 5 % together."""
    numbers = np.array(LOOKS, float)
    correlation = np.sqrt(np.minimum.outer(numbers, numbers) / np.maximum.outer(numbers, numbers))
    levels = [launches._AT_A_LOOK[looks <= launches._EARLY_LOOKS] for looks in LOOKS]
    limit = norm.isf(np.array(levels) / 2)
    kept = multivariate_normal(cov=correlation, seed=1).cdf(limit, lower_limit=-limit)
    assert 1 - kept == pytest.approx(launches.ALPHA, rel=0.01)


def test_turns_are_paired_by_their_number() -> None:
    """A turn that one of both did not make is left out, however the machine slows meanwhile."""
    turns = [(1e-5 * factor,) * 3 for factor in np.exp(np.linspace(0, 0.5, 6))]
    found = launch_gain(turns, turns[:2])
    assert found is not None
    assert found.log == pytest.approx(0.0)
    assert found.turns == 2
    skipped = launch_gain(turns, [turns[0], (), turns[2]])
    assert skipped is not None
    assert skipped.log == pytest.approx(0.0)
    assert skipped.turns == 2


@pytest.mark.parametrize(
    ("default", "other"),
    [
        ([], []),
        ([(1.0,)], []),
        ([(1.0,), ()], [(), (1.0,)]),
        ([(1e-5,)], [(0.0,)]),
        ([(0.0,)], [(0.0,)]),
        ([(math.nan,)], [(1e-5,)]),
        ([(2e-6,) * 6], [(1e-6,) * 6]),
    ],
    ids=["nothing", "one side", "no turn in common", "0 s", "both 0 s", "not a number", "ticks"],
)
def test_what_was_not_timed_beside_each_other_is_no_evidence(
    default: list[tuple[float, ...]], other: list[tuple[float, ...]]
) -> None:
    """No turn in common, times of 0 s and times of a few ticks of the clock give no gain."""
    assert launch_gain(default, other) is None


def test_a_coarse_clock_adds_to_the_scatter() -> None:
    """Times that are multiples of a step are known to a step's fraction only."""
    fine = launch_gain([(1.23456789e-5,)] * 6, [(1.23456789e-5,)] * 6)
    coarse = launch_gain([(1.2e-5,)] * 6, [(1.2e-5,)] * 6)
    assert fine is not None
    assert coarse is not None
    assert fine.inside == pytest.approx(0.0, abs=1e-12)
    assert coarse.inside == pytest.approx((1 / 12) ** 2 / 12 * 2 / 6, rel=1e-6)


def test_one_turn_tells_no_scatter() -> None:
    """The scatter of a single turn is unknown, and counts as much as that between launches."""
    found = launch_gain([(1.2e-5,)], [(1.0e-5,)])
    assert found is not None
    assert math.isnan(found.inside)
    unknown = pooled([], inside=found.inside)
    assert unknown.sd == pytest.approx(MACHINE.sd * math.sqrt(2))


@given(GAINS, GAINS)
def test_sums_add_up(first: list[LaunchGain], second: list[LaunchGain]) -> None:
    """What two occasions kept tells as much as all their launches."""
    one, two, both = Sums.of(first), Sums.of(second), Sums.of([*first, *second])
    assert one is not None
    assert two is not None
    assert both is not None
    for found, expected in zip(one.plus(two), both, strict=True):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_nothing_is_never_no_difference() -> None:
    """Nothing, one launch and a number that is none give no interval and no verdict."""
    assert Sums.of([]) is None
    assert interval(None, MACHINE) is None
    assert interval(sums(0.5), MACHINE) is None
    assert verdict(None) is LaunchVerdict.NOT_COMPARED
    assert verdict(interval(sums(math.nan, 0.1), MACHINE)) is LaunchVerdict.NOT_COMPARED
    assert leading({}, MACHINE) == set()
    assert shrunk([]) == []
    assert pooled([]) == MACHINE
    assert pooled([[None, sums(0.3)], []]) == MACHINE


@given(GAINS, LOGS)
def test_a_cell_of_one_launch_never_changes_the_noise(gains: list[LaunchGain], log: float) -> None:
    """What was missed in other launches does not make the rest steadier."""
    assert pooled([[Sums.of(gains), sums(log), None]]) == pooled([[Sums.of(gains)]])


def test_one_launch_is_no_surer_than_other_machines() -> None:
    """Neighbouring sizes tell its scatter, else the ranks do; twice as much in two launches."""
    bends = np.random.default_rng(1).normal(0.0, 0.2 * math.sqrt(1.5), 2000)
    told = launches.of_one_launch(bends, [0.1], together=True)
    assert told.sd == pytest.approx(0.2, rel=0.1)
    for together, least in ((True, MACHINE.sd), (False, MACHINE.sd * math.sqrt(2.0))):
        for values in ([], [math.nan], [1e-4, 1e-4]):
            found = launches.of_one_launch(values, values, together=together)
            assert found.sd == pytest.approx(least)
    assert launches.of_one_launch([], [1.0], together=True).sd > 0.3


def test_a_set_is_worth_its_launches_not_its_cells() -> None:
    """Forty cells of the same three launches are two differences between launches."""
    cell = sums(-0.1, 0.0, 0.1)
    assert pooled([[cell] * 40]).worth == MACHINE.worth + 2
    assert pooled([[cell]] * 3).worth == MACHINE.worth + 6
    assert pooled([[cell] * 40]).sd == pytest.approx(math.sqrt((0.05**2 + 2 * 0.01) / 3))


def test_a_few_wild_cells_do_not_count_as_usual() -> None:
    """Noise is told of normal launches as it is; what stalls does not make all others noisy."""
    rng = np.random.default_rng(1)
    for launch_count in (2, 3, 6):
        counts = np.full(4000, launch_count)
        squares = 0.05**2 * rng.chisquare(launch_count - 1, 4000)
        for estimate in (told, usual):
            found = estimate(counts, squares)
            assert found is not None
            assert found.sd == pytest.approx(0.05, rel=0.15)
            assert found.worth == launch_count - 1
        squares[:200] = 9.0
        wild, steady = told(counts, squares), usual(counts, squares)
        assert wild is not None
        assert steady is not None
        assert steady.sd == pytest.approx(0.05, rel=0.15)
        assert 1.05 * steady.sd < wild.sd < 1.5 * steady.sd
    assert usual([1, 1], [0.0, math.nan]) is told([], []) is None


@given(GAINS, st.floats(0.01, 0.5), st.floats(1, 20))
def test_intervals_hold_their_mean_and_the_sequence_is_wider(
    gains: list[LaunchGain], sd: float, worth: float
) -> None:
    """What holds for any number of launches is wider than what holds for those planned."""
    noise, found = Noise(sd, worth, alike=0.0), Sums.of(gains)
    planned, always = (interval(found, noise, sequence=s) for s in (False, True))
    assert planned is not None
    assert always is not None
    assert always.lower < planned.lower < planned.log < planned.upper < always.upper


def test_more_launches_than_planned_are_looked_at_by_the_sequence() -> None:
    """After the planned looks only what holds at any time is told."""
    seven = sums(*[0.1] * 7)
    assert interval(seven, MACHINE) == interval(seven, MACHINE, sequence=True)


def test_launches_that_may_be_alike_are_looked_at_by_the_sequence() -> None:
    """From four launches on; what is not known of launches is not taken to be none."""
    for alike, is_planned in ((0.0, True), (0.4, False), (math.nan, False)):
        noise = MACHINE._replace(alike=alike)
        for several in (sums(0.1, 0.2, 0.1), sums(0.1, 0.2, 0.1, 0.2)):
            always = interval(several, noise, sequence=True)
            is_early = several.launches <= launches._EARLY_LOOKS
            assert (interval(several, noise) != always) == (is_early or is_planned)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_how_alike_launches_are_is_measured(correlation: float) -> None:
    """Many cells of six launches tell; where all move together they are one witness."""
    rng = np.random.default_rng(3)
    told, alone = [], []
    for _ in range(60):
        logs = rng.normal(0, 0.1, (20, 6))
        for launch in range(1, 6):
            fresh = math.sqrt(1 - correlation**2) * logs[:, launch]
            logs[:, launch] = correlation * logs[:, launch - 1] + fresh
        cells = [[dict(zip("abcdef", row, strict=True))] for row in logs.tolist()]
        told.append(likeness(cells) < launches.MOST_ALIKE)
        alone.append(likeness([cells[0][0]] for _ in range(20)) < launches.MOST_ALIKE)
    few, many = 0.1 * len(told), 0.8 * len(told)
    assert sum(told) <= few if correlation else sum(told) >= many
    assert sum(alone) <= 2 * few if correlation else few < sum(alone) < many


def test_launches_that_agree_are_no_surer_than_usual_ones() -> None:
    """A cell whose own launches agree by luck is judged by what the others differ by."""
    noise = Noise(0.1, 4)
    steady, usual = interval(sums(0.2, 0.2, 0.2), noise), interval(sums(0.1, 0.2, 0.3), noise)
    assert steady is not None
    assert usual is not None
    assert steady.upper - steady.lower == pytest.approx(usual.upper - usual.lower)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (0.1, 0.2, LaunchVerdict.FASTER),
        (-0.2, -0.1, LaunchVerdict.SLOWER),
        (-0.1, 0.005, LaunchVerdict.ALIKE),
        (-0.1, 0.1, LaunchVerdict.OPEN),
    ],
)
def test_verdicts(lower: float, upper: float, expected: LaunchVerdict) -> None:
    """An interval beside 0 proves, one below a gain worth having ends the question."""
    assert verdict(GainInterval((lower + upper) / 2, lower, upper, 3)) is expected


def test_candidates_far_behind_are_dropped_after_the_first_launch() -> None:
    """The next launch carries those on that may still be the best."""
    found = {"best": sums(0.2), "near": sums(0.16), "far": sums(0.0)}
    assert leading(found, MACHINE) == {"best", "near"}


def test_what_is_clearly_slower_than_the_default_is_dropped() -> None:
    """Nothing is carried on where all candidates are far behind the default."""
    assert leading({"slow": sums(-0.3), "slower": sums(-0.5)}, MACHINE) == set()
    assert leading({"level": sums(-0.02)}, MACHINE) == {"level"}


def test_gains_are_told_as_they_are_to_be_expected_again() -> None:
    """Where nothing gains, the luckiest of many is told as hardly any gain; a real one stays."""
    rng, noise = np.random.default_rng(1), Noise(0.05, 4)
    lucky = [sums(*logs) for logs in rng.normal(0, 0.05, (60, 3))]
    best = max(range(60), key=lambda i: lucky[i].log)
    assert shrunk([(one, noise) for one in lucky])[best] < 0.4 * lucky[best].log
    real = [sums(log, log, log) for log in rng.normal(0.1, 0.2, 60)]
    for expected, one in zip(shrunk([(one, noise) for one in real]), real, strict=True):
        assert expected == pytest.approx(one.log, abs=0.05)
    (alone,) = shrunk([(sums(0.2, 0.2), noise)])
    assert 0.1 <= alone < 0.2


@given(st.floats(0.01, 2.0), st.floats(0.01, 0.2))
def test_what_is_thought_to_prove_a_gain_does(log: float, sd: float) -> None:
    """That many usual launches prove it, and one less does not."""
    noise = Noise(sd, 4.0)
    needed = launches.launches_to_prove(log, noise)
    told = {
        n: launches.verdict(launches.interval(Sums(n, log, 0.0, 0.0), noise))
        for n in launches.LOOKS
    }
    assert needed == next((n for n in told if told[n] is LaunchVerdict.FASTER), None)


def test_the_chance_of_a_proof_grows_with_the_gain() -> None:
    """A first launch without a gain leaves hardly a chance, one with a large gain all of it."""
    found = [
        launches.chance_of_proof(Sums(1, log, 0.0, math.nan), launches.MACHINE)
        for log in (-0.2, 0.0, 0.1, 0.5)
    ]
    assert found == sorted(found)
    assert found[0] < 0.05
    assert found[-1] > 0.95
    assert launches.chance_of_proof(Sums(2, 0.1, 0.0, 0.0), Noise(0.0, 4.0)) == 1.0
