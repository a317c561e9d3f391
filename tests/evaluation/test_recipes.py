"""Who decides, and what is shown beside the learners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from colltune.dataset.objective import Objective
from colltune.domain import Collective, Instance, Shape
from colltune.evaluation import Extrapolation, LeaveNodesOut, evaluate_split
from colltune.evaluation.folds import Fold
from colltune.evaluation.recipes import Baseline
from colltune.models.cells import cell_matrices
from tests.models.machines import configuration, measured

LARGE = Instance(Collective.BCAST, Shape(16, 4), 4194304)
REFERENCES = ["published_knn", "published_gam", "published_xgboost"]


def test_baselines_are_always_shown() -> None:
    """Default, single best, oracle, and the paper's three stand before learners."""
    found = evaluate_split(measured(nodes=(2, 4, 8)), Extrapolation(), learners=("knn",))
    baselines = ["default", "single_best", "virtual_best", *REFERENCES]
    assert list(found.scores) == [*baselines, "knn"]
    assert found.learners == ("knn",)
    (note,) = found.notes
    assert note.startswith("published_gam is pygam's, not mgcv's")


def test_a_published_learner_that_is_asked_for_is_shown_once() -> None:
    """It then decides as `fit` and `select` use it, with the guard."""
    names = ("published_knn",)
    found = evaluate_split(measured(nodes=(2, 4, 8)), Extrapolation(), learners=names)
    assert found.learners == names
    assert sorted(found.scores).count("published_knn") == 1


def test_what_cannot_be_fitted_is_left_to_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that fails altogether decides for the default in that fold, and says why."""

    def refuse(*_: object) -> None:
        raise ValueError("no convergence")

    monkeypatch.setattr("colltune.models.learners.gam.fit", refuse)
    found = evaluate_split(measured(nodes=(2, 4, 8)), LeaveNodesOut(), learners=("gam",), jobs=1)
    for name in ("gam", "published_gam"):
        assert found.decided[name].kept.all()
        assert any(
            note.startswith(f"{name}: ") and "no convergence" in note for note in found.notes
        )


def test_baselines_choose_by_what_was_measured() -> None:
    """The default never changes, single best is one for all, the oracle knows each instance."""

    def rarely(algorithm: str, instance: Instance) -> bool:
        return algorithm == "scatter_allgather" and instance != LARGE

    for data, single in ((measured(), "binomial"), (measured(left_out=rarely), "binomial")):
        cells = cell_matrices(data)[Collective.BCAST]
        best = [
            min((time_s, c.id) for time_s, c in zip(row, cells.configurations, strict=True))[1]
            for row in np.nan_to_num(cells.time_s, nan=np.inf).tolist()
        ]
        fold = Fold("all", cells, cells, np.zeros_like(cells.time_s))
        expected = {
            "default": [configuration("default").id] * len(cells),
            "single_best": [configuration(single).id] * len(cells),
            "virtual_best": best,
        }
        for name, ids in expected.items():
            chosen = Baseline(name).decide(data.context, fold, None).chosen
            assert [c.id for c in chosen] == ids, name


def test_every_selector_is_judged_by_measured_times() -> None:
    """What cannot be run on 8 nodes is the default's time there, for learners and baselines."""

    def left_out(algorithm: str, instance: Instance) -> bool:
        return algorithm == "scatter_allgather" and instance.shape.nodes == 8

    found = evaluate_split(
        measured(nodes=(2, 4, 8), left_out=left_out), LeaveNodesOut(), learners=("knn",)
    )
    there = found.tested.nodes == 8
    for decided in found.decided.values():
        assert np.isfinite(decided.selected_s).all()
        chosen = np.array(["scatter_allgather" in name for name in decided.configuration])
        assert (decided.unmeasured == (chosen & there)).all()
        alike = decided.selected_s[chosen & there] == found.tested.default_s[chosen & there]
        assert alike.all()
    assert found.decided["published_gam"].unmeasured.any()
    assert not found.decided["virtual_best"].unmeasured.any()


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    """One process and two decide the same."""
    data = measured(nodes=(2, 3, 4, 6, 8, 12, 16, 24, 32), ppn=(1, 2, 4, 8), noise=0.2)

    def run(jobs: int) -> dict[str, Any]:
        found = evaluate_split(
            data, Extrapolation(), learners=("xgboost",), with_references=False, jobs=jobs
        )
        return {name: one.configuration for name, one in found.decided.items()}

    assert run(1) == run(2)


def test_progress_counts_folds_times_recipes() -> None:
    """Every fold of every recipe is reported once, in order."""
    calls: list[tuple[int, int, str]] = []
    evaluate_split(
        measured(nodes=(2, 4, 8)),
        LeaveNodesOut(),
        learners=("knn",),
        with_references=False,
        progress=lambda *told: calls.append(told),
    )
    assert [call[:2] for call in calls] == [(k, 12) for k in range(13)]
    assert calls[3][2] == "bcast, without nodes 2: knn"
    assert calls[12][2] == ""


def test_what_is_learned_need_not_be_what_is_judged() -> None:
    """Means are learned and medians judged, if asked for; by default both are the objective."""
    data = measured(nodes=(2, 4, 8))
    chain = data.frame["algorithm"] == "scatter_allgather"
    mean = data.frame["time_s"].where(~chain, data.frame["time_s"] * 1000)
    frame = data.frame.assign(time_mean_s=mean)
    frame["times_s"] = [()] * len(data)
    data = replace(data, frame=frame)
    shares = {}
    for objective, judge in ((_MEDIAN, _MEDIAN), (_MEAN, _MEDIAN), (_MEAN, None)):
        found = evaluate_split(
            data,
            LeaveNodesOut(),
            learners=("knn",),
            objective=objective,
            judged_by=judge,
            with_references=False,
        )
        chosen = found.decided["virtual_best"].configuration
        assert any("scatter" in name for name in chosen) is (judge is _MEDIAN)
        assert (found.objective, found.setup.judged_by) == (objective, judge or objective)
        shares[objective, judge] = found.scores["knn"]["all"].log_gain_share or 0.0
    assert shares[_MEDIAN, _MEDIAN] > shares[_MEAN, _MEDIAN] + 0.1
    assert shares[_MEAN, None] > 0.8


_MEAN, _MEDIAN = Objective.MEAN, Objective.MEDIAN
