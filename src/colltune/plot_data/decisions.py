"""What a selector decides over a grid of shapes and message sizes, and why.

And which collectives and shapes of a bundle or a dataset are shown, and how many have room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import DataError, say, unknown
from colltune.models.cells import CellMatrix
from colltune.models.collective_model import Coverage
from colltune.models.confirmations import Confirmation
from colltune.selector.argmin import Decisions, ModelSelector

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
MOST_SHAPES = 64
_BETWEEN_UP_TO = 16
_BEYOND_SIZES = 4
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Picture:
    """What a picture shows."""

    subject: str
    """what is drawn"""
    out: Path | None = field(default=None, kw_only=True)
    """file of the picture"""


@dataclass(frozen=True, eq=False)
class Grid:
    """S shapes, by ppn and then nodes, and M message sizes, ascending.

    ``known`` (S) tells which shapes were measured, ``known_size`` (M) which sizes in bytes were;
    ``left_out`` counts the measured shapes that found no place.
    """

    nodes: Integers
    ppn: Integers
    known: Flags
    msize_bytes: Integers
    known_size: Flags
    left_out: int

    @classmethod
    def of(cls, coverage: Coverage, shapes: Sequence[Shape] = ()) -> Grid:
        """Lay a grid over what was measured, and a little beyond.

        Shapes: those of `shapes`; if none are named the measured ones (at most 64, evenly thinned),
        per ppn one of twice the nodes, and, if there are few, one between any two that lie a factor
        of 2 apart. Sizes: two per octave and the measured ones, from half the smallest to four
        times the largest.
        """
        measured = sorted({(int(p), int(n)) for n, p in coverage.shapes})
        asked = {(shape.ppn, shape.nodes) for shape in shapes}
        kept = measured if asked else _thinned(measured)
        pairs = sorted(asked or {*kept, *_unseen(kept)})
        sizes = _sizes(coverage.sizes.tolist())
        return cls(
            np.array([n for _, n in pairs], np.int64),
            np.array([p for p, _ in pairs], np.int64),
            np.array([pair in set(measured) for pair in pairs], np.bool_),
            np.array(sizes, np.int64),
            np.isin(sizes, coverage.sizes),
            len(measured) - len(kept),
        )

    @property
    def shapes(self) -> tuple[Shape, ...]:
        pairs = zip(self.nodes.tolist(), self.ppn.tolist(), strict=True)
        return tuple(Shape(n, p) for n, p in pairs)

    def vectors(self) -> tuple[Integers, Integers, Integers]:
        n_sizes, n_shapes = len(self.msize_bytes), len(self.nodes)
        nodes, ppn = (np.repeat(v, n_sizes) for v in (self.nodes, self.ppn))
        return nodes, ppn, np.tile(self.msize_bytes, n_shapes)

    def instance(self, collective: Collective, shape: int, size: int) -> Instance:
        return Instance(
            collective,
            Shape(int(self.nodes[shape]), int(self.ppn[shape])),
            int(self.msize_bytes[size]),
        )


def _thinned(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if len(pairs) <= MOST_SHAPES:
        return pairs
    at = np.unique(np.linspace(0, len(pairs) - 1, MOST_SHAPES).round().astype(int))
    return [pairs[i] for i in at.tolist()]


def _unseen(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return shapes beyond the measured ones, and between them if these are few."""
    found = []
    for ppn in dict.fromkeys(p for p, _ in pairs):
        nodes = [n for p, n in pairs if p == ppn]
        if nodes[-1] * ppn < _LARGEST // 8:
            found.append((ppn, 2 * nodes[-1]))
        if len(pairs) <= _BETWEEN_UP_TO:
            for low, high in pairwise(nodes):
                if high >= 2 * low:
                    found.append((ppn, round((low * high) ** 0.5)))
    return [pair for pair in found if pair not in pairs]


def _sizes(measured: list[int]) -> list[int]:
    low, high = measured[0] // 2, min(measured[-1] * _BEYOND_SIZES, _LARGEST)
    octaves = [1 << k for k in range(high.bit_length())]
    steps = {size for octave in octaves for size in (octave, octave * 3 // 2)}
    return sorted({size for size in steps if low <= size <= high} | set(measured))


class Why(StrEnum):
    """Why a configuration is used, or the default kept."""

    GAIN = "replaced: predicted faster, beyond doubt and noise"
    CONFIRMED = "replaced: measured faster than the default"
    NO_DEFAULT = "fastest predicted; the default was not measured"
    FASTEST = "kept: the default is predicted fastest"
    WITHDRAWN = "kept: no other was faster when measured in turn with the default"
    ERROR = "kept: the predicted gain is too small to be sure of"
    OUTSIDE = "kept: the gain predicted outside the measured range is too small to trust"
    NOTHING = "kept: no other configuration is known to run here"
    FAR = "kept: too far from everything measured"
    WITHHELD = "kept: held-out decisions for this collective gained nothing of what was predicted"

    @property
    def is_replaced(self) -> bool:
        """Whether something else than the default is used."""
        return self in (Why.GAIN, Why.CONFIRMED, Why.NO_DEFAULT)


REASONS = tuple(Why)
LETTERS = dict(zip(REASONS, "GMUFWEONXH", strict=True))
"""A letter for each reason, as the page has them."""


@dataclass(frozen=True, eq=False)
class DecisionMap:
    """Decisions on S shapes and M sizes of one collective; all fields but the first (S, M).

    ``chosen`` are columns of ``portfolio``; ``why`` indices of `REASONS`; ``default_s`` and
    ``chosen_s`` predicted seconds of the default and of what is chosen, NaN where there are none;
    ``bound`` the lower bound of the gain that was weighed, NaN where none is stated.
    """

    collective: Collective
    portfolio: tuple[Configuration, ...]
    grid: Grid
    chosen: Integers
    why: Integers
    extrapolated: Flags
    default_s: Numbers
    chosen_s: Numbers
    bound: Numbers

    @property
    def gain(self) -> Numbers:
        """Predicted ratio of default to chosen, 1 where the default is kept."""
        gain = self.default_s / self.chosen_s
        return np.where(self.replaced & np.isfinite(gain), gain, 1.0)

    @property
    def replaced(self) -> Flags:
        """Where something else than the default is used."""
        return np.array([reason.is_replaced for reason in REASONS])[self.why]

    @property
    def inside(self) -> Flags:
        """Which fields were measured: a measured size on a measured shape."""
        return self.grid.known[:, None] & self.grid.known_size[None, :]

    def configuration(self, shape: int, size: int) -> Configuration:
        return self.portfolio[int(self.chosen[shape, size])]


def decision_map(
    selector: ModelSelector, collective: Collective, shapes: Sequence[Shape] = ()
) -> DecisionMap:
    """Return the decisions of `selector` on `shapes`, else on and around what was measured."""
    coverage = selector.bundle.model(collective).coverage
    return decisions_on(selector, collective, Grid.of(coverage, shapes))


def decisions_on(selector: ModelSelector, collective: Collective, grid: Grid) -> DecisionMap:
    """Return the decisions of `selector` on a grid."""
    model = selector.bundle.model(collective)
    shape = (len(grid.nodes), len(grid.msize_bytes))
    decisions = selector.decide(collective, *grid.vectors())
    why = reasons(decisions, model.default_column).reshape(shape)
    forecast = decisions.forecast
    rows = np.arange(len(decisions.chosen))
    times = np.hstack([forecast.time_s, np.full((len(rows), 1), np.nan)])
    default = -1 if model.default_column is None else model.default_column
    return DecisionMap(
        collective,
        selector.portfolio(collective),
        grid,
        decisions.chosen.reshape(shape),
        why,
        forecast.extrapolated.reshape(shape),
        times[:, default].reshape(shape),
        times[rows, decisions.chosen].reshape(shape),
        bounds(decisions, model.default_column, selector.bundle.confirmations).reshape(shape),
    )


def reasons(decisions: Decisions, default_column: int | None) -> Integers:
    """Return why each of n decisions fell as it did, as indices of `REASONS`."""
    chosen, fastest = decisions.chosen, decisions.fastest
    candidate, measured = decisions.forecast.candidate, decisions.confirmation >= 0
    if default_column is None:
        n_configurations = candidate.shape[1]
        cases = [
            (decisions.beyond, Why.FAR),
            (chosen == n_configurations, Why.NOTHING),
            (np.ones(len(chosen), np.bool_), Why.NO_DEFAULT),
        ]
    else:
        rivals = candidate.sum(axis=1) > candidate[:, default_column]
        cases = [
            (measured & (chosen != default_column), Why.CONFIRMED),
            (measured, Why.WITHDRAWN),
            (np.full(len(chosen), decisions.trust <= 0), Why.WITHHELD),
            (decisions.beyond, Why.FAR),
            (chosen != default_column, Why.GAIN),
            (~rivals, Why.NOTHING),
            (fastest == default_column, Why.FASTEST),
            (decisions.forecast.extrapolated, Why.OUTSIDE),
            (np.ones(len(chosen), np.bool_), Why.ERROR),
        ]
    conditions, kinds = zip(*cases, strict=True)
    return np.select(conditions, [REASONS.index(kind) for kind in kinds]).astype(np.int64)


def bounds(
    decisions: Decisions, default_column: int | None, confirmations: Sequence[Confirmation]
) -> Numbers:
    """Return the lower bounds of n gains, as `Selection.gain_bound`; NaN where none is told.

    Of the bundle's `confirmations` it is that of the measured gain.
    """
    told = decisions.bounds(default_column)
    for k in set(decisions.confirmation.tolist()) - {-1}:
        lower = confirmations[k].lower
        told[decisions.confirmation == k] = np.nan if lower is None else lower
    return told


MOST_ROWS = 48
_MOST_PANELS = 24
_MOST_ACROSS = 4


@dataclass(frozen=True)
class Pick:
    """What is looked at; what is empty leaves everything.

    ``shapes`` and ``nodes`` or ``ppn`` exclude each other.
    """

    collectives: tuple[Collective, ...] = ()
    nodes: tuple[int, ...] = ()
    ppn: tuple[int, ...] = ()
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        if self.shapes and (self.nodes or self.ppn):
            raise say("exclusive", one="shapes", other="nodes and ppn")

    def of_collectives(self, known: Iterable[Collective]) -> tuple[Collective, ...]:
        found = set(known)
        missing = [c for c in self.collectives if c not in found]
        if missing:
            raise unknown("collective of the data", ", ".join(missing), sorted(found), DataError)
        return tuple(sorted(self.collectives or found))

    def of_cells(self, cells: CellMatrix) -> CellMatrix:
        return cells.rows(self.mask(cells.nodes, cells.ppn))

    def mask(self, nodes: NDArray[np.int64], ppn: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of n instances on such shapes are picked."""
        mask = np.ones(len(nodes), np.bool_)
        if self.nodes:
            mask &= np.isin(nodes, self.nodes)
        if self.ppn:
            mask &= np.isin(ppn, self.ppn)
        if self.shapes:
            asked = {(s.nodes, s.ppn) for s in self.shapes}
            pairs = zip(nodes.tolist(), ppn.tolist(), strict=True)
            mask &= np.array([pair in asked for pair in pairs], np.bool_)
        return mask

    def of_shapes(self, measured: Sequence[Shape]) -> tuple[Shape, ...]:
        """Return the shapes asked for, measured or not; none if all are looked at.

        Node counts are combined with the ppn asked for, else with those of `measured`, and the
        other way round.
        """
        if self.shapes or not (self.nodes or self.ppn):
            return tuple(sorted(set(self.shapes)))
        if self.nodes and self.ppn:
            return tuple(Shape(n, p) for n, p in sorted(set(product(self.nodes, self.ppn))))
        known = {(s.nodes, s.ppn) for s in measured}
        nodes = self.nodes or {n for n, _ in known}
        ppn = self.ppn or {p for _, p in known}
        return tuple(Shape(n, p) for n, p in sorted(set(product(nodes, ppn))))


ALL = Pick()


def picked(matrices: Mapping[Collective, CellMatrix], pick: Pick) -> dict[Collective, CellMatrix]:
    """Return the picked instances of each picked collective that has some."""
    asked = pick.of_collectives(matrices)
    kept = {c: cells for c in asked if len(cells := pick.of_cells(matrices[c]))}
    if not kept:
        raise say("nothing-there", what="that", known=_described(matrices, asked))
    return kept


def beside(
    matrices: Mapping[Collective, CellMatrix], pick: Pick, shown: Iterable[Collective]
) -> dict[Collective, CellMatrix]:
    """Return the picked instances of those of `matrices` that stand beside what is `shown`."""
    wanted = set(shown)
    both = {c: cells for c, cells in matrices.items() if c in wanted}
    return picked(both, replace(pick, collectives=()))


def _described(matrices: Mapping[Collective, CellMatrix], asked: Sequence[Collective]) -> str:
    parts = []
    for collective in asked:
        cells = matrices[collective]
        nodes, ppn = (", ".join(map(str, np.unique(v))) for v in (cells.nodes, cells.ppn))
        parts.append(f"{collective} was measured on {nodes} nodes with ppn {ppn}")
    return "; ".join(parts) or "the data have no measurement with the status ok"


def spread(n: int, most: int) -> list[int]:
    """Return at most `most` of n positions, evenly spread, both ends among them if there are two.

    One alone is the last.
    """
    if n and most == 1:
        return [n - 1]
    if not n or not most:
        return []
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, most))})


def panels_each(collectives: int) -> int:
    return max(1, _MOST_PANELS // max(1, collectives))


def spread_shapes(shapes: Sequence[Shape], most: int) -> list[Shape]:
    """Return at most `most` of `shapes`, sorted: evenly spread node counts with evenly spread ppn.

    Where such combinations are not all there, others take their place.
    """
    ordered = sorted(shapes)
    if len(ordered) <= most:
        return ordered
    nodes, ppn = (sorted({getattr(s, name) for s in ordered}) for name in ("nodes", "ppn"))
    across = min(len(ppn), _MOST_ACROSS)
    across = across if most >= 2 * across else min(across, math.isqrt(most))
    some_ppn = {ppn[k] for k in spread(len(ppn), across)}
    some_nodes = {nodes[k] for k in spread(len(nodes), max(1, most // across))}
    kept = [s for s in ordered if s.nodes in some_nodes and s.ppn in some_ppn]
    others = [s for s in ordered if s not in kept]
    return sorted([*kept, *(others[k] for k in spread(len(others), most - len(kept)))])


def notes_on(left_out: Mapping[Collective, str], collectives: int) -> tuple[str, ...]:
    """Return what was left out of so many collectives, those of which the same was together."""
    by_text: dict[str, list[str]] = {}
    for collective, text in left_out.items():
        by_text.setdefault(text, []).append(collective.value)
    every = 1 < collectives == len(left_out) and len(by_text) == 1
    return tuple(
        f"{text} of {'each collective' if every else ', '.join(names)}"
        for text, names in by_text.items()
    )
