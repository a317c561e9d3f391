"""The decision map of one collective, as the page draws it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

import numpy as np

from colltune.domain import Collective, Configuration, Instance
from colltune.errors import LibraryError
from colltune.plot_data.decisions import LETTERS, REASONS, DecisionMap, bounds, decision_map
from colltune.plot_data.summaries import predicted_gain
from colltune.selector.argmin import Decisions, ModelSelector
from colltune.selector.configuration import LARGEST_ELEMENT_BYTES, Target
from colltune.server.schemas import (
    ConfigurationView,
    MapRow,
    MapView,
    PredictedConfiguration,
    PredictionView,
    ReasonView,
)

DEFAULT_CODE = "·"
"""Stands in the fields where the library decides by itself; they are many, and it is quiet."""


def map_view(selector: ModelSelector, slot: str, collective: Collective) -> MapView:
    """Return what `selector` decides on and around what was measured of `collective`."""
    found = decision_map(selector, collective)
    uses = np.bincount(found.chosen.ravel(), minlength=len(found.portfolio)).tolist()
    holds = np.bincount(found.why.ravel(), minlength=len(REASONS)).tolist()
    mean_gain, mean_bound = predicted_gain(found)
    inside = found.inside
    return MapView(
        slot=slot,
        bundle=selector.bundle.id,
        collective=collective.value,
        mpi_name=collective.mpi_name,
        block_per_rank=collective.has_block_per_rank,
        configurations=configuration_views(found.portfolio, uses),
        reasons=tuple(
            ReasonView(code=LETTERS[why], text=why.value, replaced=why.is_replaced, fields=fields)
            for why, fields in zip(REASONS, holds, strict=True)
        ),
        msize_bytes=tuple(found.grid.msize_bytes.tolist()),
        measured_sizes=tuple(found.grid.known_size.tolist()),
        rows=_rows(found),
        shapes_left_out=found.grid.left_out,
        replaced_share=float(found.replaced[inside].mean()),
        mean_gain=mean_gain,
        mean_bound=mean_bound,
    )


def configuration_views(
    portfolio: Sequence[Configuration], uses: Sequence[int]
) -> tuple[ConfigurationView, ...]:
    """Return a portfolio with a code for each configuration, given how often each is used.

    A letter is that of an algorithm, the most used first; a number behind it tells configurations
    of one algorithm apart.
    """
    of_algorithm: dict[str, list[int]] = {}
    for column, configuration in enumerate(portfolio):
        if not configuration.is_default:
            of_algorithm.setdefault(configuration.algorithm, []).append(column)
    ordered = sorted(
        of_algorithm, key=lambda name: (-sum(uses[c] for c in of_algorithm[name]), name)
    )
    codes: dict[int, tuple[str, int]] = {}
    for rank, name in enumerate(ordered, start=1):
        columns = sorted(of_algorithm[name], key=lambda c: (-uses[c], portfolio[c]))
        for number, column in enumerate(columns, start=1):
            codes[column] = f"{_letters(rank)}{number if len(columns) > 1 else ''}", rank
    return tuple(
        _configuration(one, *codes.get(column, (DEFAULT_CODE, 0)), uses[column])
        for column, one in enumerate(portfolio)
    )


def digits(value: float) -> float | None:
    """Return `value` with the four digits that are worth sending; None if it is no number."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _configuration(one: Configuration, code: str, rank: int, fields: int) -> ConfigurationView:
    return ConfigurationView(
        id=one.id, name=one.short, code=code, rank=rank, is_default=one.is_default, fields=fields
    )


def _letters(rank: int) -> str:
    """Return A to Z, AA, AB, … for ranks from 1 on."""
    text = ""
    while rank:
        rank, at = divmod(rank - 1, len(ascii_uppercase))
        text = ascii_uppercase[at] + text
    return text


def _rows(found: DecisionMap) -> tuple[MapRow, ...]:
    grid, gain = found.grid, found.gain
    return tuple(
        MapRow(
            nodes=shape.nodes,
            ppn=shape.ppn,
            measured=bool(grid.known[at]),
            chosen=tuple(found.chosen[at].tolist()),
            why=tuple(found.why[at].tolist()),
            gain=tuple(float(f"{value:.4g}") for value in gain[at].tolist()),
            bound=_all_digits(found.bound[at].tolist()),
            extrapolated=tuple(found.extrapolated[at].tolist()),
        )
        for at, shape in enumerate(grid.shapes)
    )


def _all_digits(values: Iterable[float]) -> tuple[float | None, ...]:
    return tuple(digits(value) for value in values)


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
                name=one.short,
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
    bound, nprocs = target.bound, instance.shape.nprocs
    named = f"{target.mpi.title} {target.release}"
    try:
        spelled = bound.canonical(one)
        safe = bound.safe(
            spelled,
            builtin_operations_only=target.builtin_operations_only,
            nprocs=nprocs,
        )
        reason = bound.why_not(
            spelled, nprocs, instance.msize_bytes, element_bytes=LARGEST_ELEMENT_BYTES
        )
    except LibraryError as error:
        return f"not in {named}: {error}"
    if not safe:
        return f"not right for every legal program in {named}"
    return f"would not run as itself: {reason}" if reason else "may not be used here"
