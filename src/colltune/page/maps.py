"""The decision map of one collective, and what is predicted for one of its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.json_text import DescribedRecord, digits
from colltune.models.bundle import Bundle
from colltune.mpi.running import Refusal, RunningRange
from colltune.page.changes import FieldChange, field_changes
from colltune.page.facts import BundleFacts
from colltune.plot_data.decisions import LETTERS, REASONS, DecisionMap, bounds, decision_map
from colltune.selector.argmin import Decisions, ModelSelector

if TYPE_CHECKING:
    from colltune.selector.configuration import Target


DEFAULT_CODE = "·"
"""Stands in the fields where the library decides by itself; they are many, and it is quiet."""
_NOT_NEAR = "not measured near enough to this shape and size"


@dataclass(frozen=True)
class ConfigurationView(DescribedRecord):
    """A configuration as the map shows it."""

    id: str
    """id of the configuration"""
    name: str
    """algorithm and parameters"""
    code: str
    """what stands in its fields; no two are alike"""
    rank: int
    """of its algorithm, by how often it is used; 0 is the library's own decision"""
    is_default: bool
    """whether it is the library's own decision"""
    fields: int
    """how many fields of the map use it"""


@dataclass(frozen=True)
class ReasonView(DescribedRecord):
    """A reason for which the default is replaced or kept."""

    code: str
    """a letter"""
    text: str
    """the reason in words"""
    replaced: bool
    """whether the default is replaced"""
    fields: int
    """for how many fields of the map it holds"""


@dataclass(frozen=True)
class ShapeDecisions(DescribedRecord):
    """The decisions of one shape, one value per message size."""

    nodes: int
    ppn: int
    measured: bool
    """whether the shape was measured"""
    chosen: tuple[int, ...]
    """indices of `configurations`"""
    why: tuple[int, ...]
    """indices of `reasons`"""
    gain: tuple[float, ...]
    """predicted, 1 where the default is kept"""
    bound: tuple[float | None, ...]
    """lower bound of the gain that was weighed"""
    extrapolated: tuple[bool, ...]
    """outside the measured range"""
    changes: tuple[FieldChange, ...]
    """against another bundle, where asked for"""


@dataclass(frozen=True)
class MapView(BundleFacts):
    """A decision map of one collective."""

    collective: str
    mpi_name: str
    """its MPI function"""
    block_per_rank: bool
    """whether a message size is that of the block per process"""
    configurations: tuple[ConfigurationView, ...]
    """all that were measured, and the default"""
    reasons: tuple[ReasonView, ...]
    """for which the default is replaced or kept"""
    msize_bytes: tuple[int, ...]
    measured_sizes: tuple[bool, ...]
    """which message sizes were measured"""
    rows: tuple[ShapeDecisions, ...]
    """shape by shape"""
    shapes_left_out: int
    """measured shapes that found no place"""
    replaced_share: float
    """of the measured shapes and sizes, where the default is not kept"""
    mean_gain: float
    """predicted, geometric mean over the same, 1 where the default is kept"""
    mean_bound: float | None
    """the same of its lower bound"""


@dataclass(frozen=True)
class PredictedConfiguration(DescribedRecord):
    """What is predicted for one configuration on one instance."""

    column: int
    """index of `MapView.configurations`"""
    id: str
    name: str
    time_s: float
    lower_s: float
    """of the 90 % interval"""
    upper_s: float
    """of the 90 % interval"""
    excluded: str
    """why it cannot be chosen here; empty if it can"""


@dataclass(frozen=True)
class PredictionView(BundleFacts):
    """Everything that is predicted for one instance, and what became of it."""

    objective: str
    collective: str
    nodes: int
    ppn: int
    msize_bytes: int
    measured: bool
    """whether this shape and size were measured"""
    extrapolated: bool
    chosen: int
    """index of `MapView.configurations`"""
    default: int
    """the same of the library's own decision"""
    replaced: bool
    status: str
    reason: str
    gain: float | None
    """predicted, of what is chosen or, if that is the default, of the fastest candidate; null
    where nothing can be compared"""
    gain_bound: float | None
    """its lower bound"""
    gain_required: float | None
    """what the guard asked of it; null where it did not ask"""
    considered: int | None
    """whose gain that is"""
    configurations: tuple[PredictedConfiguration, ...]
    """the fastest first"""


def map_view(
    selector: ModelSelector, slot: str, collective: Collective, old: Bundle | None = None
) -> MapView:
    """Return the map of a collective, with what changed since the bundle `old`, if one is named."""
    found = decision_map(selector, collective)
    changes = {} if old is None else field_changes(old, selector.bundle, collective, found.grid)
    uses = np.bincount(found.chosen.ravel(), minlength=len(found.portfolio)).tolist()
    holds = np.bincount(found.why.ravel(), minlength=len(REASONS)).tolist()
    mean_gain, mean_bound = _predicted_gain(found)
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
        rows=tuple(_rows(found, changes)),
        shapes_left_out=found.grid.left_out,
        replaced_share=float(found.replaced[found.inside].mean()),
        mean_gain=mean_gain,
        mean_bound=mean_bound,
    )


def _predicted_gain(found: DecisionMap) -> tuple[float, float | None]:
    """Return the geometric means of the predicted gain and of its lower bound, where measured.

    The bound is 1 where the default is kept, and None if one is not stated.
    """
    bounds = np.where(found.replaced, found.bound, 1.0)
    gain, bound = (float(np.exp(np.log(v[found.inside]).mean())) for v in (found.gain, bounds))
    return gain, bound if np.isfinite(bound) else None


def configuration_views(
    portfolio: Sequence[Configuration], uses: Sequence[int]
) -> tuple[ConfigurationView, ...]:
    """Return a portfolio with a code for each configuration, given how often each is used.

    A letter is that of an algorithm, the most used first; a number behind it tells configurations
    of one algorithm apart.
    """
    of_algorithm: dict[str, list[int]] = {}
    for column, one in enumerate(portfolio):
        if not one.is_default:
            of_algorithm.setdefault(one.algorithm, []).append(column)
    ordered = sorted(
        of_algorithm, key=lambda name: (-sum(uses[c] for c in of_algorithm[name]), name)
    )
    codes: dict[int, tuple[str, int]] = {}
    for rank, name in enumerate(ordered, start=1):
        columns = sorted(of_algorithm[name], key=lambda c: (-uses[c], portfolio[c]))
        for number, column in enumerate(columns, start=1):
            codes[column] = f"{_letters(rank)}{number if len(columns) > 1 else ''}", rank
    return tuple(
        ConfigurationView(
            id=one.id,
            name=one.short,
            code=codes.get(column, (DEFAULT_CODE, 0))[0],
            rank=codes.get(column, (DEFAULT_CODE, 0))[1],
            is_default=one.is_default,
            fields=uses[column],
        )
        for column, one in enumerate(portfolio)
    )


def _letters(rank: int) -> str:
    """Return A to Z, AA, AB, … for ranks from 1 on."""
    text = ""
    while rank:
        rank, at = divmod(rank - 1, len(ascii_uppercase))
        text = ascii_uppercase[at] + text
    return text


def _rows(
    found: DecisionMap, changes: Mapping[Shape, tuple[FieldChange, ...]]
) -> Iterator[ShapeDecisions]:
    for at, shape in enumerate(found.grid.shapes):
        yield ShapeDecisions(
            nodes=shape.nodes,
            ppn=shape.ppn,
            measured=bool(found.grid.known[at]),
            chosen=tuple(found.chosen[at].tolist()),
            why=tuple(found.why[at].tolist()),
            gain=tuple(float(f"{value:.4g}") for value in found.gain[at].tolist()),
            bound=tuple(digits(value) for value in found.bound[at].tolist()),
            extrapolated=tuple(found.extrapolated[at].tolist()),
            changes=changes.get(shape, ()),
        )


def prediction_view(
    selector: ModelSelector, slot: str, instance: Instance, target: Target | None = None
) -> PredictionView:
    selection = selector.select(instance)
    shape = instance.shape
    decisions = selector.decide(instance.collective, shape.nodes, shape.ppn, instance.msize_bytes)
    model = selector.bundle.model(instance.collective)
    portfolio = selector.portfolio(instance.collective)
    default = portfolio.index(selector.default(instance.collective))
    chosen = int(decisions.chosen[0])
    considered, gain, required = _weighed(decisions, model.default_column)
    bound = bounds(decisions, model.default_column, selector.bundle.confirmations)[0]
    known = (model.coverage.shapes == (shape.nodes, shape.ppn)).all(axis=1).any()
    return PredictionView(
        slot=slot,
        bundle=selector.bundle.id,
        objective=selector.bundle.objective,
        collective=instance.collective.value,
        nodes=shape.nodes,
        ppn=shape.ppn,
        msize_bytes=instance.msize_bytes,
        measured=bool(known and np.isin(instance.msize_bytes, model.coverage.sizes)),
        extrapolated=selection.extrapolated,
        chosen=chosen,
        default=default,
        replaced=chosen != default,
        status=selection.status.value,
        reason=selection.reason,
        gain=gain,
        gain_bound=digits(float(bound)),
        gain_required=required,
        considered=considered,
        configurations=tuple(_predicted(selector, instance, decisions, target)),
    )


def _weighed(
    decisions: Decisions, default: int | None
) -> tuple[int | None, float | None, float | None]:
    """Return the column weighed against the default, its gain, and what the guard asked of it."""
    chosen, fastest = int(decisions.chosen[0]), int(decisions.fastest[0])
    column = fastest if chosen == default else chosen
    if default is None or column in (default, -1):
        return None, None, None
    time_s = decisions.forecast.time_s[0]
    required = float(decisions.required[0, column])
    asked = decisions.confirmation[0] < 0 and np.isfinite(required)
    gain = digits(float(time_s[default] / time_s[column]))
    return column, gain, digits(float(np.exp(required))) if asked else None


def _predicted(
    selector: ModelSelector, instance: Instance, decisions: Decisions, target: Target | None
) -> Iterator[PredictedConfiguration]:
    forecast = decisions.forecast
    model = selector.bundle.model(instance.collective)
    for column in np.argsort(forecast.time_s[0], kind="stable").tolist():
        one = model.configurations[column]
        runs = selector.runs(one, [instance.shape])[0]
        times = (t[0, column] for t in (forecast.time_s, forecast.lower_s, forecast.upper_s))
        time_s, lower_s, upper_s = (float(f"{t:.6g}") for t in times)
        excluded = ""
        if not forecast.candidate[0, column]:
            excluded = _NOT_NEAR
        elif why := runs.why_not_at(instance.msize_bytes):
            excluded = _excluded(runs, why, target)
        yield PredictedConfiguration(
            column=column,
            id=one.id,
            name=one.short,
            time_s=time_s,
            lower_s=lower_s,
            upper_s=upper_s,
            excluded=excluded,
        )


def _excluded(runs: RunningRange, why: str, target: Target | None) -> str:
    named = f"{target.mpi.title} {target.release}" if target else "this library"
    if runs.refusal is Refusal.UNKNOWN:
        return f"not in {named}: {why}"
    if runs.refusal is Refusal.HARMS_PROGRAMS:
        return f"wrong for some legal programs in {named}"
    if runs.refusal is Refusal.NOT_EXPRESSED:
        return "may not be used here"
    return f"would not run as itself: {why}"
