"""How far the time of a cell can be trusted, from repetitions, launches and allocations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import CELL_COLUMNS
from colltune.dataset.noise import Allocations, Component, measured, paired
from colltune.dataset.noise.components import allocation_medians, component, contrasts
from colltune.dataset.noise.repetitions import median_factor
from colltune.models.cells import CellMatrix

Numbers = NDArray[np.float64]
_Key = tuple[str, str, str, int, int, int]


@dataclass(frozen=True, eq=False)
class CellNoise:
    """Variances of the logarithms of cells' times, as the package ``dataset.noise`` defines them.

    What a launch or an allocation does to all configurations alike is not part of them, since it
    does not disturb a comparison. Components that the data do not tell count as none: the
    variances are lower bounds. ``by_cell`` is of a cell's median over launches, ``of_one_launch``
    of a single launch's time.
    """

    by_cell: Mapping[_Key, float]
    of_one_launch: Mapping[_Key, float]

    @classmethod
    def of(cls, dataset: PerformanceDataset, allocation_of: Mapping[str, str]) -> CellNoise:
        """Estimate from all of `dataset`; `allocation_of` maps launches to allocations."""
        table = measured(dataset, Allocations(allocation_of, {}))
        launch, allocation = _components(table.assign(variance=table["variance"].fillna(0.0)))
        cells = table.groupby(CELL_COLUMNS).agg(
            variance=("variance", "mean"),
            launches=("launch", "size"),
            allocations=("allocation", "nunique"),
        )
        per_launch = cells["variance"].fillna(0.0) + (launch or 0.0)
        total = per_launch * cells["launches"].map(median_factor)
        total += (allocation or 0.0) * cells["allocations"].map(median_factor)
        alone = per_launch + (allocation or 0.0)
        if launch is None and allocation is None:
            known = cells["variance"].notna()
            total, alone = total.where(known), alone.where(known)
        return cls(_by_key(total), _by_key(alone))

    def variance(self, cells: CellMatrix, *, one_launch: bool = False) -> Numbers:
        """Return the variances of `cells`, shape (n, C), NaN where they are unknown."""
        known = self.of_one_launch if one_launch else self.by_cell
        collective = cells.collective.value
        heads = [(collective, c.stored_algorithm, c.parameter_text) for c in cells.configurations]
        rows = zip(
            cells.nodes.tolist(), cells.ppn.tolist(), cells.msize_bytes.tolist(), strict=True
        )
        found = [[known.get((*head, *row), np.nan) for head in heads] for row in rows]
        return np.array(found, np.float64).reshape(cells.time_s.shape)


def _by_key(variances: pd.Series[float]) -> dict[_Key, float]:
    levels = [variances.index.get_level_values(name).tolist() for name in CELL_COLUMNS]
    return dict(zip(zip(*levels, strict=True), variances.tolist(), strict=True))


def _components(table: pd.DataFrame) -> tuple[float | None, float | None]:
    """Return the variances between launches and between allocations, None where not told."""
    rng = np.random.default_rng(0)
    launches = _component(paired(table, ["allocation"], "launch"), rng)
    merged = allocation_medians(table, launches.variance if launches else 0.0)
    allocations = _component(paired(merged, [], "allocation"), rng)
    return _variance(launches), _variance(allocations)


def _component(pairs: pd.DataFrame, rng: np.random.Generator) -> Component | None:
    return component(contrasts(pairs), 4, rng) or component(pairs, 2, rng)


def _variance(found: Component | None) -> float | None:
    return None if found is None else found.variance
