"""What is trained on and what is tested: one collective's cells, twice."""

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
from colltune.dataset.noise import allocations_of
from colltune.dataset.objective import Objective
from colltune.domain import Collective, Configuration
from colltune.errors import DataError
from colltune.evaluation.cell_noise import CellNoise
from colltune.models.cells import CellMatrix, cell_matrices

Numbers = NDArray[np.float64]
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
        """The collective that is learned and decided."""
        return self.testing.collective


@dataclass(frozen=True, eq=False)
class Source:
    """A dataset with what splits need of it.

    ``allocation_of`` names the allocation of each launch; by default each is one of its own.
    ``train_noise`` is the standard deviation of the noise, drawn with ``seed``, on the logarithm of
    times that are learned. Instances of more than ``max_nprocs`` processes are left out. Learned is
    the ``objective`` of the repetitions; decisions are judged by ``judged_by``, of the measurements
    of ``judging`` where these are given: all cells of the dataset, from a part of the record.
    """

    dataset: PerformanceDataset
    allocation_of: Mapping[str, str] | None = None
    train_noise: float = 0.0
    seed: int = 0
    max_nprocs: int | None = None
    objective: Objective = Objective.MEDIAN
    judged_by: Objective = Objective.MEDIAN
    judging: PerformanceDataset | None = None

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
        """The allocation of each launch."""
        launches = self.dataset.frame["launch"].astype(str)
        return self.allocation_of or allocations_of(launches, {}).by_launch

    @cached_property
    def noise(self) -> CellNoise:
        """How far the times can be trusted."""
        return CellNoise.of(self.dataset, self.allocations)

    def _cells(
        self, dataset: PerformanceDataset, objective: Objective
    ) -> dict[Collective, CellMatrix]:
        whole = cell_matrices(dataset, objective)
        if self.max_nprocs is None:
            return whole
        cut = {c: m.rows(m.nprocs <= self.max_nprocs) for c, m in whole.items()}
        return {c: m for c, m in cut.items() if len(m)}

    def part(self, mask: pd.Series[bool]) -> Source:
        """Keep the measurements of `mask`."""
        return replace(self, dataset=self.dataset.where(mask), allocation_of=self.allocations)


def fold(
    name: str,
    training: CellMatrix,
    testing: CellMatrix,
    noise: CellNoise,
    *,
    one_launch: bool = False,
) -> Fold | None:
    """Return the fold, or None if nothing can be learned or nothing is to be decided.

    ``one_launch`` tells that the tested times are of a single launch each.
    """
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
