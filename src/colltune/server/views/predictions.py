"""Everything that is predicted for one instance, and why the guard decided as it did."""

from __future__ import annotations

import numpy as np

from colltune.domain import Configuration, Instance
from colltune.errors import LibraryError
from colltune.plot_data.decisions import bounds
from colltune.selector.argmin import Decisions, ModelSelector
from colltune.selector.configuration import LARGEST_ELEMENT_BYTES, Target
from colltune.server.views.decisions import digits, short
from colltune.server.views.schemas import PredictedConfiguration, PredictionView

_NOT_NEAR = "not measured near enough to this shape and size"


def prediction_view(
    selector: ModelSelector, slot: str, instance: Instance, target: Target | None = None
) -> PredictionView:
    """Return the predictions of all configurations for `instance`, the fastest first."""
    selection = selector.select(instance)
    shape = instance.shape
    decisions = selector.decide(instance.collective, shape.nodes, shape.ppn, instance.msize_bytes)
    model = selector.bundle.model(instance.collective)
    portfolio = selector.portfolio(instance.collective)
    default = portfolio.index(selector.default(instance.collective))
    chosen = int(decisions.chosen[0])
    considered = _considered(decisions, model.default_column)
    coverage = model.coverage
    known = (coverage.shapes == (shape.nodes, shape.ppn)).all(axis=1).any()
    return PredictionView(
        slot=slot,
        bundle=selector.bundle.id,
        objective=selector.bundle.objective,
        collective=instance.collective.value,
        nodes=shape.nodes,
        ppn=shape.ppn,
        msize_bytes=instance.msize_bytes,
        measured=bool(known and np.isin(instance.msize_bytes, coverage.sizes)),
        extrapolated=selection.extrapolated,
        chosen=chosen,
        default=default,
        replaced=chosen != default,
        status=selection.status.value,
        reason=selection.reason,
        gain=_gain(decisions, model.default_column, considered),
        gain_bound=digits(
            float(bounds(decisions, model.default_column, selector.bundle.confirmations)[0])
        ),
        gain_required=_required(decisions, considered),
        considered=considered,
        configurations=_predicted(selector, instance, decisions, target),
    )


def _considered(decisions: Decisions, default_column: int | None) -> int | None:
    """Return the column whose gain over the default was weighed, None if none was."""
    if default_column is None:
        return None
    chosen, fastest = int(decisions.chosen[0]), int(decisions.fastest[0])
    column = fastest if chosen == default_column else chosen
    return None if column in (default_column, -1) else column


def _gain(decisions: Decisions, default_column: int | None, considered: int | None) -> float | None:
    if considered is None or default_column is None:
        return None
    time_s = decisions.forecast.time_s[0]
    return digits(float(time_s[default_column] / time_s[considered]))


def _required(decisions: Decisions, considered: int | None) -> float | None:
    if considered is None or decisions.confirmation[0] >= 0:
        return None
    required = float(decisions.required[0, considered])
    return digits(float(np.exp(required))) if np.isfinite(required) else None


def _predicted(
    selector: ModelSelector, instance: Instance, decisions: Decisions, target: Target | None
) -> tuple[PredictedConfiguration, ...]:
    forecast = decisions.forecast
    model = selector.bundle.model(instance.collective)
    rows = []
    for column in np.argsort(forecast.time_s[0], kind="stable").tolist():
        one = model.configurations[column]
        times = (t[0, column] for t in (forecast.time_s, forecast.lower_s, forecast.upper_s))
        time_s, lower_s, upper_s = (float(f"{t:.6g}") for t in times)
        excluded = ""
        if not forecast.candidate[0, column]:
            excluded = _NOT_NEAR
        elif not selector.permits(one, instance):
            excluded = _not_permitted(one, instance, target)
        rows.append(
            PredictedConfiguration(
                column=column,
                id=one.id,
                name=short(one),
                time_s=time_s,
                lower_s=lower_s,
                upper_s=upper_s,
                excluded=excluded,
            )
        )
    return tuple(rows)


def _not_permitted(one: Configuration, instance: Instance, target: Target | None) -> str:
    """Return why `one` may not stand in a file for `target`."""
    if target is None:
        return "may not be used here"
    mpi, release, nprocs = target.mpi, target.release, instance.shape.nprocs
    try:
        spelled = mpi.canonical(release, one)
        safe = mpi.safe(
            release,
            spelled,
            builtin_operations_only=target.builtin_operations_only,
            nprocs=nprocs,
        )
        reason = mpi.why_not(
            release, spelled, nprocs, instance.msize_bytes, element_bytes=LARGEST_ELEMENT_BYTES
        )
    except LibraryError as error:
        return f"not in {mpi.title} {release}: {error}"
    if not safe:
        return f"not right for every legal program in {mpi.title} {release}"
    return f"would not run as itself: {reason}" if reason else "may not be used here"
