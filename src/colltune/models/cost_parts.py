"""What a predicted time is made of, where the model knows; numpy only."""

from __future__ import annotations

from colltune.domain import Configuration, Instance
from colltune.models.cost_model import Instances
from colltune.models.predictors.corrected_costs import CorrectedCosts
from colltune.models.predictors.costs import Costs
from colltune.models.runtime_model import CollectiveModel

LEARNED = "learned on top of the cost"


def breakdown(
    model: CollectiveModel, configuration: Configuration, instance: Instance
) -> list[tuple[str, float]]:
    """Return named parts of a configuration's predicted time, in seconds, which add up to it.

    Empty where the model has no cost of the configuration that it trusts wholly. What was learned
    on top of a cost is the last part, and negative where the cost is too high.

    Raises
    ------
    BundleError
        If the configuration was never measured.
    """
    shape = instance.shape
    predicted = model.model(configuration).predict(shape.nodes, shape.ppn, instance.msize_bytes)[0]
    predictor = model.predictor
    if not isinstance(predictor, Costs | CorrectedCosts):
        return []
    try:
        parts = predictor.breakdown(
            configuration, Instances.of(shape.nodes, shape.ppn, instance.msize_bytes)
        )
    except ValueError:
        return []
    named = [(name, float(seconds[0])) for name, seconds in parts if seconds[0] > 0]
    if isinstance(predictor, CorrectedCosts):
        rest = float(predicted[0]) - sum(seconds for _, seconds in named)
        named.append((LEARNED, rest))
    return named
