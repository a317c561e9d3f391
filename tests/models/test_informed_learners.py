"""What an informed learner is told before it is fitted."""

from __future__ import annotations

import pytest

from colltune.domain import Configuration
from colltune.features import feature_set
from colltune.models.fitting import fit
from colltune.models.learners import LEARNERS, LearnerEntry, Numbers, knn
from tests.models.machines import FORMULAS, configuration, measured

TOLD: list[tuple[tuple[Configuration, ...], tuple[str, ...]]] = []


def attentive(
    features: Numbers,
    times_s: Numbers,
    *,
    configurations: tuple[Configuration, ...],
    columns: tuple[str, ...],
) -> knn.Neighbours:
    """Learn nearest neighbours of each column, and keep what is told."""
    TOLD.append((configurations, columns))
    return knn.Neighbours.stacked([knn.fit(features, column) for column in times_s.T])


def test_an_informed_learner_is_told_configurations_and_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before each fit it hears which configuration each column is, in order, and the features."""
    monkeypatch.setitem(
        LEARNERS,
        "attentive",
        LearnerEntry(f"{__name__}:attentive", "rich", joint=True, informed=True),
    )
    fit(measured(), "attentive", jobs=1)
    configurations = tuple(configuration(name) for name in sorted(FORMULAS))
    assert set(TOLD) == {(configurations, feature_set("rich").columns)}
