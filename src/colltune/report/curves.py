"""Runtimes over message size, normalised by the best: measured where known, else predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration, Shape
from colltune.report.decisions import DecisionMap
from colltune.report.measured import Comparison

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """One shape's runtimes at M message sizes, seconds, NaN where unknown.

    ``measured`` tells whether they were measured or predicted, ``trained`` whether the shape was
    fitted to.
    """

    shape: Shape
    measured: bool
    trained: bool
    msize_bytes: NDArray[np.int64]
    configurations: tuple[Configuration, ...]
    default_s: Numbers
    selected_s: Numbers
    best_s: Numbers

    @property
    def default_ratio(self) -> Numbers:
        """The default's time over the best's."""
        return self.default_s / self.best_s

    @property
    def selected_ratio(self) -> Numbers:
        """The selected configuration's time over the best's."""
        return self.selected_s / self.best_s


def curves(found: DecisionMap, comparison: Comparison | None) -> tuple[Curve, ...]:
    """Return one curve per shape: those compared if there are any, else the fitted ones."""
    if comparison is None:
        return _predicted(found)
    pairs = sorted(set(zip(comparison.ppn.tolist(), comparison.nodes.tolist(), strict=True)))
    return tuple(_measured(comparison, Shape(nodes, ppn)) for ppn, nodes in pairs)


def _measured(comparison: Comparison, shape: Shape) -> Curve:
    here = comparison.rows((comparison.nodes == shape.nodes) & (comparison.ppn == shape.ppn))
    here = here.rows(np.argsort(here.msize_bytes, kind="stable"))
    return Curve(
        shape,
        True,
        bool(here.trained[0]),
        here.msize_bytes,
        tuple(here.portfolio[c] for c in here.chosen.tolist()),
        here.default_s,
        here.selected_s,
        here.best_s,
    )


def _predicted(found: DecisionMap) -> tuple[Curve, ...]:
    sizes = np.flatnonzero(found.grid.known_size)
    return tuple(
        Curve(
            shape,
            False,
            True,
            found.grid.msize_bytes[sizes],
            tuple(found.configuration(at, size) for size in sizes.tolist()),
            found.default_s[at, sizes],
            found.chosen_s[at, sizes],
            found.best_s[at, sizes],
        )
        for at, shape in enumerate(found.grid.shapes)
        if found.grid.known[at]
    )
