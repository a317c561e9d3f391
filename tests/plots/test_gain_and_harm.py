"""The picture of what guards cost and save."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Collective
from colltune.errors import DataError
from colltune.evaluation import ALL, LeaveNodesOut, evaluate_split
from colltune.evaluation.guard_effect import guard_effects
from colltune.plots.gain_and_harm import draw
from tests.models.machines import measured


def test_the_same_models_decide_with_and_without_guard() -> None:
    """Both figures are those of separate evaluations, from one fit."""
    data = measured(nodes=(2, 3, 4, 6), ppn=(1, 2), collectives=(Collective.BCAST,))
    (effect,) = guard_effects(data, LeaveNodesOut(), learners=("knn",), noise=0.2, seed=3)
    for guard, found in ((True, effect.guarded), (False, effect.unguarded)):
        run = evaluate_split(
            data,
            LeaveNodesOut(),
            learners=("knn",),
            noise=0.2,
            seed=3,
            guard=guard,
            with_references=False,
        )
        alone = run.scores["knn"][ALL]
        together = found[ALL]
        assert (together.log_gain_share, together.slower_share, together.default_share) == (
            alone.log_gain_share,
            alone.slower_share,
            alone.default_share,
        )
    assert effect.guarded[ALL].default_share > effect.unguarded[ALL].default_share


def test_an_unknown_learner_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(DataError, match="unknown learner 'nn'; known: knn"):
        guard_effects(measured(nodes=(2, 3, 4)), LeaveNodesOut(), learners=("nn",))


def test_points_lie_where_gain_and_harm_are() -> None:
    """A line leads from the decisions without guard to those with it, references stand alone."""
    data = measured(nodes=(2, 3, 4, 6), ppn=(1,), collectives=(Collective.BCAST,))
    effects = guard_effects(data, LeaveNodesOut(), learners=("knn",), noise=0.3)
    figure = draw(effects, {"other": effects[0].unguarded}, "on $this$")
    (panel,) = figure.axes
    way, _, _, other, *_ = panel.lines
    scores = [effects[0].unguarded[ALL], effects[0].guarded[ALL]]
    assert np.asarray(way.get_xdata()).tolist() == [100 * s.slower_share for s in scores]
    assert np.asarray(way.get_ydata()).tolist() == [100 * (s.log_gain_share or 0) for s in scores]
    assert np.asarray(other.get_xdata()).tolist() == [100 * scores[0].slower_share]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["knn", "other"]
