"""All figures of a report, gathered collective by collective."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import parse_objective
from colltune.domain import Collective
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.report.calibration import Errors
from colltune.report.curves import Curve, curves
from colltune.report.decisions import DecisionMap, decision_map
from colltune.report.held_out import HeldOut, leave_node_counts_out, node_counts
from colltune.report.measured import Comparison, compare
from colltune.report.summaries import ShapeGain, shape_gains
from colltune.selector.argmin import ModelSelector

if TYPE_CHECKING:
    # the service has nothing that fits
    from colltune.models.fitting import Progress


@dataclass(frozen=True, eq=False)
class CollectiveFigures:
    """What one collective's part of a report shows.

    ``comparison`` and ``errors`` are None without data of the collective, ``held_out`` unless it
    was asked for and there are node counts enough. ``gains`` and ``curves`` hold the decisions of
    `judged`.
    """

    collective: Collective
    decisions: DecisionMap
    gains: tuple[ShapeGain, ...]
    curves: tuple[Curve, ...]
    comparison: Comparison | None
    errors: Errors | None
    held_out: HeldOut | None

    @property
    def judged(self) -> Comparison | None:
        """The most honest comparison at hand: on node counts left out of the fit, else the data."""
        return self.held_out.comparison if self.held_out else self.comparison


@dataclass(frozen=True, eq=False)
class Figures:
    """What a report shows.

    ``guard`` holds the limits of the guard; ``not_in_bundle`` are collectives of the data that the
    bundle has no models of; ``with_data`` and ``with_held_out`` tell what was asked for.
    """

    bundle: Bundle
    guard: str
    collectives: tuple[CollectiveFigures, ...]
    not_in_bundle: tuple[Collective, ...]
    with_data: bool
    with_held_out: bool


def figures(
    bundle: Bundle,
    dataset: PerformanceDataset | None = None,
    *,
    held_out: bool = False,
    jobs: int | None = None,
    progress: Progress = lambda _done, _total, _next: None,
) -> Figures:
    """Gather the figures of `bundle`, beside the measurements of `dataset` if there are any.

    Parameters
    ----------
    bundle
        Fitted models.
    dataset
        Measurements of the same context; the statistic that the bundle learned is compared.
    held_out
        Whether to fit again without each node count of `dataset`.
    jobs
        Processes at most for that, as for `colltune.models.fitting.fit`.
    progress
        Called as ``progress(done, total, next)``, counting collectives and fits.

    Raises
    ------
    DataError
        If `dataset` is of another context, lacks the bundle's objective, or has nothing to compare.
    BundleError
        If a model predicts no number.
    """
    matrices = {} if dataset is None else comparable_cells(bundle, dataset)
    measured = {c: m for c, m in matrices.items() if c in bundle.collectives}
    fits = sum(len(node_counts(m)) for m in measured.values()) if held_out else 0
    done, total = 0, len(bundle.models) + fits

    def step(what: str = "") -> None:
        nonlocal done
        done += 1
        progress(done, total, what)

    selector = ModelSelector(bundle)
    found = []
    for model in bundle.models:
        progress(done, total, model.collective.value)
        cells = measured.get(model.collective)
        left_out = None
        if held_out and cells is not None:
            left_out = leave_node_counts_out(
                bundle, cells, jobs=jobs, step=partial(step, model.collective.value)
            )
        found.append(_of_collective(selector, model.collective, cells, left_out))
        step()
    missing = tuple(c for c in matrices if c not in measured)
    return Figures(
        bundle, str(selector.guard), tuple(found), missing, dataset is not None, held_out
    )


def _of_collective(
    selector: ModelSelector,
    collective: Collective,
    cells: CellMatrix | None,
    held_out: HeldOut | None,
) -> CollectiveFigures:
    decisions = decision_map(selector, collective)
    comparison = errors = None
    if cells is not None:
        comparison = compare(selector, cells)
        errors = Errors.of(selector.bundle.model(collective), cells)
    judged = held_out.comparison if held_out else comparison
    return CollectiveFigures(
        collective,
        decisions,
        shape_gains(decisions, judged),
        curves(decisions, judged),
        comparison,
        errors,
        held_out,
    )


def comparable_cells(bundle: Bundle, dataset: PerformanceDataset) -> dict[Collective, CellMatrix]:
    """Return the cells of `dataset` as `bundle` learned such ones, by collective.

    Raises
    ------
    DataError
        If `dataset` is of another context, lacks the bundle's objective, or has nothing to compare.
    """
    if dataset.context != bundle.context:
        raise DataError(
            f"the data are of another context than the bundle: {dataset.context}, while the bundle"
            f" learned {bundle.context}; give data of the same context, or fit a bundle to these"
        )
    matrices = cell_matrices(dataset, parse_objective(bundle.objective))
    if not set(matrices) & set(bundle.collectives):
        has = ", ".join(matrices) or "nothing that was measured well"
        raise DataError(
            f"the data have {has}, and the bundle has models of {', '.join(bundle.collectives)}:"
            " nothing to compare"
        )
    return matrices
