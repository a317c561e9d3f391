"""Evaluations that count instances by an application's time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from colltune.dataset.profile import Profile, added_up, parse_profile
from colltune.domain import Collective
from colltune.errors import DataError
from colltune.evaluation import ALL, LeaveNodesOut, MessageSizes, evaluate_split
from colltune.evaluation.evaluation import compare, read, write
from colltune.evaluation.scores import scores
from tests.dataset.profiles import profile_text, row
from tests.models.machines import measured

BOTH = (Collective.BCAST, Collective.ALLREDUCE)
DATA = measured(collectives=BOTH, noise=0.02)
ROWS = (
    row("bcast", "8x4", 512, 100, 3e-3, msize=1000),
    row("bcast", "4x4", 1 << 18, 100, 2e-3),
    row("allreduce", "3x4", 8, 100, 1e-3),
)


def profile(*rows: str) -> Profile:
    """Return the profile of one run with these rows."""
    job, uses = parse_profile(profile_text(rows), "job.profile")
    return added_up([job], uses)


def test_only_what_the_application_uses_counts() -> None:
    """Tested are the instances nearest to the uses, in proportion to their time."""
    found = evaluate_split(
        DATA, LeaveNodesOut(), learners=("knn",), with_references=False, profile=profile(*ROWS)
    )
    tested = found.tested
    rows = zip(tested.collective, tested.nodes, tested.ppn, tested.msize_bytes, strict=True)
    assert list(rows) == [("bcast", 4, 4, 1 << 18), ("bcast", 8, 4, 1024)]
    by_time = 100 * np.array([16 * 2e-3, 32 * 3e-3])
    assert tested.weights == pytest.approx(by_time / by_time.mean())
    assert found.covered == pytest.approx(by_time.sum() / (by_time.sum() + 100 * 12 * 1e-3))
    assert any("the rest is in allreduce (" in note for note in found.notes)
    oracle, default = found.scores["virtual_best"][ALL], found.scores["default"][ALL]
    assert default.time_saved == 0
    saved = 1 - np.average(tested.best_s / tested.default_s, weights=by_time)
    assert oracle.time_saved == pytest.approx(saved)
    assert oracle.time_saved == oracle.oracle_time_saved


def test_folds_share_what_they_both_test() -> None:
    """The weights' sum is the covered time however often an instance is tested."""
    both = evaluate_split(
        DATA, MessageSizes(), learners=("knn",), with_references=False, profile=profile(ROWS[0])
    )
    assert len(both.tested) == 1
    assert both.covered == pytest.approx(1.0)
    assert both.tested.weights == pytest.approx([1.0])


def test_equal_weights_are_no_weights() -> None:
    """With the same weight for all, every figure is what it is without."""
    plain = evaluate_split(DATA, MessageSizes(), learners=("knn",), with_references=False)
    weighed = replace(plain.tested, weight=np.ones(len(plain.tested)))
    for decided in plain.decided.values():
        one = scores(plain.tested, decided)[ALL].as_dict()
        other = scores(weighed, decided)[ALL].as_dict()
        for name in one.keys() - {"time_saved", "oracle_time_saved", "p95_regret"}:
            assert other[name] == pytest.approx(one[name]), name
        assert other["p95_regret"] <= one["p95_regret"] * 1.2


def test_a_weight_of_two_is_the_instance_twice() -> None:
    """Doubling an instance's weight moves the mean as a second one like it would."""
    plain = evaluate_split(DATA, MessageSizes(), learners=("knn",), with_references=False)
    weight = np.ones(len(plain.tested))
    weight[3] = 2.0
    weighed = replace(plain.tested, weight=weight)
    decided = plain.decided["single_best"]
    ratio = plain.tested.default_s / decided.selected_s
    mean = np.append(ratio, ratio[3]).mean()
    assert scores(weighed, decided)[ALL].arithmetic_mean_speedup == pytest.approx(mean)


def test_results_keep_weights(tmp_path: Path) -> None:
    """A file of results has the weights, and is compared with those of the same profile only."""
    runs = [
        evaluate_split(
            DATA, LeaveNodesOut(), learners=("knn",), with_references=False, profile=used
        )
        for used in (profile(*ROWS), profile(ROWS[0]))
    ]
    (again,) = read(write(runs[:1], tmp_path / "one.json"))
    assert again.tested.weights == pytest.approx(runs[0].tested.weights)
    assert (again.setup, again.covered) == (runs[0].setup, runs[0].covered)
    assert again.scores["knn"][ALL].time_saved == pytest.approx(
        runs[0].scores["knn"][ALL].time_saved
    )
    assert compare([again], runs[:1], ("A", "B"))
    with pytest.raises(DataError, match="--profile"):
        compare(runs[:1], runs[1:], ("A", "B"))


def test_an_application_elsewhere_is_refused() -> None:
    """A profile that no tested instance stands for is an error that says what to measure."""
    for line in (
        row("scan", "8x4", 8, 1, 1e-3),
        row("bcast", "7x4", 8, 1, 1e-3),
        row("bcast", "8x4", 1 << 30, 1, 1e-3),
        row("bcast", "-", 8, 1, 1e-3, size=32),
    ):
        with pytest.raises(DataError, match="colltune measure --profile"):
            evaluate_split(DATA, LeaveNodesOut(), learners=("knn",), profile=profile(line), jobs=1)
