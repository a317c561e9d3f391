"""What is trained on and what is tested: one collective's cells and their noise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import CELL_COLUMNS
from colltune.dataset.noise import Allocations, allocations_of, measured
from colltune.dataset.objective import Objective
from colltune.domain import Collective, Configuration, Context, Shape
from colltune.errors import DataError
from colltune.evidence.components import Variances
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.mpi.programs import Programs
from colltune.selector.argmin import holds, legal_runs

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
        told = Variances.comparing(table.assign(variance=table["variance"].fillna(0.0)))
        cells = table.groupby(CELL_COLUMNS).agg(
            variance=("variance", "mean"),
            launches=("launch", "size"),
            allocations=("allocation", "nunique"),
        )
        total = told.of_cells(cells)
        alone = cells["variance"].fillna(0.0) + (told.launch or 0.0) + (told.allocation or 0.0)
        if told == Variances():
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


Flags = NDArray[np.bool_]
_EXHAUSTIVE_REPS, _EXHAUSTIVE_CELL_S = 500, 0.5


class SplitError(DataError):
    """A split that cannot be made of the data."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One decision maker's exercise: learn from ``training``, decide all of ``testing``.

    ``testing`` holds only instances whose default and another configuration were measured;
    ``variance`` (n, C) is that of the logarithm of its times, NaN where the data do not tell.
    """

    name: str
    training: CellMatrix
    testing: CellMatrix
    variance: Numbers

    @property
    def collective(self) -> Collective:
        return self.testing.collective


@dataclass(frozen=True, eq=False)
class FoldSource:
    """A dataset with what splits need of it.

    ``allocation_of`` names the allocation of each launch; by default each is one of its own.
    ``train_noise`` is the standard deviation of the noise, drawn with ``seed``, on the logarithm of
    times that are learned. Instances of more than ``max_nprocs`` processes are left out. Learned is
    the ``objective`` of the repetitions; decisions are judged by ``judged_by``, of the measurements
    of ``judging`` where these are given: all cells of the dataset, from a part of the record. What
    harms ``programs`` is neither learned nor judged; by default everything is.
    """

    dataset: PerformanceDataset
    allocation_of: Mapping[str, str] | None = None
    train_noise: float = 0.0
    seed: int = 0
    max_nprocs: int | None = None
    objective: Objective = Objective.MEDIAN
    judged_by: Objective = Objective.MEDIAN
    judging: PerformanceDataset | None = None
    programs: Programs | None = None

    @cached_property
    def matrices(self) -> dict[Collective, CellMatrix]:
        """The cells of each collective as they are judged."""
        return self._cells(self.judging or self.dataset, self.judged_by)

    @cached_property
    def learned(self) -> dict[Collective, CellMatrix]:
        """The cells of each collective with noise: one noisy measurement of everything."""
        rng = np.random.default_rng(self.seed)
        same = self.judging is None and self.objective is self.judged_by
        cells = self.matrices if same else self._cells(self.dataset, self.objective)
        return {
            c: replace(
                m, time_s=m.time_s * np.exp(rng.normal(0.0, self.train_noise, m.time_s.shape))
            )
            for c, m in cells.items()
        }

    @cached_property
    def allocations(self) -> Mapping[str, str]:
        launches = self.dataset.frame["launch"].astype(str)
        return self.allocation_of or allocations_of(launches, {}).by_launch

    @cached_property
    def noise(self) -> CellNoise:
        return CellNoise.of(self.dataset, self.allocations)

    def _cells(
        self, dataset: PerformanceDataset, objective: Objective
    ) -> dict[Collective, CellMatrix]:
        found = cell_matrices(dataset, objective)
        if self.programs is not None:
            found = legal_cells(found, dataset.context, self.programs)
        if self.max_nprocs is None:
            return found
        cut = {c: m.rows(m.nprocs <= self.max_nprocs) for c, m in found.items()}
        return {c: m for c, m in cut.items() if len(m)}

    def part(self, mask: pd.Series[bool]) -> FoldSource:
        return replace(self, dataset=self.dataset.where(mask), allocation_of=self.allocations)


def legal_cells(
    matrices: Mapping[Collective, CellMatrix], context: Context, programs: Programs
) -> dict[Collective, CellMatrix]:
    """Return `matrices` without the times of what harms `programs`; the default's always stay."""
    found = {c: _legal(cells, context, programs) for c, cells in matrices.items()}
    return {c: cells for c, cells in found.items() if len(cells)}


def _legal(cells: CellMatrix, context: Context, programs: Programs) -> CellMatrix:
    kept = replace(cells, time_s=legal_times(cells, context, programs))
    return kept.rows(np.asarray(np.isfinite(kept.time_s).any(axis=1)))


def legal_times(cells: CellMatrix, context: Context, programs: Programs) -> NDArray[np.float64]:
    """Return the times of `cells`, NaN where a configuration may not run for `programs`."""
    pairs = np.column_stack([cells.nodes, cells.ppn])
    distinct, shape_of = np.unique(pairs, axis=0, return_inverse=True)
    shapes = [Shape(*map(int, pair)) for pair in distinct]
    harmful = np.zeros(cells.time_s.shape, np.bool_)
    for column, one in enumerate(cells.configurations):
        if one.is_default:
            continue
        for at, runs in enumerate(legal_runs(context, one, shapes, programs)):
            rows = np.flatnonzero(shape_of.ravel() == at)
            harmful[rows, column] = ~holds(runs, cells.msize_bytes[rows])
    return np.where(harmful, np.nan, cells.time_s)


def fold(
    name: str,
    training: CellMatrix,
    testing: CellMatrix,
    noise: CellNoise,
    *,
    one_launch: bool = False,
) -> Fold | None:
    """Return the fold, or None if nothing can be learned or nothing is to be decided."""
    undecided = testing.rows(decidable(testing))
    if not len(training) or not len(undecided):
        return None
    return Fold(name, training, undecided, noise.variance(undecided, one_launch=one_launch))


def decidable(cells: CellMatrix) -> Flags:
    """Tell which instances have a measured default and something to choose instead, shape (n)."""
    column = cells.default_column
    if column is None:
        return np.zeros(len(cells), np.bool_)
    measured = np.isfinite(cells.time_s)
    return np.asarray(measured[:, column] & (measured.sum(axis=1) > 1))


def measured_columns(tested: CellMatrix, chosen: Sequence[Configuration]) -> NDArray[np.int64]:
    """Return the columns of `chosen`, the default's where it was not measured, shape (n)."""
    assert tested.default_column is not None
    known = {c: column for column, c in enumerate(tested.configurations)}
    columns = np.array([known.get(c, tested.default_column) for c in chosen], np.int64)
    measured = np.isfinite(tested.time_s[np.arange(len(tested)), columns])
    return np.where(measured, columns, tested.default_column)


def exhaustive_s(time_s: Numbers) -> float:
    """Return the seconds of measuring cells: 500 repetitions or half a second of each."""
    return float(np.nansum(np.fmin(_EXHAUSTIVE_REPS * time_s, _EXHAUSTIVE_CELL_S)))


def digest(dataset: PerformanceDataset) -> str:
    """Return a SHA-256 of the context and of all times, whatever the order of the rows."""
    columns = [*CELL_COLUMNS, "launch", "status", "n_reps", "time_s", "time_mean_s"]
    table = dataset.frame[columns].sort_values(columns[:7], kind="stable")
    text = f"{dataset.context!r}\n" + table.to_csv(index=False, float_format="%.12g")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
