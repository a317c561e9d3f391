"""What `colltune explain --bundle` adds: predicted times and cost terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltune.cli.console import time_text
from colltune.cli.cost_terms import GENERIC, side_by_side, terms_json, terms_table
from colltune.decisions import Prediction, Selection
from colltune.domain import Configuration, Instance, Shape
from colltune.errors import BundleError
from colltune.selector.selection_json import selection_json

if TYPE_CHECKING:
    from colltune.models.bundle import Bundle
    from colltune.models.cost_breakdown import Costs, Share
    from colltune.mpi.file_format import Call


@dataclass(frozen=True)
class Part:
    """One configuration's predicted time and cost terms; None and empty where not known."""

    configuration: Configuration
    prediction: Prediction | None
    terms: tuple[Share, ...]

    @property
    def name(self) -> str:
        """Algorithm and parameters."""
        return self.configuration.short


@dataclass(frozen=True)
class ExplainedCosts:
    """What runs first, then the default if that is something else; by `source`, if any.

    ``decision`` is what the bundle decides there itself.
    """

    shape: Shape
    decision: Selection
    extrapolated: bool
    source: str | None
    parts: tuple[Part, ...]


def explained_costs(
    path: Path, data: Sequence[Path], call: Call, configuration: Configuration
) -> ExplainedCosts:
    """Return the costs of a call that runs `configuration`, by the bundle at `path`.

    Parameters
    ----------
    data
        Measurements to fit a cost model to, where the bundle's learner is none.

    Raises
    ------
    BundleError
        If the bundle cannot be read, is of another library, or lacks the collective.
    DataError
        If `data` cannot be read or are not those of the bundle's machine.
    """
    from colltune.cli.fitted_costs import costs_of
    from colltune.models.bundle import load
    from colltune.selector.argmin import ModelSelector

    bundle = load(path, (call.collective,))
    if configuration.library != bundle.context.library:
        raise BundleError(
            f"{path}: a bundle of {bundle.context.library}, but the file is of"
            f" {configuration.library}; name a bundle of that library"
        )
    costs, source = costs_of(bundle, call.collective, data)
    shape = Shape(call.nodes, -(-call.comm_size // call.nodes))
    default = Configuration.default(configuration.library, call.collective)
    forecast = bundle.model(call.collective).forecast(shape.nodes, shape.ppn, call.msize_bytes)
    parts = tuple(
        _part(bundle, costs, one, shape, call) for one in dict.fromkeys((configuration, default))
    )
    decision = ModelSelector(bundle).select(Instance(call.collective, shape, call.msize_bytes))
    return ExplainedCosts(shape, decision, bool(forecast.extrapolated[0]), source, parts)


def _part(
    bundle: Bundle, costs: Costs, configuration: Configuration, shape: Shape, call: Call
) -> Part:
    from colltune.models.cost_breakdown import shares
    from colltune.models.cost_model import ONE_RAIL, Instances

    model = bundle.model(call.collective)
    prediction = None
    if configuration in model.configurations:
        ends = model.model(configuration).predict(shape.nodes, shape.ppn, call.msize_bytes)
        prediction = Prediction(*(float(end[0]) for end in ends))
    cost = costs.get(configuration)
    if cost is None:
        return Part(configuration, prediction, ())
    at = Instances.of(shape.nodes, shape.ppn, call.msize_bytes)
    seconds = cost.by_coefficient_s(at, ONE_RAIL)[0]
    return Part(configuration, prediction, shares(seconds, generic=cost.is_generic))


def text(costs: ExplainedCosts) -> str:
    """Return the table for people."""
    return "\n".join(_lines(costs))


def _lines(costs: ExplainedCosts) -> Iterator[str]:
    decision = costs.decision
    yield (
        f"The bundle's own decision there is {decision.configuration.short}, {decision.status}:"
        f" {decision.reason}."
    )
    yield ""
    heads = [part.name for part in costs.parts]
    beyond = ", outside what was measured" if costs.extrapolated else ""
    yield f"Predicted by the bundle's models on {costs.shape}{beyond}:"
    yield side_by_side(heads, [["time", *(_predicted(part.prediction) for part in costs.parts)]])
    yield ""
    if costs.source is None:
        yield (
            "What the time is made of takes a cost model: name measurements with --data, or a"
            " bundle of the learner cost_model."
        )
        return
    yield f"Cost terms by {costs.source}:"
    yield terms_table(heads, [part.terms for part in costs.parts])
    yield from (
        f"(of {part.configuration.id} nothing was measured, so that its terms are not known)"
        for part in costs.parts
        if not part.terms
    )
    if any(part.configuration.is_default and part.terms for part in costs.parts):
        yield GENERIC


def _predicted(prediction: Prediction | None) -> str:
    if prediction is None:
        return "not known"
    low, high = time_text(prediction.lower_s), time_text(prediction.upper_s)
    return f"{time_text(prediction.time_s)} ({low} .. {high})"


def as_json(costs: ExplainedCosts) -> dict[str, Any]:
    """Return the same for machines."""
    return {
        "nodes": costs.shape.nodes,
        "ppn": costs.shape.ppn,
        "extrapolated": costs.extrapolated,
        "decision": selection_json(costs.decision),
        "cost_model": costs.source,
        "configurations": [
            {
                "configuration": part.configuration.id,
                "prediction": dict(vars(part.prediction)) if part.prediction else None,
                "terms": terms_json(part.terms),
            }
            for part in costs.parts
        ],
    }
