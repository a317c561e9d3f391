"""How good decisions are on measured times, of instances that were learned, unseen, or left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective
from colltune.errors import DataError
from colltune.json_text import DescribedRecord
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.models.learners import learner_entry
from colltune.mpi.programs import FOR_A_PROGRAM, Programs
from colltune.page.facts import BundleFacts, slot_name
from colltune.plot_data.measured import (
    Calibration,
    Errors,
    GainBin,
    MeasuredDecisions,
    MeasuredSummary,
    comparable_cells,
    compare,
    gain_bins,
)
from colltune.selector.argmin import ModelSelector, legal_selector

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.models.fitting import Progress


LEAST_NODE_COUNTS = 3
_DAY = re.compile(r"(20\d\d)[-_]?([01]\d)[-_]?([0-3]\d)(?!\d)")


class Sample(StrEnum):
    """Which instances figures are of: figures of different ones never share a table or picture."""

    HELD_OUT = "held_out"
    UNSEEN = "unseen"
    IN_SAMPLE = "in_sample"


@dataclass(frozen=True)
class ShapeTimes(DescribedRecord):
    """Measured times on one shape, of the default, of what is selected, and of the best."""

    nodes: int
    ppn: int
    decisions: MeasuredSummary
    """figures over its message sizes"""
    msize_bytes: tuple[int, ...]
    """ascending"""
    names: tuple[str, ...]
    """what is selected at each size"""
    default_s: tuple[float | None, ...]
    """null where it was not measured"""
    selected_s: tuple[float | None, ...]
    """likewise"""
    best_s: tuple[float | None, ...]
    """likewise"""


@dataclass(frozen=True)
class SampleEvidence(DescribedRecord):
    """Decisions and predictions on measured instances of one kind."""

    sample: Sample
    """left out of the fit one node count at a time (held_out), not learned (unseen), or learned
    (in_sample), which flatters"""
    decisions: MeasuredSummary
    """figures over all of them"""
    calibration: tuple[Calibration, ...]
    """measured times beside predicted 90 % intervals: all first, then by node count"""
    gains: tuple[GainBin, ...]
    """predicted beside measured gains of decisions that replace the default"""
    shapes: tuple[ShapeTimes, ...]
    """shape by shape"""


@dataclass(frozen=True)
class CollectiveEvidence(DescribedRecord):
    """What is known of how good a collective's decisions are."""

    name: str
    """collective"""
    mpi_name: str
    """its MPI function"""
    learner: str
    """name of the learner"""
    feature_set: str
    """what it learns from"""
    configurations: int
    """how many were measured"""
    shapes: int
    """how many shapes were measured"""
    default_measured: bool
    """whether the library's default was measured"""
    held_out: Mapping[str, Any]
    """figures of held-out decisions, as the fit states them; empty if it does not"""
    samples: tuple[SampleEvidence, ...]
    """on the measurements that were given, the most honest first; empty without"""


@dataclass(frozen=True)
class MeasuredData(DescribedRecord):
    """How much was measured."""

    rows: int
    """of the measurements"""
    launches: int
    days: tuple[str, ...]
    """as far as names of launches tell them"""

    @classmethod
    def of(cls, dataset: PerformanceDataset) -> MeasuredData:
        launches = [name for name in dataset.frame["launch"].unique().tolist() if name]
        days = [match and "-".join(match.groups()) for match in map(_DAY.match, launches)]
        return cls(len(dataset), len(launches), tuple(sorted(set(filter(None, days)))))


@dataclass(frozen=True)
class DecisionEvidence(BundleFacts):
    """How good a bundle's decisions are, and what it rests on."""

    guard: str
    """when the guard keeps the default"""
    training_shapes: tuple[str, ...]
    """nodes x processes per node that it was fitted to"""
    data: MeasuredData | None
    """measurements that it was compared with; null: none were given"""
    not_in_bundle: tuple[str, ...]
    """collectives of these measurements of which the bundle has no models"""
    collectives: tuple[CollectiveEvidence, ...]
    """collective by collective"""
    stated: Mapping[str, Any]
    """what else the fit states"""


@dataclass(frozen=True, eq=False)
class JudgedSample:
    """Decisions and errors on measured instances."""

    sample: Sample
    comparison: MeasuredDecisions
    errors: Errors

    @classmethod
    def of(cls, sample: Sample, selector: ModelSelector, cells: CellMatrix) -> JudgedSample:
        model = selector.bundle.model(cells.collective)
        return cls(sample, compare(selector, cells), Errors.of(model, cells))

    def merged(self, other: JudgedSample) -> JudgedSample:
        comparison = self.comparison.merged(other.comparison)
        return JudgedSample(self.sample, comparison, self.errors.merged(other.errors))

    def facts(self) -> SampleEvidence:
        return SampleEvidence(
            self.sample,
            self.comparison.summary(),
            (self.errors.all(), *self.errors.by_nodes()),
            gain_bins(self.comparison),
            tuple(_shapes(self.comparison)),
        )


def decision_evidence(
    bundle: Bundle,
    dataset: PerformanceDataset | None = None,
    *,
    programs: Programs = FOR_A_PROGRAM,
    held_out: bool = False,
    jobs: int | None = None,
    progress: Progress = lambda _done, _total, _next: None,
) -> DecisionEvidence:
    """Compare what `bundle` decides for `programs` with the measurements of `dataset`, if any."""
    matrices = {} if dataset is None else comparable_cells(bundle, dataset)
    measured = {c: m for c, m in matrices.items() if c in bundle.collectives}
    fits = sum(len(node_counts(m)) for m in measured.values()) if held_out else 0
    done, total = 0, len(bundle.models) + fits

    def step(what: str = "") -> None:
        nonlocal done
        done += 1
        progress(done, total, what)

    selector = legal_selector(bundle, programs)
    found = []
    for model in bundle.models:
        name = model.collective.value
        progress(done, total, name)
        samples: list[JudgedSample] = []
        if (cells := measured.get(model.collective)) is not None:
            left_out = partial(step, name)
            if held_out and (
                one := leave_node_counts_out(bundle, cells, programs, jobs=jobs, step=left_out)
            ):
                samples.append(one)
            samples += _learned_or_not(selector, cells)
        found.append(_collective(bundle, model.collective, samples))
        step()
    return DecisionEvidence(
        slot=slot_name(bundle.context),
        bundle=bundle.id,
        guard=str(selector.guard),
        training_shapes=tuple(map(str, bundle.training_shapes)),
        data=None if dataset is None else MeasuredData.of(dataset),
        not_in_bundle=tuple(c.mpi_name for c in matrices if c not in measured),
        collectives=tuple(found),
        stated={name: told for name, told in bundle.evidence.items() if name != "learners"},
    )


def _learned_or_not(selector: ModelSelector, cells: CellMatrix) -> Iterator[JudgedSample]:
    trained = compare(selector, cells).trained
    for sample, rows in ((Sample.UNSEEN, ~trained), (Sample.IN_SAMPLE, trained)):
        if rows.any():
            yield JudgedSample.of(sample, selector, cells.rows(rows))


def _collective(
    bundle: Bundle, collective: Collective, samples: list[JudgedSample]
) -> CollectiveEvidence:
    model = bundle.model(collective)
    return CollectiveEvidence(
        name=collective.value,
        mpi_name=collective.mpi_name,
        learner=model.learner,
        feature_set=model.feature_set,
        configurations=len(model.configurations),
        shapes=len(model.coverage.shapes),
        default_measured=model.default_column is not None,
        held_out=bundle.held_out(collective),
        samples=tuple(sample.facts() for sample in samples),
    )


def _shapes(found: MeasuredDecisions) -> Iterator[ShapeTimes]:
    for ppn, nodes in sorted(set(zip(found.ppn.tolist(), found.nodes.tolist(), strict=True))):
        here = found.rows((found.nodes == nodes) & (found.ppn == ppn))
        here = here.rows(np.argsort(here.msize_bytes, kind="stable"))
        yield ShapeTimes(
            nodes,
            ppn,
            here.summary(),
            tuple(here.msize_bytes.tolist()),
            tuple(here.portfolio[column].short for column in here.chosen.tolist()),
            *(
                tuple(time if np.isfinite(time) else None for time in times.tolist())
                for times in (here.default_s, here.selected_s, here.best_s)
            ),
        )


def node_counts(cells: CellMatrix) -> tuple[int, ...]:
    """Return the node counts that can be left out one at a time: none if there are fewer than 3."""
    counts = tuple(np.unique(cells.nodes).tolist())
    return counts if len(counts) >= LEAST_NODE_COUNTS else ()


def leave_node_counts_out(
    bundle: Bundle,
    cells: CellMatrix,
    programs: Programs = FOR_A_PROGRAM,
    *,
    guard: bool = True,
    jobs: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> JudgedSample | None:
    """Fit the collective's learner again without each node count and look at that one."""
    parts = []
    for count in node_counts(cells):
        held_out = cells.nodes == count
        fitted = _fitted_without(bundle, cells, held_out, jobs)
        if fitted is not None:
            selector = legal_selector(fitted, programs, guard=guard)
            parts.append(JudgedSample.of(Sample.HELD_OUT, selector, cells.rows(held_out)))
        step()
    return reduce(JudgedSample.merged, parts) if parts else None


def _fitted_without(
    bundle: Bundle, cells: CellMatrix, held_out: NDArray[np.bool_], jobs: int | None
) -> Bundle | None:
    # the service makes pages without fitting, where there is nothing to fit with
    from colltune.models.fitting import fit_cells

    model = bundle.model(cells.collective)
    learner_entry(model.learner)
    part = {cells.collective: cells.rows(~held_out)}
    try:
        return fit_cells(
            bundle.context, part, model.learner, feature_set=model.feature_set, jobs=jobs
        )
    except DataError:
        return None
