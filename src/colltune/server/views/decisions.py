"""The decision map of one collective, as the page draws it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from string import ascii_uppercase

import numpy as np

from colltune.domain import Collective, Configuration
from colltune.plot_data.decisions import REASONS, DecisionMap, Why, decision_map
from colltune.plot_data.summaries import predicted_gain
from colltune.selector.argmin import ModelSelector
from colltune.server.views.schemas import ConfigurationView, MapRow, MapView, ReasonView

DEFAULT_CODE = "·"
"""Stands in the fields where the library decides by itself; they are many, and it is quiet."""
_CODES = {
    Why.GAIN: "G",
    Why.CONFIRMED: "M",
    Why.NO_DEFAULT: "U",
    Why.FASTEST: "F",
    Why.WITHDRAWN: "W",
    Why.ERROR: "E",
    Why.OUTSIDE: "O",
    Why.NOTHING: "N",
    Why.FAR: "X",
    Why.WITHHELD: "H",
}


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
            ReasonView(code=_CODES[why], text=why.value, replaced=why.is_replaced, fields=fields)
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


def short(configuration: Configuration) -> str:
    """Return algorithm and parameters without library and collective."""
    return configuration.short


def digits(value: float) -> float | None:
    """Return `value` with the four digits that are worth sending; None if it is no number."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _configuration(one: Configuration, code: str, rank: int, fields: int) -> ConfigurationView:
    return ConfigurationView(
        id=one.id, name=short(one), code=code, rank=rank, is_default=one.is_default, fields=fields
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
