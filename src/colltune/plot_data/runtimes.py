"""Runtimes over message size, shape by shape: all configurations, the default, and the choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective, launch_times
from colltune.domain import Collective, Configuration, Shape
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.plot_data.decisions import (
    ALL,
    Grid,
    Pick,
    Picture,
    beside,
    notes_on,
    panels_each,
    picked,
    spread_shapes,
)
from colltune.plot_data.measured import comparable_cells, compare
from colltune.selector.argmin import ModelSelector

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
_Key = tuple[str, str, str, int, int, int]


@dataclass(frozen=True, eq=False)
class RuntimeLine:
    """What runs at M message sizes, and its runtimes with their intervals.

    ``time_s``, ``lower_s`` and ``upper_s`` (M) are in seconds, NaN where there are none.
    """

    configurations: tuple[Configuration | None, ...]
    """id at each message size; null: nothing is known"""
    time_s: Numbers
    """runtime at each message size"""
    lower_s: Numbers
    """lower end of its interval"""
    upper_s: Numbers
    """upper end of its interval"""

    @classmethod
    def along(
        cls,
        columns: Integers,
        configurations: Sequence[Configuration],
        times: tuple[Numbers, Numbers, Numbers],
    ) -> RuntimeLine:
        """Return the line of `columns` (M) of `times`, (M, C) each; -1 where nothing is."""
        rows = np.arange(len(columns))
        found = [np.where(columns < 0, np.nan, time_s[rows, columns]) for time_s in times]
        names = tuple(None if c < 0 else configurations[c] for c in columns.tolist())
        return cls(names, *found)


@dataclass(frozen=True, eq=False)
class Points:
    """Measured times at N message sizes of the default and of what is chosen there, in seconds."""

    msize_bytes: Integers
    """message sizes"""
    default_s: Numbers
    """times of the default"""
    chosen_s: Numbers
    """times of what is chosen there"""


@dataclass(frozen=True, eq=False)
class ShapeRuntimes:
    """One panel: runtimes of one collective on one shape at M message sizes."""

    collective: Collective
    shape: Shape
    msize_bytes: Integers
    """message sizes, ascending"""
    configurations: Mapping[Configuration, Numbers]
    """runtimes in seconds by configuration, null where unknown"""
    default: RuntimeLine
    """the default"""
    chosen: RuntimeLine
    """what is chosen"""
    extrapolated: NDArray[np.bool_]
    """whether each message size lies outside what was measured"""
    points: Points | None = None
    """measured times, with --data"""


@dataclass(frozen=True)
class Runtimes(Picture):
    """Panels of several collectives."""

    chosen_is: str
    """what the chosen curve is"""
    interval_is: str
    """what intervals hold"""
    panels: tuple[ShapeRuntimes, ...]
    """by collective and shape"""
    shapes_left_out: Mapping[Collective, int]
    """shapes without room, by collective"""

    @classmethod
    def of(
        cls, subject: str, choice: str, interval: str, groups: Iterable[Sequence[ShapeRuntimes]]
    ) -> Runtimes:
        """Return as many panels of each collective's group as a picture can hold."""
        whole = [group for group in groups if group]
        each = panels_each(len(whole))
        shown = [set(spread_shapes([p.shape for p in group], each)) for group in whole]
        kept = [
            [panel for panel in group if panel.shape in shapes]
            for group, shapes in zip(whole, shown, strict=True)
        ]
        left_out = {
            group[0].collective: len(group) - len(some)
            for group, some in zip(whole, kept, strict=True)
            if len(group) > len(some)
        }
        panels = tuple(panel for some in kept for panel in some)
        return cls(subject, choice, interval, panels, left_out)

    @property
    def has_intervals(self) -> bool:
        lines = [line for panel in self.panels for line in (panel.default, panel.chosen)]
        return any(bool((line.upper_s > line.lower_s).any()) for line in lines)

    @property
    def notes(self) -> tuple[str, ...]:
        left_out = {c: f"{n} more shapes" for c, n in self.shapes_left_out.items()}
        return notes_on(left_out, len({panel.collective for panel in self.panels}))


def predicted(
    selector: ModelSelector, pick: Pick = ALL, dataset: PerformanceDataset | None = None
) -> Runtimes:
    """Return predicted runtimes of all candidates, of the default and of what is chosen.

    `dataset`, of the same context, becomes `Points`.
    """
    bundle = selector.bundle
    collectives = pick.of_collectives(bundle.collectives)
    cells: Mapping[Collective, CellMatrix] = {}
    if dataset is not None:
        cells = beside(comparable_cells(bundle, dataset), pick, collectives)
    groups = [_predicted(selector, c, pick, cells.get(c)) for c in collectives]
    subject = f"predicted runtimes, bundle {bundle.id[:8]}; {bundle.context}"
    return Runtimes.of(subject, "chosen", "90 % interval", groups)


def measured(
    dataset: PerformanceDataset, pick: Pick = ALL, *, objective: Objective = DEFAULT_OBJECTIVE
) -> Runtimes:
    """Return measured runtimes of all configurations, of the default and of the fastest.

    Times are medians over launches of the `objective` of each launch's repetitions (means for the
    objective mean), intervals reach from the fastest launch to the slowest.
    """
    cells = picked(cell_matrices(dataset, objective), pick)
    ends = _launch_ends(dataset, objective)
    groups = [_measured(matrix, ends) for matrix in cells.values()]
    subject = f"measured runtimes ({objective}); {dataset.context}"
    return Runtimes.of(subject, "best measured", "fastest to slowest launch", groups)


def _predicted(
    selector: ModelSelector, collective: Collective, pick: Pick, cells: CellMatrix | None
) -> list[ShapeRuntimes]:
    model = selector.bundle.model(collective)
    fitted = tuple(Shape(int(n), int(p)) for n, p in model.coverage.shapes)
    grid = Grid.of(model.coverage, pick.of_shapes(fitted) or fitted)
    decisions = selector.decide(collective, *grid.vectors())
    portfolio, forecast = selector.portfolio(collective), decisions.forecast
    unknown = np.full((len(decisions.chosen), 1), np.nan)
    times = [np.hstack([t, unknown]) for t in forecast[:3]]
    shown = np.where(forecast.candidate, forecast.time_s, np.nan)
    default = -1 if model.default_column is None else model.default_column
    n_sizes = len(grid.msize_bytes)
    panels = []
    for at, shape in enumerate(grid.shapes):
        rows = slice(at * n_sizes, (at + 1) * n_sizes)
        here = (times[0][rows], times[1][rows], times[2][rows])
        panels.append(
            ShapeRuntimes(
                collective,
                shape,
                grid.msize_bytes,
                dict(zip(model.configurations, shown[rows].T, strict=True)),
                RuntimeLine.along(np.full(n_sizes, default), portfolio, here),
                RuntimeLine.along(decisions.chosen[rows], portfolio, here),
                forecast.extrapolated[rows],
                None if cells is None else _points(selector, cells, shape),
            )
        )
    return sorted(panels, key=lambda panel: panel.shape)


def _points(selector: ModelSelector, cells: CellMatrix, shape: Shape) -> Points | None:
    here = cells.rows((cells.nodes == shape.nodes) & (cells.ppn == shape.ppn))
    if not len(here):
        return None
    found = compare(selector, here)
    return Points(found.msize_bytes, found.default_s, found.selected_s)


def _measured(cells: CellMatrix, ends: Mapping[_Key, tuple[float, float]]) -> list[ShapeRuntimes]:
    panels = []
    for nodes, ppn in sorted(set(zip(cells.nodes.tolist(), cells.ppn.tolist(), strict=True))):
        here = cells.rows((cells.nodes == nodes) & (cells.ppn == ppn))
        column = -1 if here.default_column is None else here.default_column
        lower, upper = _ends_of(here, ends)
        times = (here.time_s, lower, upper)
        panels.append(
            ShapeRuntimes(
                cells.collective,
                Shape(nodes, ppn),
                here.msize_bytes,
                dict(zip(here.configurations, here.time_s.T, strict=True)),
                RuntimeLine.along(np.full(len(here), column), here.configurations, times),
                RuntimeLine.along(np.nanargmin(here.time_s, axis=1), here.configurations, times),
                np.zeros(len(here), np.bool_),
            )
        )
    return panels


def _launch_ends(
    dataset: PerformanceDataset, objective: Objective
) -> dict[_Key, tuple[float, float]]:
    """Return the times of the fastest and of the slowest launch of each cell, in seconds."""
    from colltune.dataset.frame import CELL_COLUMNS  # noqa: PLC0415

    timed = dataset.timed()
    times = timed.assign(time_s=launch_times(timed, objective)).groupby(CELL_COLUMNS)["time_s"]
    ends = times.agg(["min", "max"])
    return {key: (low, high) for key, low, high in ends.itertuples(name=None)}


def _ends_of(
    cells: CellMatrix, ends: Mapping[_Key, tuple[float, float]]
) -> tuple[Numbers, Numbers]:
    heads = [
        (cells.collective.value, c.stored_algorithm, c.parameter_text) for c in cells.configurations
    ]
    unknown = (np.nan, np.nan)
    rows = zip(cells.nodes.tolist(), cells.ppn.tolist(), cells.msize_bytes.tolist(), strict=True)
    found = np.array([[ends.get((*head, *row), unknown) for head in heads] for row in rows])
    return found[:, :, 0], found[:, :, 1]
