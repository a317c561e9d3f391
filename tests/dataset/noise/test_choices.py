"""What statistics choose, and what the choice brings in other launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.noise import choices
from colltune.dataset.noise.choices import Statistic
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError
from tests.refusals import refused

CONTEXT = Context("hydra", "openmpi", "4.1.6")
BCAST = Collective.BCAST
# chosen by: the least, the median, the mean trimmed by one at either end, the mean
FIXED = {
    "chain": (1.0, 9.0, 9.0, 9.0, 9.0),
    "pipeline": (5.0, 5.0, 5.0, 20.0, 20.0),
    "binomial": (6.0, 6.0, 6.0, 6.0, 200.0),
    "knomial": (2.0, 8.0, 8.0, 8.0, 8.0),
}


def _dataset(times_s: Mapping[str, Mapping[str, tuple[float, ...]]]) -> PerformanceDataset:
    """Return what was measured of one instance: seconds by launch and algorithm."""
    instance = Instance(BCAST, Shape(2, 1), 8)
    measurements = [
        Measurement(
            instance, Configuration("openmpi", BCAST, algorithm), launch, RunStatus.OK, times
        )
        for launch, by_algorithm in times_s.items()
        for algorithm, times in by_algorithm.items()
    ]
    return PerformanceDataset.of(CONTEXT, measurements)


def test_each_statistic_chooses_what_it_makes_smallest() -> None:
    """Four repetition patterns, of which each statistic prefers another one."""
    (row,) = choices.chosen(_dataset({"a": FIXED})).to_dict("records")
    assert [row[name] for name in Statistic] == ["chain", "pipeline", "binomial", "knomial"]
    assert (row["nodes"], row["ppn"], row["msize_bytes"], row["launch"]) == (2, 1, 8, "a")


def test_disagreement_is_the_share_of_differing_choices() -> None:
    """Of two launches the statistics differ in one."""
    alone = {"chain": (1.0, 1.0, 1.0), "pipeline": (2.0, 2.0, 2.0)}
    shares = choices.disagreement(choices.chosen(_dataset({"a": FIXED, "b": alone})))
    assert shares.to_numpy().tolist() == (0.5 * (1 - np.eye(4))).tolist()


def test_a_launch_with_one_configuration_chooses_nothing() -> None:
    """Where there is nothing to choose from, that is an error."""
    with refused("nothing-to-choose", DataError):
        choices.chosen(_dataset({"a": {"chain": (1.0,)}, "b": {"pipeline": (2.0,)}}))


def test_a_certain_gain_is_promised_and_brought() -> None:
    """Without noise a configuration that takes half the default's time brings a factor of 2."""
    times = {"default": (2.0,) * 3, "chain": (1.0,) * 3}
    dataset = _dataset(dict.fromkeys("abcd", times))
    for payoff in choices.payoffs(dataset, [1, 3]):
        found = (payoff.promised, payoff.gained, payoff.low, payoff.high)
        assert found == pytest.approx((2.0, 2.0, None, None))
        assert payoff.instances == 1


def _noise_alone(launches: int = 12, instances: int = 60) -> PerformanceDataset:
    """Return times of six configurations that are all alike, up to the noise of launches."""
    rng = np.random.default_rng(5)
    names = ("default", "a", "b", "c", "d", "e")
    one = _dataset({"a": dict.fromkeys(names, (1.0,))}).frame
    count = launches * instances
    frame = pd.concat([one] * count, ignore_index=True)
    times = np.exp(rng.normal(0, 0.2, len(frame)))
    columns = dict.fromkeys(("time_s", "time_mean_s", "time_min_s", "time_p90_s"), times)
    frame = frame.assign(
        **columns,
        times_s=pd.Series([(time,) for time in times.tolist()], dtype=object),
        launch=np.repeat([f"{number // instances:02d}" for number in range(count)], len(names)),
        msize_bytes=np.repeat([number % instances for number in range(count)], len(names)),
        nodes=np.repeat([2 + number % instances % 6 for number in range(count)], len(names)),
    )
    return PerformanceDataset(CONTEXT, frame)


def test_the_luck_of_few_launches_promises_what_it_does_not_bring() -> None:
    """Where all configurations are alike, one launch promises 25 %, seven less; nothing is won."""
    one, seven = choices.payoffs(_noise_alone(), [1, 7], [Statistic.MEDIAN])
    # the greatest of six standard normal values is 1.27 on average, less the default's own
    assert one.promised == pytest.approx(np.exp(0.2 * 1.27), rel=0.03)
    assert 1.05 < seven.promised < 1.15
    for payoff in (one, seven):
        assert payoff.low is not None
        assert payoff.high is not None
        assert payoff.low < 1 < payoff.high
        assert payoff.gained == pytest.approx(1, abs=0.02)


def test_the_same_seed_gives_the_same() -> None:
    """Launches are drawn by the seed alone."""
    dataset = _noise_alone(4, 5)
    assert choices.payoffs(dataset, [1, 2]) == choices.payoffs(dataset, [1, 2])
    assert choices.payoffs(dataset, [1], seed=1) != choices.payoffs(dataset, [1])


def test_a_launch_must_be_left_to_pay_in(subtests: pytest.Subtests) -> None:
    """Two launches can be chosen by one alone."""
    for count in (0, 2, 3):
        with subtests.test(count=count):
            dataset = _dataset({launch: {"default": (2.0,), "chain": (1.0,)} for launch in "ab"})
            with refused("launches-to-choose", DataError, n_launches="2 launches"):
                choices.payoffs(dataset, [count])


def test_without_a_default_there_is_no_gain() -> None:
    """A speed-up needs the library's own choice."""
    dataset = _dataset({launch: {"knomial": (2.0,), "chain": (1.0,)} for launch in "ab"})
    with refused("no-instance-to-judge", DataError):
        choices.payoffs(dataset, [1])


def test_a_summary_without_the_statistic_is_refused() -> None:
    """The mean of imported times cannot be guessed from a median."""
    dataset = _dataset({"a": {"default": (2.0, 3.0), "chain": (1.0, 2.0)}})
    frame = dataset.frame.assign(time_mean_s=np.nan)
    frame["times_s"] = pd.Series([(), ()], dtype=object)
    with refused("objective-unknown", DataError):
        choices.chosen(replace(dataset, frame=frame))
