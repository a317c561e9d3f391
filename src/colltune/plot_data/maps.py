"""Which configuration is used, or was measured fastest, for which shape and message size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    Picture,
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
from colltune.text import UNPRINTED, computed

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
class MapRun:
    """Message sizes for which the same holds."""

    first_bytes: int
    last_bytes: int
    """largest message"""
    configuration: Configuration
    """id of what is chosen or was fastest"""
    extrapolated: bool
    """outside what was measured"""
    default_within_noise: bool
    """the default is as fast within the noise"""


@dataclass(frozen=True)
class ShapeRow:
    """The fields of one shape, by message size."""

    shape: Shape
    measured: bool
    """whether it was measured"""
    fields: tuple[Field, ...] = field(metadata=UNPRINTED)

    @computed
    def runs(self) -> list[MapRun]:
        """Ranges of message sizes."""
        ends = ((run[0], run[-1].msize_bytes) for run in runs(self))
        return [MapRun(first.msize_bytes, last, *_kind(first)) for first, last in ends]


@dataclass(frozen=True)
class ChoiceMap:
    """What is used for one collective."""

    collective: Collective
    rows: tuple[ShapeRow, ...]
    """by ppn and nodes"""
    shapes_left_out: int = 0
    """shapes without room in the picture"""

    @property
    def fields(self) -> Iterator[Field]:
        return (field for row in self.rows for field in row.fields)


@dataclass(frozen=True)
class Maps(Picture):
    """Maps of several collectives."""

    over: Over
    """nodes or processes: what is upwards"""
    maps: tuple[ChoiceMap, ...]
    """by collective"""
    points: tuple[ChoiceMap, ...] = ()
    """what was measured fastest, with --data"""

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
            one.collective: f"{n} of {n + len(one.rows)} shapes"
            for one in self.maps
            if (n := one.shapes_left_out)
        }
        return notes_on(left_out, len(self.maps))


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
    left_out = found.shapes_left_out + len(found.rows) - len(rows)
    return replace(found, rows=rows, shapes_left_out=left_out)


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


def _kind(field: Field) -> tuple[Configuration, bool, bool]:
    return field.configuration, field.extrapolated, field.near_default


def runs(row: ShapeRow, kind: Callable[[Field], Hashable] = _kind) -> Iterator[tuple[Field, ...]]:
    for _, run in groupby(row.fields, kind):
        yield tuple(run)
