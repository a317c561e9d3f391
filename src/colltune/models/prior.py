"""Measurements of other machines that a new machine borrows from: a corpus.

Measurements of different contexts are never joined, and they are not here either: a prior stays
apart from what was measured on the machine itself, and a bundle that rests on one says so. Its
configurations are matched by collective, algorithm and parameters; releases of one library may
differ, libraries only if asked for, since equal names there need not be equal algorithms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.domain import Collective, Configuration, Context
from colltune.errors import DataError
from colltune.models.cells import CellMatrix, cell_matrices

Numbers = NDArray[np.float64]
_LEAST_SHAPES = 2


@dataclass(frozen=True, eq=False)
class Prior:
    """The cells of another machine, under the names of the library they are used for.

    ``digest`` is the SHA-256 of its cells, ``n_measurements`` how many rows they come from.
    """

    context: Context
    cells: dict[Collective, CellMatrix]
    digest: str
    n_measurements: int

    @classmethod
    def of(
        cls,
        dataset: PerformanceDataset,
        context: Context,
        objective: Objective = DEFAULT_OBJECTIVE,
        *,
        any_library: bool = False,
    ) -> Prior:
        """Return the `objective` of the times of `dataset` as a prior of `context`.

        Raises
        ------
        DataError
            If it is of that very context, of another library, holds nothing usable, or does not
            know the objective.
        """
        other = dataset.context
        if other == context:
            raise DataError(
                f"the prior is of the same context as the rest, {context}: give it as data"
            )
        if other.library != context.library and not any_library:
            raise DataError(
                f"the prior is of {other.library} ({other}) and not of {context.library}; its"
                " algorithms are matched by name only with --any-library"
            )
        matrices = cell_matrices(dataset, objective)
        if not matrices:
            raise DataError(f"no measurement of the prior ({other}) is usable: none has status ok")
        renamed = {c: _renamed(cells, context.library) for c, cells in matrices.items()}
        return cls(other, renamed, _digest(dataset), len(dataset))

    def facts(self) -> dict[str, Any]:
        """Return where it comes from, JSON-able."""
        shapes = {
            shape
            for cells in self.cells.values()
            for shape in zip(cells.nodes.tolist(), cells.ppn.tolist(), strict=True)
        }
        return {
            "context": dict(vars(self.context)),
            "sha256": self.digest,
            "measurements": self.n_measurements,
            "shapes": [list(shape) for shape in sorted(shapes)],
        }


def corpus(priors: Sequence[Prior], collective: Collective) -> tuple[tuple[CellMatrix, ...], str]:
    """Return what `priors` know of `collective`, one matrix per machine, or why it is of no use.

    All matrices have the same configurations: those measured at two shapes or more, on whichever
    machines, since a single shape tells nothing of scaling. The reason is empty if there are any.
    """
    found = [prior.cells[collective] for prior in priors if collective in prior.cells]
    if not found:
        return (), "no prior has it"
    configurations = sorted({c for cells in found for c in cells.configurations})
    aligned = [with_configurations(cells, configurations) for cells in found]
    known = [
        c for c, n in zip(configurations, _shapes_seen(aligned), strict=True) if n >= _LEAST_SHAPES
    ]
    if not any(c.is_default for c in known):
        if any(c.is_default for c in configurations):
            return (), "the priors measured the default at one shape only"
        return (), "no prior measured the default"
    if len(known) < 2:
        return (), "the priors measured nothing but the default at two shapes or more"
    kept = [with_configurations(cells, known) for cells in aligned]
    return tuple(cells for cells in kept if len(cells)), ""


def with_configurations(cells: CellMatrix, configurations: Sequence[Configuration]) -> CellMatrix:
    """Return `cells` with just these columns, in this order; rows without any time are dropped."""
    place = {c: i for i, c in enumerate(cells.configurations)}
    shape = (len(cells), len(configurations))
    time_s, slow = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    for column, configuration in enumerate(configurations):
        if configuration in place:
            time_s[:, column] = cells.time_s[:, place[configuration]]
            slow[:, column] = cells.slow[:, place[configuration]]
    rows = np.isfinite(time_s).any(axis=1)
    return replace(
        cells,
        configurations=tuple(configurations),
        nodes=cells.nodes[rows],
        ppn=cells.ppn[rows],
        msize_bytes=cells.msize_bytes[rows],
        time_s=time_s[rows],
        slow=slow[rows],
    )


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
    )


def _shapes_seen(matrices: Sequence[CellMatrix]) -> list[int]:
    """Return at how many shapes each configuration was measured."""
    seen: list[set[tuple[int, int]]] = [set() for _ in matrices[0].configurations]
    for cells in matrices:
        for row, column in np.argwhere(np.isfinite(cells.time_s)).tolist():
            seen[column].add((int(cells.nodes[row]), int(cells.ppn[row])))
    return [len(shapes) for shapes in seen]


def _renamed(cells: CellMatrix, library: str) -> CellMatrix:
    configurations = tuple(replace(c, library=library) for c in cells.configurations)
    return replace(cells, configurations=configurations)


def _digest(dataset: PerformanceDataset) -> str:
    """Return the SHA-256 of the context and of what `PerformanceDataset.cells` says."""
    text = repr(sorted(vars(dataset.context).items())) + dataset.cells().to_csv(index=False)
    return hashlib.sha256(text.encode()).hexdigest()
