"""Nothing, one launch, one job, and what is no number, are never told as "no difference"."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.evidence import (
    arms,
    components,
    launches,
    repetitions,
)
from colltune.evidence.arms import Arms, Seen, Usual
from colltune.evidence.components import changed, clustered
from colltune.evidence.launches import GainInterval, LaunchGain, LaunchVerdict, Noise, Sums

WALKED = {
    arms: {"usual_of"},
    launches: {
        *("discoveries", "rejected"),
        *("at_one_look", "averaged", "chance_of_proof", "chance_of_slower", "error", "interval"),
        *(
            "of_one_launch",
            "launch_gain",
            "launches_to_prove",
            "leading",
            "likeness",
            "pooled",
            "shrunk",
            "told",
            "usual",
        ),
        *("allowed_variance", "ends_of_variance", "held", "noticeable", "sd_behind", "verdict"),
    },
    components: {
        *("allocation_medians", "changed", "clustered", "component", "contrasts"),
        *("level_of", "paired"),
    },
    repetitions: {
        *("independent_reps", "median_factor", "rank_autocorrelation", "robust_sd", "sd_of_p90"),
    },
}
NO_TIMES = st.lists(st.sampled_from([math.nan, math.inf, 0.0, -1.0]), max_size=3)
NOISES = st.builds(Noise, st.floats(0.0, 2.0), st.floats(1.0, 40.0))
ONE = st.builds(LaunchGain, st.floats(-3, 3), st.just(math.nan), st.just(1))


def test_every_function_is_walked() -> None:
    """A function that is added to the package is added here."""
    for module, known in WALKED.items():
        public = {
            name
            for name, made in inspect.getmembers(module, inspect.isfunction)
            if made.__module__ == module.__name__ and not name.startswith("_")
        }
        assert public == known


@given(NO_TIMES, NO_TIMES)
def test_times_that_are_none_make_no_gain(default: list[float], other: list[float]) -> None:
    """Not one turn, a clock that stood still, a time that is no number: None."""
    assert launches.launch_gain([default], [other]) is None
    assert launches.launch_gain([default], [[1.0]]) is None
    assert launches.launch_gain([], [[1.0]]) is None


@given(ONE, NOISES)
def test_one_launch_proves_nothing(gain: LaunchGain, noise: Noise) -> None:
    """However large the gain and however small the noise of others."""
    sums = Sums.of([gain])
    assert sums is not None
    for sequence in (False, True):
        found = launches.interval(sums, noise, sequence=sequence)
        assert launches.verdict(found) is LaunchVerdict.NOT_COMPARED
    assert launches.at_one_look(sums, noise) is None
    assert launches.chance_of_slower(sums, noise) is None
    assert 0 <= launches.chance_of_proof(sums, noise) <= 1
    assert launches.told([1], [0.0]) is launches.usual([1], [0.0]) is None


def test_no_launch_is_no_sum_and_no_verdict() -> None:
    """What has no launch has no interval; noise is what was known before."""
    assert Sums.of([]) is None
    assert launches.interval(None, launches.MACHINE) is None
    assert launches.verdict(None) is LaunchVerdict.NOT_COMPARED
    assert launches.verdict(GainInterval(0.0, math.nan, math.nan, 2)) is LaunchVerdict.NOT_COMPARED
    assert launches.leading({}, launches.MACHINE) == set()
    assert launches.shrunk([]) == []
    for gains in ({}, {"a": 0.1, "b": 0.2}, {"a": 0.0, "b": 0.0, "c": 0.0}):
        assert math.isnan(launches.likeness([[gains]]))
    assert math.isnan(launches.likeness([]))
    assert launches.of_one_launch([], [math.nan], together=True) == launches.MACHINE
    assert launches.told([], []) is launches.usual([], []) is None
    assert launches.averaged([]) == launches.averaged([None]) == launches.MACHINE
    nothing: tuple[list[list[Sums | None]], ...] = ([], [[]], [[None]])
    for sets in nothing:
        assert launches.pooled(sets) == launches.MACHINE
    assert launches.pooled([[Sums(1, 0.0, 0.0, math.nan)]]) == launches.MACHINE


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=2))
def test_fewer_than_three_clusters_have_no_interval(values: list[float]) -> None:
    """Neither have numbers that are none, however many clusters there are."""
    assert clustered(values, [1.0] * len(values), range(len(values))) is None
    assert clustered([*values, math.nan, 1.0, 1.0], [1.0] * (len(values) + 3), [0] * 0) is None


@pytest.mark.parametrize("values", [[], [math.nan] * 3])
def test_nothing_is_no_change(values: list[float]) -> None:
    """A level that nobody knows has not changed, nor stayed."""
    assert changed(values, [], 0.1) is None
    assert changed([], values, 0.1) is None
    assert changed([0.0, 0.1, 0.0], values, 0.1) is None
    assert changed(values, [0.0, 0.1, 0.0], 0.1) is None
    assert arms.BatchLevel().add(0.0) is None


@given(st.floats(-2, 2), st.booleans(), st.floats(0.05, 0.95))
def test_one_job_refutes_nothing(log_s: float, is_in: bool, probability: float) -> None:
    """No job and one job leave all effects possible, and say nothing of hours."""
    bets = Arms()
    assert bets.bounded() is bets.interval() is None
    usual = Usual(1, 0.0, 0.5, 1.0)
    one = Seen(log_s, usual, True, 1.0)
    assert bets.saved(one, is_in=is_in, probability=probability) is None
    bets.take([one], is_in=is_in, probability=probability)
    assert bets.interval() is None
    assert arms.usual_of(Usual(), Usual()) is None


def test_nothing_and_one_launch_have_no_component() -> None:
    """Without pairs of launches there is no noise between them, not none."""
    one = {"cell": [0], "instance": [0], "log_time": [0.0], "variance": [0.0], "launch": ["a"]}
    table = pd.DataFrame(one).assign(allocation="x")
    for rows in (table, table[:0]):
        pairs = components.paired(rows, ["allocation"], "launch")
        assert components.component(pairs, 2) is None
        assert components.Variances.comparing(rows) == components.Variances()


def test_what_was_never_repeated_has_no_spread() -> None:
    """Draws that are none hold nothing, and a variance of nothing tells no difference."""
    assert all(map(math.isnan, launches.held(np.array([math.nan, 1.0]), 0.9)))
    assert np.isnan(launches.noticeable(math.nan))
    assert math.isnan(repetitions.robust_sd(np.array([math.nan] * 5)))


def test_no_hypothesis_is_rejected_without_evidence() -> None:
    """Of none, and of those of which nothing is known."""
    assert launches.discoveries({}, 0.05) == launches.rejected({}) == set()
    assert launches.discoveries({"a": 0.0}, 0.05) == launches.rejected({"a": 1.0}) == set()
