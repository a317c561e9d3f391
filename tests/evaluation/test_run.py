"""Scores of selectors on node counts not trained on."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import cache
from typing import Any

import numpy as np
import pytest

from colltune.domain import Collective, Instance
from colltune.errors import DataError
from colltune.evaluation import LeaveNodesOut, NodeCounts, Score, evaluate_split
from colltune.mpi.programs import ANY_LEGAL
from tests.models.machines import FORMULAS, MSIZES, configuration, measured
from tests.refusals import refused

BOTH = (Collective.ALLREDUCE, Collective.BCAST)
DATA = measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2, 4), collectives=BOTH)
TRAIN, TEST = (2, 4, 8, 16), (3, 6, 12)
METRICS = {field.name for field in fields(Score)}


@cache
def evaluated(**changes: Any) -> dict[str, Any]:
    """Return the report on the made-up machine."""
    split = NodeCounts(changes.pop("train_nodes", TRAIN), changes.pop("test_nodes", TEST))
    arguments: dict[str, Any] = {"learners": ("gam",), "with_references": False}
    found = evaluate_split(DATA, split, **(arguments | changes))
    selectors = {
        name: {collective: asdict(score) for collective, score in rows.items()}
        for name, rows in found.scores.items()
    }
    return vars(found) | {"selectors": selectors}


def test_report_has_stable_keys_and_is_json() -> None:
    """Selectors, collectives and metrics are named as documented, and survive JSON."""
    report = evaluated(learners=("knn", "gam"))
    assert str(report["setup"].context) == "made-up, openmpi 4.1.4"
    assert (report["train_nodes"], report["test_nodes"]) == ((2, 4, 8, 16), (3, 6, 12))
    selectors = json.loads(json.dumps(report["selectors"]))
    assert list(selectors) == ["default", "single_best", "virtual_best", "knn", "gam"]
    for rows in selectors.values():
        assert list(rows) == ["allreduce", "bcast", "all"]
        assert all(set(row) == METRICS for row in rows.values())
        assert rows["all"]["instances"] == 2 * 3 * 3 * 6


def test_figures_follow_from_the_formulas() -> None:
    """Oracle and default score what the machine's formulas say; the oracle's share is one."""
    selectors = evaluated()["selectors"]
    ratios = np.array(
        [
            FORMULAS["default"](n * p, m) / min(f(n * p, m) for f in FORMULAS.values())
            for n in TEST
            for p in (1, 2, 4)
            for m in MSIZES
        ]
    )
    oracle, default = selectors["virtual_best"]["all"], selectors["default"]["all"]
    assert oracle["geometric_mean_speedup"] == pytest.approx(np.exp(np.log(ratios).mean()))
    assert oracle["arithmetic_mean_speedup"] == pytest.approx(ratios.mean())
    assert (oracle["log_gain_share"], oracle["mean_regret"], oracle["slower_share"]) == (1, 1, 0)
    assert default["log_gain_share"] == 0
    assert default["default_share"] == 1
    assert default["mean_regret"] == pytest.approx(ratios.mean())
    assert default["p95_regret"] == pytest.approx(np.quantile(np.tile(ratios, 2), 0.95))


def test_a_learner_comes_near_the_oracle() -> None:
    """On a smooth machine the additive model gets nearly all of the gain, harming next to none."""
    scores = evaluated()["selectors"]["gam"]["all"]
    assert 0.9 < scores["log_gain_share"] <= 1
    assert scores["slower_share"] < 0.03
    assert scores["fit_s"] > 0


def test_guard_never_decides_more_often_against_the_default() -> None:
    """With the guard, more instances keep the default and fewer are slower than it."""
    noisy = {"noise": 0.3, "seed": 1}
    free, guarded = (evaluated(guard=g, **noisy)["selectors"]["gam"]["all"] for g in (False, True))
    assert guarded["default_share"] > free["default_share"]
    assert guarded["slower_share"] <= free["slower_share"]


def test_noise_is_put_on_training_alone_and_repeatable() -> None:
    """One seed gives one result, another seed another, and the oracle never changes."""
    run = evaluated.__wrapped__
    runs = [run(learners=("knn",), noise=0.3, seed=s)["selectors"] for s in (1, 1, 2)]
    first, second, other = runs
    key = "geometric_mean_speedup"
    assert first["knn"]["all"][key] == second["knn"]["all"][key] != other["knn"]["all"][key]
    assert first["virtual_best"]["all"][key] == other["virtual_best"]["all"][key]


def test_processes_can_be_limited() -> None:
    """Instances of more processes than asked for are neither trained on nor tested."""
    report = evaluated(learners=("knn",), max_nprocs=12)
    assert report["selectors"]["default"]["bcast"]["instances"] == 6 * (3 + 2 + 1)


def test_a_choice_that_was_not_measured_counts_as_the_default() -> None:
    """A winner without a time on the test instances has the default's, and is counted."""

    def untested(algorithm: str, instance: Instance) -> bool:
        return algorithm == "scatter_allgather" and instance.shape.nodes in TEST

    data = measured(nodes=(*TRAIN, *TEST), left_out=untested)
    found = evaluate_split(
        data, NodeCounts(TRAIN, TEST), learners=("gam",), guard=False, with_references=False
    )
    decided = found.decided["gam"]
    chosen = np.array(decided.configuration) == configuration("scatter_allgather").id
    assert chosen.any()
    assert (decided.unmeasured == chosen).all()
    assert (decided.selected_s[chosen] == found.tested.default_s[chosen]).all()
    assert not decided.kept[chosen].any()
    assert found.scores["gam"]["all"].unmeasured == chosen.sum()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"train_nodes": (2, 5)}, "not-in-data option=--train-nodes missing=5"),
        ({"test_nodes": (99, 100)}, "not-in-data option=--test-nodes"),
        ({"test_nodes": ()}, "not-in-data option=--test-nodes"),
        ({"test_nodes": (3, 4)}, "trained-and-tested nodes=4"),
        ({"learners": ("forest",)}, "unknown what=learner name=forest"),
    ],
)
def test_a_split_that_makes_no_sense_is_explained(changes: dict[str, Any], code: str) -> None:
    """Node counts that are missing or doubled, and unknown learners, are named."""
    with refused(code, DataError):
        evaluated(**changes)


def test_without_a_measured_default_there_is_nothing_to_evaluate() -> None:
    """Data without the default has no baseline, which is an error and not a zero."""
    data = measured(algorithms=("linear", "binomial"))
    with refused("no-folds", DataError):
        evaluate_split(data, NodeCounts((2, 4), (8,)))


def test_leaving_one_out_tests_every_node_count_once() -> None:
    """All instances of all node counts are tested, each trained on the others."""
    data = measured(nodes=(2, 4, 8))
    result = evaluate_split(data, LeaveNodesOut(), learners=("knn",), with_references=False)
    assert result.scores["knn"]["all"].instances == 3 * 2 * 6
    with refused("no-folds", DataError):
        evaluate_split(measured(nodes=(2, 4)), LeaveNodesOut())


def test_what_harms_the_programs_can_be_chosen_by_nobody() -> None:
    """Neither by a learner nor by a baseline; without a promise all that was measured can."""
    chosen = {}
    for programs in (None, ANY_LEGAL):
        found = evaluate_split(
            measured(), LeaveNodesOut(), learners=("knn",), with_references=False, programs=programs
        )
        told = {c for one in found.decided.values() for c in one.configuration}
        chosen[programs] = {c.partition(".")[2] for c in {*told, *found.tested.best}}
        assert found.setup.programs == (None if programs is None else "any-legal")
        assert bool(found.notes) == (programs is not None)
    assert chosen[None] - chosen[ANY_LEGAL] == {"bcast.scatter_allgather"}
