"""Measured times as one matrix per collective: instances in rows, configurations in columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.objective import Objective
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.models.error_model import UNKNOWN, LaunchNoise, launch_noise

if TYPE_CHECKING:
    import pandas as pd

    from colltune.dataset import PerformanceDataset

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CellMatrix:
    """All cells of one collective.

    ``nodes``, ``ppn``, ``msize_bytes`` (n) describe the instances, sorted; ``time_s`` (n, C) holds
    the times of ``configurations`` (C, sorted), NaN where nothing was measured; ``slow`` (n, C)
    tells which of those were not measured because they are slow, ``few`` (n, C) which times are of
    too few repetitions to prove anything, None: none of them; ``objective`` which statistic of
    the repetitions the times are; ``noise`` how they differ from launch to launch.
    """

    collective: Collective
    configurations: tuple[Configuration, ...]
    nodes: Integers
    ppn: Integers
    msize_bytes: Integers
    time_s: Numbers
    slow: Flags
    objective: Objective = Objective.MEDIAN
    noise: LaunchNoise = UNKNOWN
    few: Flags | None = None

    @property
    def proved_s(self) -> Numbers:
        """The times (n, C) of enough repetitions, NaN in place of the others."""
        return self.time_s if self.few is None else np.where(self.few, np.nan, self.time_s)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def nprocs(self) -> Integers:
        """Processes per instance (n)."""
        return self.nodes * self.ppn

    @property
    def default_column(self) -> int | None:
        """Column of the library's own decision, or None if it was not measured."""
        columns = [i for i, c in enumerate(self.configurations) if c.is_default]
        return columns[0] if columns else None

    def instances(self) -> tuple[Instance, ...]:
        """Return the rows as instances."""
        rows = zip(self.nodes.tolist(), self.ppn.tolist(), self.msize_bytes.tolist(), strict=True)
        return tuple(Instance(self.collective, Shape(n, p), m) for n, p, m in rows)

    def _of(
        self,
        rows: Flags,
        configurations: Iterable[Configuration],
        time_s: Numbers,
        slow: Flags,
        few: Flags | None,
    ) -> CellMatrix:
        return replace(
            self,
            configurations=tuple(configurations),
            nodes=self.nodes[rows],
            ppn=self.ppn[rows],
            msize_bytes=self.msize_bytes[rows],
            time_s=time_s,
            slow=slow,
            few=few,
        )

    def rows(self, mask: NDArray[Any]) -> CellMatrix:
        """Keep the instances of `mask`; configurations without a time left are dropped."""
        time_s = self.time_s[mask]
        seen = np.asarray(np.isfinite(time_s).any(axis=0))
        configurations = (c for c, s in zip(self.configurations, seen, strict=True) if s)
        few = None if self.few is None else self.few[mask][:, seen]
        return self._of(mask, configurations, time_s[:, seen], self.slow[mask][:, seen], few)

    def with_configurations(self, configurations: Sequence[Configuration]) -> CellMatrix:
        """Return just these columns, in this order; rows without any time are dropped."""
        place = {c: i for i, c in enumerate(self.configurations)}
        shape = (len(self), len(configurations))
        time_s, slow, few = (
            np.full(shape, np.nan),
            np.zeros(shape, np.bool_),
            np.zeros(shape, np.bool_),
        )
        known = [(k, place[c]) for k, c in enumerate(configurations) if c in place]
        for column, mine in known:
            time_s[:, column], slow[:, column] = self.time_s[:, mine], self.slow[:, mine]
            few[:, column] = False if self.few is None else self.few[:, mine]
        rows = np.asarray(np.isfinite(time_s).any(axis=1))
        return self._of(rows, configurations, time_s[rows], slow[rows], few[rows])


HELD_OUT: dict[str, Callable[[CellMatrix], Integers]] = {
    "nodes": lambda cells: cells.nodes,
    "ppn": lambda cells: cells.ppn,
    "shapes": lambda cells: cells.nodes * (int(cells.ppn.max()) + 1) + cells.ppn,
    "msizes": lambda cells: cells.msize_bytes,
}
"""What instances (n) may be parted by, so that what is held out differs in it."""


def dealt(keys: Integers, most: int) -> Integers:
    """Return each instance's part, (n): of `most` at most, into which equal keys are dealt.

    Neighbouring keys fall into different parts.
    """
    distinct = np.unique(keys)
    return np.asarray(np.searchsorted(distinct, keys) % min(most, len(distinct)))


def stacked(matrices: Sequence[CellMatrix]) -> CellMatrix:
    """Return the rows of `matrices`, which have the same configurations, sorted by instance."""
    nodes, ppn, msize_bytes = (
        np.concatenate([getattr(cells, name) for cells in matrices])
        for name in ("nodes", "ppn", "msize_bytes")
    )
    order = np.lexsort([msize_bytes, ppn, nodes])
    return replace(
        matrices[0],
        nodes=nodes[order],
        ppn=ppn[order],
        msize_bytes=msize_bytes[order],
        time_s=np.concatenate([cells.time_s for cells in matrices])[order],
        slow=np.concatenate([cells.slow for cells in matrices])[order],
        few=np.concatenate([~np.isfinite(cells.proved_s) for cells in matrices])[order],
    )


def shapes_measured(matrices: Iterable[CellMatrix]) -> list[Shape]:
    """Return the shapes of all instances, sorted."""
    pairs = {(n, p) for m in matrices for n, p in zip(m.nodes, m.ppn, strict=True)}
    return sorted(Shape(int(n), int(p)) for n, p in pairs)


def cell_matrices(
    dataset: PerformanceDataset, objective: Objective = Objective.MEDIAN
) -> dict[Collective, CellMatrix]:
    """Return the `objective` of the times of `dataset`, collectives sorted; see `cells` there."""
    slow = set(dataset.slow_cells().itertuples(index=False, name=None))
    few = set(dataset.few_cells().itertuples(index=False, name=None))
    timed, library = dataset.timed(), dataset.context.library
    timed = timed[timed["status"] != RunStatus.TOO_FEW]
    noise = launch_noise(timed)
    matrices = {}
    for name, rows in dataset.cells(objective).groupby("collective", sort=True):
        collective = Collective(str(name))
        table = rows.pivot_table(
            index=["nodes", "ppn", "msize_bytes"],
            columns=["algorithm", "parameters"],
            values="time_s",
        )
        of_column = {
            Configuration.stored(library, collective, str(pair[0]), str(pair[1])): column
            for column, pair in enumerate(table.columns)
        }
        order = [of_column[configuration] for configuration in sorted(of_column)]
        nodes, ppn, msize_bytes = np.array(table.index.to_list(), np.int64).T
        matrices[collective] = CellMatrix(
            collective,
            tuple(sorted(of_column)),
            nodes,
            ppn,
            msize_bytes,
            table.to_numpy(np.float64)[:, order],
            _flags(slow, str(name), table)[:, order],
            objective,
            launch_noise(timed[timed["collective"] == name], noise),
            _flags(few, str(name), table)[:, order] if few else None,
        )
    return matrices


def _flags(named: Collection[tuple[object, ...]], collective: str, table: pd.DataFrame) -> Flags:
    """Tell which cells of `table` are among the `named` ones of all collectives."""
    if not named:
        return np.zeros(table.shape, np.bool_)
    return np.array(
        [[(collective, *pair, *row) in named for pair in table.columns] for row in table.index]
    )
