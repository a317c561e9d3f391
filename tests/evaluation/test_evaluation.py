"""Two evaluations beside each other."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import Objective
from colltune.errors import DataError
from colltune.evaluation import (
    Evaluation,
    Extrapolation,
    LeaveNodesOut,
    Split,
    evaluate_split,
)
from colltune.evaluation.evaluation import compare
from tests.models.machines import measured

DATA = measured(nodes=(2, 4, 8, 16))
NAMES = ("a.json", "b.json")


@cache
def evaluated(
    learner: str, data: PerformanceDataset = DATA, *, split: Split | None = None, **changes: Any
) -> Evaluation:
    """Return an evaluation of the made-up machine, without the paper's learners."""
    asked = split or LeaveNodesOut()
    return evaluate_split(data, asked, learners=(learner,), with_references=False, **changes)


def test_learners_without_a_namesake_are_compared_in_order() -> None:
    """Two files with one learner each compare those two, over collectives and all together."""
    knn, gam = evaluated("knn"), evaluated("gam")
    (found,) = compare([knn], [gam], NAMES)
    assert (found.split, found.first, found.second) == ("leave-nodes-out", "knn", "gam")
    assert [d.collective for d in found.differences] == ["bcast", "all"]
    ratio = np.log(knn.decided["knn"].selected_s / gam.decided["gam"].selected_s).mean()
    assert found.differences[-1].speedup == pytest.approx(np.exp(ratio))
    share = [run.scores[name]["all"].log_gain_share for run, name in ((knn, "knn"), (gam, "gam"))]
    assert found.differences[-1].share == pytest.approx(share[1] - share[0])  # type: ignore[operator]


def test_runs_of_several_machines_find_their_counterparts() -> None:
    """Two runs of one split are told apart by their data; the same run differs in nothing."""
    other = replace(DATA, context=replace(DATA.context, machine="other"))
    both = [evaluated("knn"), evaluated("knn", other)]
    found = compare(both, both[::-1], NAMES)
    assert [{d.speedup for d in one.differences} for one in found] == [{1.0}, {1.0}]


def test_only_common_splits_are_compared() -> None:
    """Of two suites the splits that both have are compared."""
    more = evaluated("knn", split=Extrapolation())
    found = compare([evaluated("knn"), more], [more], NAMES)
    assert [c.split for c in found] == ["extrapolation"]


def test_what_is_not_comparable_is_refused(subtests: pytest.Subtests) -> None:
    """Other data, split, noise or limits: the error names both files and the difference."""
    for changes, message in (
        ({"data": measured(nodes=(2, 4, 8, 16), noise=0.01)}, "the data is"),
        ({"data": replace(DATA, context=replace(DATA.context, machine="other"))}, "the context"),
        ({"seed": 2}, "seed is 0 in the first and 2 in the second"),
        ({"noise": 0.1}, "noise is 0.0 in the first"),
        ({"judged_by": Objective.MEDIAN}, "--judge is trimmed-mean"),
        ({"max_nprocs": 32}, "--max-nprocs is not given"),
        ({"split": Extrapolation()}, "no split in common.*leave-nodes-out.*extrapolation"),
    ):
        with subtests.test(changes=changes, message=message):
            with pytest.raises(DataError, match=message) as caught:
                compare([evaluated("knn")], [evaluated("knn", **changes)], NAMES)
            assert "a.json" in str(caught.value)
            assert "b.json" in str(caught.value)


def test_other_instances_are_refused() -> None:
    """Neither other options of a split, nor other tested times under the same setup."""
    few, more = (evaluated("knn", split=Extrapolation(largest=k)) for k in (1, 2))
    with pytest.raises(DataError, match="the options"):
        compare([few], [more], NAMES)
    mine = evaluated("knn")
    other = replace(mine, tested=replace(mine.tested, default_s=mine.tested.default_s * 1.1))
    with pytest.raises(DataError, match="tested different instances or times"):
        compare([mine], [other], NAMES)
