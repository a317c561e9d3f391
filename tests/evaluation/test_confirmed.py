"""Confirming decisions from the record: what decides does not judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import join
from colltune.dataset.objective import Objective
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.errors import DataError
from colltune.evaluation import LeaveAllocationOut, LeaveNodesOut, evaluate_split
from colltune.evaluation.run import Record, halves, replay
from colltune.selector.confirming import Cell, ContestedInstance, Times
from tests.models.machines import CONTEXT, configuration, measured
from tests.refusals import refused

BCAST = Collective.BCAST
INSTANCE = Instance(BCAST, Shape(4, 1), 64)
DEFAULT = Configuration.default("openmpi", BCAST)
CHAIN, TREE = configuration("chain"), configuration("tree")
GRID = measured(nodes=(2, 4, 8, 16), ppn=(1, 4))


def _measured(configuration: Configuration, launch: str, *times_s: float) -> Measurement:
    return Measurement(INSTANCE, configuration, launch, RunStatus.OK, times_s)


def _dataset(*measurements: Measurement) -> PerformanceDataset:
    return PerformanceDataset.of(CONTEXT, measurements)


def test_launches_are_parted_before_repetitions() -> None:
    """Of three launches the first and third decide; the second alone judges, with all it has."""
    found = halves(_dataset(*(_measured(CHAIN, name, 1.0, 2.0) for name in "bca")))
    assert dict(found.deciding[CHAIN, INSTANCE]) == {"a": (1.0, 2.0), "c": (1.0, 2.0)}
    assert found.judging.frame["launch"].tolist() == ["b"]
    assert found.undivided == 0


def test_a_single_launch_is_parted_by_its_repetitions() -> None:
    """Every second repetition decides, the others judge."""
    found = halves(_dataset(_measured(CHAIN, "a", 1.0, 2.0, 3.0, 4.0)))
    assert dict(found.deciding[CHAIN, INSTANCE]) == {"a": (1.0, 3.0)}
    assert found.judging.frame["times_s"].tolist() == [(2.0, 4.0)]


def test_a_single_number_is_in_both_halves_which_is_told() -> None:
    """Where nothing can be parted the note says for how many cells, and what to do."""
    found = halves(_dataset(_measured(CHAIN, "a", 1.0), _measured(TREE, "a", 1.0, 2.0)))
    assert found.undivided == 1
    assert "1 of 2 cells" in found.note
    assert "--noise" in found.note


def test_what_failed_is_left_to_the_judging_half() -> None:
    """A crash is no evidence for a decision, and is not lost."""
    crash = Measurement(INSTANCE, TREE, "a", RunStatus.CRASH)
    found = halves(_dataset(_measured(CHAIN, "a", 1.0, 2.0), crash))
    assert (TREE, INSTANCE) not in found.deciding
    assert "crash" in set(found.judging.frame["status"])


def _record(times: Times, noise: float = 0.0) -> Record:
    return Record(times, noise, np.random.default_rng(0))


def test_launches_have_their_own_repetitions_and_noise() -> None:
    """Where noise is drawn, six launches share the record, each with a factor of its own."""
    cell = (CHAIN, INSTANCE)
    record = _record({cell: {"a": (1.0, 10.0, 2.0, 20.0)}}, noise=0.1)
    found = [record.launch(cell, number, 2) for number in range(3)]
    assert [launch for launch, _ in found] == ["a, 0", "a, 1", "a, 2"]
    for (_, times_s), first in zip(found, (1.0, 10.0, 1.0), strict=True):
        assert times_s[1] == pytest.approx(2 * times_s[0])
        assert times_s[0] == pytest.approx(first, rel=0.5)
        assert times_s[0] != first
    assert [record.has(cell, number) for number in (5, 6)] == [True, False]


def test_without_noise_there_are_the_recorded_launches_only() -> None:
    """A launch is never measured twice, and its times are as they are."""
    cell = (CHAIN, INSTANCE)
    record = _record({cell: {"a": (1.0, 2.0, 3.0)}})
    assert record.launch(cell, 0, 2) == ("a, 0", [1.0, 2.0])
    assert not record.has(cell, 1)


def _contest() -> ContestedInstance:
    return ContestedInstance(INSTANCE, DEFAULT, (CHAIN, TREE), 0, None, 1.5, 1.0)


def test_a_replay_measures_until_it_is_decided() -> None:
    """A gain that two launches prove takes two; what they cannot tell takes six, and their time."""
    default = {str(k): (1.0,) * 12 for k in range(8)}
    for time_s, launches in ((0.5, 2), (0.99, 6)):
        other = dict.fromkeys(default, (time_s,) * 12)
        record = _record({(DEFAULT, INSTANCE): default, (CHAIN, INSTANCE): other})
        (judged,), spent_s = replay([_contest()], record)
        assert judged.gain is not None
        assert judged.gain.launches == launches
        turns = judged.turns(1.0)
        assert spent_s == pytest.approx(launches * turns * (1.0 + time_s))


def test_a_replay_stays_within_its_budget() -> None:
    """What does not fit into the budget is not measured, and its decision stays predicted."""
    times = {"0": (1.0,) * 12}
    record = _record({(DEFAULT, INSTANCE): times, (CHAIN, INSTANCE): times})
    (judged,), spent_s = replay([_contest()], record, budget_s=1.0)
    assert (judged.status, spent_s) == ("predicted", 0.0)


def test_a_replay_ends_what_it_begins() -> None:
    """What one launch shows to gain much is proved before more is begun of the others."""
    sizes = [replace(INSTANCE, msize_bytes=size) for size in (64, 128, 256)]
    launches: dict[str, tuple[float, ...]] = dict.fromkeys("abcdef", (1.0,) * 12)
    times: dict[Cell, dict[str, tuple[float, ...]]] = {}
    for at, time_s in zip(sizes, (1.0, 0.5, 1.0), strict=True):
        times[DEFAULT, at] = launches
        times[CHAIN, at] = dict.fromkeys(launches, (time_s,) * 12)
    asked = [replace(_contest(), instance=at, candidates=(CHAIN,)) for at in sizes]
    judged, spent_s = replay(asked, _record(times), budget_s=13.0)
    assert [one.status for one in judged].count(Status.CONFIRMED) == 1
    assert judged[1].status is Status.CONFIRMED
    assert spent_s <= 13.0


def test_confirmed_decisions_are_shown_beside_predicted_ones() -> None:
    """Confirming harms less, gains no less, and costs a part of what measuring all does."""
    found = evaluate_split(
        GRID, LeaveNodesOut(), learners=("knn",), guard=False, confirm=True, with_references=False
    )
    assert found.learners == ("knn", "knn, confirmed")
    before, after = (found.scores[name]["all"] for name in found.learners)
    assert after.harm_share <= before.harm_share
    assert (after.log_gain_share or 0) >= (before.log_gain_share or 0)
    assert before.confirm_cost is None
    assert 0 < (after.confirm_cost or 0) < 1
    assert "single number" in found.notes[0]


def test_what_decides_does_not_judge() -> None:
    """A gain that only the deciding launches have is confirmed, and counts as the loss it is."""

    def launch(name: str, factor: float) -> PerformanceDataset:
        frame = GRID.frame.assign(launch=name)
        frame["times_s"] = [()] * len(GRID)
        slow = frame["algorithm"] != "default"
        times = frame["time_s"].where(~slow, frame["time_s"] * factor)
        return replace(GRID, frame=frame.assign(time_s=times))

    data = join([launch("a", 0.01), launch("b", 100.0), launch("c", 0.01)])
    found = evaluate_split(
        data,
        LeaveNodesOut(),
        learners=("knn",),
        objective=Objective.MEDIAN,
        confirm=True,
        with_references=False,
    )
    chosen = ~found.decided["knn, confirmed"].kept
    assert chosen.any()
    assert found.scores["knn, confirmed"]["all"].slower_share == pytest.approx(chosen.mean())


def test_noise_is_drawn_by_the_seed() -> None:
    """The same seed confirms the same; noise makes some gains too small to be proved."""

    def kept(noise: float, seed: int) -> list[bool]:
        found = evaluate_split(
            GRID,
            LeaveNodesOut(),
            learners=("knn",),
            noise=noise,
            seed=seed,
            confirm=True,
            with_references=False,
        )
        return list(found.decided["knn, confirmed"].kept)

    noisy = kept(0.3, 1)
    assert noisy == kept(0.3, 1)
    assert np.mean(noisy) > np.mean(kept(0.0, 1))


def test_a_split_that_takes_launches_apart_has_no_second_half() -> None:
    """Leaving an allocation out leaves nothing to judge by, which is said."""
    with refused("no-second-half", DataError, split="leave-allocation-out"):
        evaluate_split(GRID, LeaveAllocationOut(), learners=("knn",), confirm=True)
