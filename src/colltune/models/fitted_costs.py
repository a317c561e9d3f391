"""Where fitted costs come from: a bundle whose learner is a cost model, or measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colltune.errors import DataError
from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.cost_breakdown import Costs, FittedCost
from colltune.models.cost_model import NetworkParameters, Rails, RailUse
from colltune.models.learners import learner_entry
from colltune.models.predictors.costs import Costs as CostPredictor
from colltune.models.runtime_model import CollectiveModel

_LEARNER = "cost_model"


def of_model(model: CollectiveModel) -> Costs | None:
    """Return the costs that `model` rests on, None if it was learned otherwise."""
    return _costs(model.predictor) if isinstance(model.predictor, CostPredictor) else None


def of_cells(cells: CellMatrix) -> Costs:
    """Fit a cost model to measured cells.

    Raises
    ------
    DataError
        If it cannot be fitted to them.
    """
    entry = learner_entry(_LEARNER)
    features = feature_set(entry.feature_set)
    learner = entry.create_for(cells.configurations, features.columns)
    matrix = features.matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    try:
        predictor = learner.fit(matrix, np.where(cells.slow, np.inf, cells.time_s)).export()
    except ValueError as error:
        raise DataError(f"no cost model of {cells.collective} can be fitted: {error}") from error
    assert isinstance(predictor, CostPredictor)
    return _costs(predictor)


def network(costs: Costs, measured: Rails, rails: Rails) -> NetworkParameters | None:
    """Return the network that `costs` agree on, with `rails` instead of the `measured` ones.

    Each parameter is the median of those that are not 0. Bytes are those of one adapter: where
    every message used all of the measured ones, it is that many times slower. None where no
    algorithm's rounds are known.
    """
    vectors = np.array([cost.vector for cost in costs.values() if not cost.is_generic])
    if not len(vectors):
        return None
    common = [float(np.median(v[v > 0])) if (v > 0).any() else 0.0 for v in vectors.T]
    found = NetworkParameters.of(common, rails)
    if measured.use is RailUse.BINDING:
        return found
    one_s = found.inter.s_per_byte * measured.adapters
    return replace(found, inter=replace(found.inter, s_per_byte=one_s))


def _costs(predictor: CostPredictor) -> Costs:
    pairs = zip(predictor.configurations, predictor.vectors, strict=True)
    return {configuration: FittedCost.of(configuration, vector) for configuration, vector in pairs}
