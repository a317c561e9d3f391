"""Which configuration is used, or was measured fastest, for which shape and message size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.domain import Collective, Configuration, Shape
from colltune.evidence.launches import noticeable
from colltune.models.cells import CellMatrix
from colltune.plot_data.decisions import (
    ALL,
    MOST_ROWS,
    DecisionMap,
    Pick,
    beside,
    decision_map,
    notes_on,
    panels_each,
    picked,
    spread,
)
from colltune.plot_data.measured import comparable_cells
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import NOT_SLOWER

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.evaluation.folds import FoldSource

Numbers = NDArray[np.float64]


class Over(StrEnum):
    """What is upwards in a map: nodes, a panel per ppn; or processes, all shapes in one."""

    NODES = "nodes"
    PROCESSES = "processes"


@dataclass(frozen=True)
class Field:
    """What is used for one shape and message size.

    ``extrapolated`` tells that the field lies outside what was measured; ``near_default`` that the
    configuration was measured fastest, but the default is within the noise of it.
    """

    msize_bytes: int
    configuration: Configuration
    extrapolated: bool = False
    near_default: bool = False


@dataclass(frozen=True)
class ShapeRow:
    """The fields of one shape, by message size; ``measured`` tells whether the shape was."""

    shape: Shape
    measured: bool
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ChoiceMap:
    """The rows of one collective, by ppn and nodes; ``left_out`` counts shapes without room."""

    collective: Collective
    rows: tuple[ShapeRow, ...]
    left_out: int = 0

    @property
    def fields(self) -> Iterator[Field]:
        return (field for row in self.rows for field in row.fields)


@dataclass(frozen=True)
class Maps:
    """Maps of several collectives.

    ``subject`` says of what; ``points`` are what was measured fastest, to be shown on top.
    """

    subject: str
    over: Over
    maps: tuple[ChoiceMap, ...]
    points: tuple[ChoiceMap, ...] = ()

    @classmethod
    def of(
        cls,
        subject: str,
        maps: Sequence[ChoiceMap],
        points: Sequence[ChoiceMap] = (),
        over: Over | None = None,
    ) -> Maps:
        """Return as much of `maps` as a picture can hold.

        Without `over` nodes are upwards, or processes if there are more ppn than node counts.
        """
        shapes = {row.shape for one in maps for row in one.rows}
        more_ppn = len({s.ppn for s in shapes}) > len({s.nodes for s in shapes})
        over = over or (Over.PROCESSES if more_ppn else Over.NODES)
        thinned = tuple(_thinned(one, over, panels_each(len(maps))) for one in maps)
        kept = {one.collective: {row.shape for row in one.rows} for one in thinned}
        below = tuple(
            replace(one, rows=tuple(r for r in one.rows if r.shape in kept[one.collective]))
            for one in points
        )
        return cls(subject, over, thinned, below)

    @property
    def notes(self) -> tuple[str, ...]:
        left_out = {
            one.collective: f"{one.left_out} of {one.left_out + len(one.rows)} shapes"
            for one in self.maps
            if one.left_out
        }
        return notes_on(left_out, len(self.maps))

    def as_json(self) -> dict[str, Any]:
        """Return what is drawn, JSON-able: runs of message sizes for which the same holds."""
        return {
            "subject": self.subject,
            "over": self.over.value,
            "maps": [_json(one) for one in self.maps],
            "points": [_json(one) for one in self.points],
        }


def decided(
    selector: ModelSelector,
    pick: Pick = ALL,
    dataset: PerformanceDataset | None = None,
    *,
    allocation_of: Mapping[str, str] | None = None,
    over: Over | None = None,
) -> Maps:
    """Return what `selector` decides on and around what its bundle was fitted to."""
    bundle = selector.bundle
    found = []
    for collective in pick.of_collectives(bundle.collectives):
        shapes = pick.of_shapes(_shapes(bundle.model(collective).coverage.shapes))
        found.append(choice_map(decision_map(selector, collective, shapes)))
    points: tuple[ChoiceMap, ...] = ()
    if dataset is not None:
        cells = beside(comparable_cells(bundle, dataset), pick, [one.collective for one in found])
        noise = _source(dataset, allocation_of).noise
        points = tuple(_measured(matrix, noise.variance(matrix)) for matrix in cells.values())
    guard = "" if selector.guard else ", without guard"
    subject = f"decisions of bundle {bundle.id[:8]}{guard}; {bundle.context}"
    return Maps.of(subject, found, points, over)


def measured(
    dataset: PerformanceDataset,
    pick: Pick = ALL,
    *,
    objective: Objective = DEFAULT_OBJECTIVE,
    allocation_of: Mapping[str, str] | None = None,
    over: Over | None = None,
) -> Maps:
    """Return what was measured fastest, and where the default is as fast within the noise.

    The noise is 1.96 standard deviations of the ratio of the two times as far as the data tell it
    (`colltune.dataset.noise`), and at least 2 %.
    """
    source = _source(dataset, allocation_of, objective=objective, judged_by=objective)
    cells = picked(source.matrices, pick)
    maps = [_measured(one, source.noise.variance(one)) for one in cells.values()]
    return Maps.of(f"measured fastest ({objective}); {dataset.context}", maps, over=over)


def _source(dataset: PerformanceDataset, *more: Any, **options: Any) -> FoldSource:
    # it learns, too: the service draws maps without
    from colltune.evaluation.folds import FoldSource  # noqa: PLC0415

    return FoldSource(dataset, *more, **options)


def _thinned(found: ChoiceMap, over: Over, panels: int) -> ChoiceMap:
    rows = found.rows
    if over is Over.PROCESSES:
        ordered = sorted(rows, key=lambda row: (row.shape.nprocs, row.shape.nodes))
        rows = tuple(ordered[k] for k in spread(len(ordered), MOST_ROWS))
    else:
        ppn, nodes = (sorted({getattr(r.shape, n) for r in rows}) for n in ("ppn", "nodes"))
        kept_ppn = {ppn[k] for k in spread(len(ppn), panels)}
        kept_nodes = {nodes[k] for k in spread(len(nodes), MOST_ROWS)}
        rows = tuple(r for r in rows if r.shape.ppn in kept_ppn and r.shape.nodes in kept_nodes)
    return replace(found, rows=rows, left_out=found.left_out + len(found.rows) - len(rows))


def _shapes(pairs: NDArray[np.int64]) -> tuple[Shape, ...]:
    return tuple(Shape(int(n), int(p)) for n, p in pairs)


def choice_map(found: DecisionMap) -> ChoiceMap:
    sizes = found.grid.msize_bytes.tolist()
    rows = tuple(
        ShapeRow(
            shape,
            bool(found.grid.known[s]),
            tuple(
                Field(
                    size,
                    found.configuration(s, m),
                    bool(found.extrapolated[s, m]),
                )
                for m, size in enumerate(sizes)
            ),
        )
        for s, shape in enumerate(found.grid.shapes)
    )
    return ChoiceMap(found.collective, rows, found.grid.left_out)


def _measured(cells: CellMatrix, variance: Numbers | None) -> ChoiceMap:
    best = np.nanargmin(cells.time_s, axis=1)
    near = near_default(cells, variance, best)
    fields: dict[Shape, list[Field]] = {}
    for instance, column, is_near in zip(
        cells.instances(), best.tolist(), near.tolist(), strict=True
    ):
        field = Field(instance.msize_bytes, cells.configurations[column], near_default=is_near)
        fields.setdefault(instance.shape, []).append(field)
    rows = [ShapeRow(shape, True, tuple(found)) for shape, found in fields.items()]
    ordered = sorted(rows, key=lambda row: (row.shape.ppn, row.shape.nodes))
    return ChoiceMap(cells.collective, tuple(ordered))


def near_default(
    cells: CellMatrix, variance: Numbers | None, best: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Tell where the default is not `best` (n), a column each, but within the noise of it.

    ``variance`` (n, C) is that of the logarithms of times, NaN or None where it is unknown.
    """
    default = cells.default_column
    if default is None:
        return np.zeros(len(cells), np.bool_)
    rows = np.arange(len(cells))
    log_gain = np.log(cells.time_s[:, default] / cells.time_s[rows, best])
    noise = np.zeros(len(cells))
    if variance is not None:
        noise = np.nan_to_num(variance[rows, best]) + np.nan_to_num(variance[:, default])
    limit = np.maximum(noticeable(noise), NOT_SLOWER)
    return np.asarray((best != default) & (log_gain <= limit))


def _json(found: ChoiceMap) -> dict[str, Any]:
    return {
        "collective": found.collective.value,
        "shapes_left_out": found.left_out,
        "rows": [
            {
                "shape": str(row.shape),
                "measured": row.measured,
                "runs": [_run_json(run) for run in runs(row)],
            }
            for row in found.rows
        ],
    }


def _kind(field: Field) -> Hashable:
    return field.configuration, field.extrapolated, field.near_default


def runs(row: ShapeRow, kind: Callable[[Field], Hashable] = _kind) -> Iterator[tuple[Field, ...]]:
    for _, run in groupby(row.fields, kind):
        yield tuple(run)


def _run_json(run: tuple[Field, ...]) -> dict[str, Any]:
    first, last = run[0], run[-1]
    return {
        "first_bytes": first.msize_bytes,
        "last_bytes": last.msize_bytes,
        "configuration": first.configuration.id,
        "extrapolated": first.extrapolated,
        "default_within_noise": first.near_default,
    }
