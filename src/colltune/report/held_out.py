"""The same figures on node counts that were left out of the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.models.learners import learner_entry
from colltune.models.runtime_model import CollectiveModel
from colltune.report.calibration import Errors
from colltune.report.measured import Comparison, compare
from colltune.selector.argmin import ModelSelector

LEAST_NODE_COUNTS = 3


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Decisions and errors on node counts each of which the models had not seen."""

    comparison: Comparison
    errors: Errors


def node_counts(cells: CellMatrix) -> tuple[int, ...]:
    """Return the node counts that can be left out one at a time: none if there are fewer than 3."""
    counts = tuple(np.unique(cells.nodes).tolist())
    return counts if len(counts) >= LEAST_NODE_COUNTS else ()


def leave_node_counts_out(
    bundle: Bundle,
    cells: CellMatrix,
    *,
    guard: bool = True,
    jobs: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> HeldOut | None:
    """Fit the collective's learner again without each node count and look at that one.

    Parameters
    ----------
    bundle
        Says which learner and which features.
    cells
        Measured cells of one collective.
    guard
        Whether decisions are guarded.
    jobs
        Processes at most, as for `colltune.models.fitting.fit`.
    step
        Called after each node count.

    Returns
    -------
    HeldOut or None
        None if there are too few node counts, or no part of the data could be fitted.

    Raises
    ------
    DataError
        If the bundle's learner is not known to this colltune.
    """
    parts = []
    for count in node_counts(cells):
        held_out = cells.nodes == count
        selector = _fitted_without(bundle, cells, held_out, guard, jobs)
        if selector is not None:
            tested = cells.rows(held_out)
            model: CollectiveModel = selector.bundle.model(cells.collective)
            parts.append(HeldOut(compare(selector, tested), Errors.of(model, tested)))
        step()
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = HeldOut(whole.comparison.merged(part.comparison), whole.errors.merged(part.errors))
    return whole


def _fitted_without(
    bundle: Bundle, cells: CellMatrix, held_out: NDArray[np.bool_], guard: bool, jobs: int | None
) -> ModelSelector | None:
    # the service makes reports without fitting, where there is nothing to fit with
    from colltune.models.fitting import fit_cells  # noqa: PLC0415

    model = bundle.model(cells.collective)
    learner_entry(model.learner)
    part = {cells.collective: cells.rows(~held_out)}
    try:
        fitted = fit_cells(
            bundle.context, part, model.learner, feature_set=model.feature_set, jobs=jobs
        )
    except DataError:
        return None
    return ModelSelector(fitted, guard=guard)
