"""Predicted times and what they are made of, for `explain --bundle` and `what-if`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.cli.console import TextTable
from colltune.cli.options import parse_pairs, programs_of
from colltune.decisions import Prediction
from colltune.errors import say
from colltune.text import time_text

if TYPE_CHECKING:
    from colltune.domain import Collective
    from colltune.models.bundle import Bundle
    from colltune.models.costs.breakdown import Costs, Share
    from colltune.selector.explaining import ExplainedCosts, Explanation


def costs_at(path: Path, data: Sequence[Path], found: Explanation) -> ExplainedCosts:
    """Return what a call costs by the bundle at `path`, with a cost model fitted to `data`."""
    from colltune.models.bundle import load
    from colltune.selector.explaining import explained_costs

    collective = found.call.collective
    bundle = load(path, (collective,))
    by = costs_of(bundle, collective, data)
    return explained_costs(bundle, found.call, found.outcome.configuration, *by, programs_of(None))


def lines(costs: ExplainedCosts) -> Iterator[str | TextTable]:
    """Yield the costs for people."""
    decision = costs.decision
    yield (
        f"For this call the bundle decides {decision.configuration.short}, {decision.status}: "
        f"{decision.reason}."
    )
    yield ""
    heads = [part.configuration.short for part in costs.parts]
    beyond = ", outside the measured range" if costs.extrapolated else ""
    yield f"Predicted by the bundle's models on {costs.shape}{beyond}:"
    times = [predicted_text(part.prediction) for part in costs.parts]
    yield side_by_side(heads, [["time", *times]])
    yield ""
    if costs.cost_model is None:
        yield (
            "The cost terms need a cost model. Name measurements with --data, or a bundle of "
            "the learner cost_model."
        )
        return
    yield f"Cost terms from {costs.cost_model}:"
    yield terms_table(heads, [part.terms for part in costs.parts])
    for part in costs.parts:
        if not part.terms:
            nothing = "was never measured, so its terms are unknown"
            yield f"(of {part.configuration.id} {nothing})"
    if any(part.configuration.is_default and part.terms for part in costs.parts):
        yield GENERIC


def predicted_text(prediction: Prediction | None) -> str:
    if prediction is None:
        return "not known"
    low, high = time_text(prediction.lower_s), time_text(prediction.upper_s)
    return f"{time_text(prediction.time_s)} ({low} .. {high})"


GENERIC = (
    "(the algorithm behind the default is unknown; its terms are those of a generic model "
    "that was fitted to its times)"
)


def side_by_side(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> TextTable:
    """Return a table of rows with a label and one cell per head."""
    return TextTable(("", *heads), rows, wrap=heads)


def terms_table(heads: Sequence[str], columns: Sequence[Sequence[Share]]) -> TextTable:
    """Return seconds and share of each kind of cost, one column of terms per head."""
    found = [{share.kind: share for share in column} for column in columns]
    kinds = sorted({kind for column in found for kind in column})
    # the largest of all columns first
    kinds.sort(key=lambda kind: -max(c[kind].time_s for c in found if kind in c))
    rows = [[kind, *(_term(column.get(kind)) for column in found)] for kind in kinds]
    totals = [sum(share.time_s for share in column) for column in columns]
    return side_by_side(heads, [*rows, ["all", *(time_text(s) if s else "-" for s in totals)]])


def _term(share: Share | None) -> str:
    return "-" if share is None else f"{time_text(share.time_s):>8} {100 * share.share:3.0f} %"


def costs_of(
    bundle: Bundle, collective: Collective, data: Sequence[Path], where: Sequence[str] = ()
) -> tuple[Costs, str | None]:
    """Return the fitted costs of `collective` and, in words, what they are; None for none."""
    from colltune.cli.import_ import read_measured
    from colltune.dataset.objective import parse_objective
    from colltune.models.cells import cell_matrices
    from colltune.models.costs import breakdown

    if not data:
        found = breakdown.of_model(bundle.model(collective))
        return (found, "the bundle's cost model") if found is not None else ({}, None)
    dataset = read_measured(data, parse_pairs(where, "--where"))
    names = ", ".join(map(str, data))
    if dataset.context != bundle.context:
        here, there = dataset.context, bundle.context
        raise say("data-of-another-context", data=names, context=here, wanted=there)
    cells = cell_matrices(dataset, parse_objective(bundle.objective)).get(collective)
    if cells is None:
        raise say("nothing-usable", what=f"{collective} in {names}")
    return breakdown.of_cells(cells), f"a cost model fitted to {names}"
