"""What an informed learner is told before it is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import pytest

from colltune.domain import Configuration
from colltune.features import feature_set
from colltune.models.fitting import fit
from colltune.models.learners import LEARNERS, LearnerEntry
from colltune.models.predictors import Predictor
from colltune.models.published import NearestNeighbours
from colltune.models.regressor import Numbers
from tests.models.machines import FORMULAS, configuration, measured


class Attentive:
    """Predicts like nearest neighbours of the first configuration, and keeps what it was told."""

    told: ClassVar[list[tuple[tuple[Configuration, ...], tuple[str, ...]]]] = []

    def inform(self, configurations: Sequence[Configuration], columns: Sequence[str]) -> Self:
        """Keep what is told."""
        self.told.append((tuple(configurations), tuple(columns)))
        return self

    def fit(self, features: Numbers, times: Numbers) -> Self:
        """Fit nearest neighbours to each column."""
        self.fitted = [NearestNeighbours().fit(features, column) for column in times.T]
        return self

    def predict(self, features: Numbers) -> Numbers:
        """Return the first column's prediction."""
        return self.fitted[0].predict(features)

    def export(self) -> Predictor:
        """Return all columns' predictors side by side."""
        predictors = [learner.export() for learner in self.fitted]
        return type(predictors[0]).stacked(predictors)


def test_an_informed_learner_is_told_configurations_and_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before each fit it hears which configuration each column is, in order, and the features."""
    monkeypatch.setattr(Attentive, "told", [])
    monkeypatch.setitem(
        LEARNERS,
        "attentive",
        LearnerEntry(f"{__name__}:Attentive", "rich", joint=True, informed=True),
    )
    fit(measured(), "attentive", jobs=1)
    configurations = tuple(configuration(name) for name in sorted(FORMULAS))
    assert set(Attentive.told) == {(configurations, feature_set("rich").columns)}
