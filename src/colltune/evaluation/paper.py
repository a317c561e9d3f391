"""The evaluation of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020) on any dataset.

Table III names each machine's node counts of a large and of a small training set and of the test
set; Table IV gives per learner and dataset, that is (machine, library, collective), the arithmetic
mean of t_default / t_selected after either training. On machines that Table III does not know,
node counts are parted as there: the test counts lie between training counts, every second one is
tested, the largest is trained on; the small training set is the first, middle and last of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import numpy as np

from colltune.domain import Collective, Context
from colltune.evaluation.evaluation import Evaluation
from colltune.evaluation.splits import Mask, MaskSplit
from colltune.models.cells import CellMatrix

LARGE, SMALL = "paper-large", "paper-small"


class Counts(NamedTuple):
    """Node counts of the two training sets and of the test set."""

    large: tuple[int, ...]
    small: tuple[int, ...]
    test: tuple[int, ...]


TABLE_III: dict[str, Counts] = {
    "Hydra": Counts((4, 8, 16, 20, 24, 32, 36), (4, 16, 36), (7, 13, 19, 27, 35)),
    "Jupiter": Counts((4, 8, 16, 20, 24, 32), (4, 16, 32), (7, 13, 19, 27)),
    "SuperMUC-NG": Counts((20, 32, 48), (20, 32, 48), (27, 35)),
}


def paper_counts(measured: Sequence[int]) -> Counts | None:
    """Part the node counts `measured` as Table III does; None for fewer than three."""
    counts = sorted(set(measured))
    for known in TABLE_III.values():
        if set(counts) <= {*known.large, *known.test} and known.large[-1] in counts:
            large, small, test = (tuple(n for n in row if n in counts) for row in known)
            if len(small) > 1 and test:
                return Counts(large, small, test)
    if len(counts) < 3:
        return None
    test = tuple(counts[1:-1:2])
    return trained_on(tuple(n for n in counts if n not in test), test)


def trained_on(large: tuple[int, ...], test: tuple[int, ...]) -> Counts:
    """Return the counts with the small training set that belongs to `large`."""
    small = {large[0], large[(len(large) - 1) // 2], large[-1]}
    return Counts(large, tuple(sorted(small)), test)


@dataclass(frozen=True)
class PaperSplit(MaskSplit):
    """Train and test on node counts as in Table III, or on those given."""

    needs: ClassVar[str] = "a collective measured on at least 3 node counts"
    train_nodes: tuple[int, ...] | None = None
    test_nodes: tuple[int, ...] | None = None

    def counts(self, cells: CellMatrix) -> Counts | None:
        """Return the node counts of one collective, None if it has too few."""
        measured = sorted({int(n) for n in cells.nodes})
        if self.train_nodes is None or self.test_nodes is None:
            return paper_counts(measured)
        train = tuple(n for n in measured if n in self.train_nodes)
        test = tuple(n for n in measured if n in self.test_nodes)
        return trained_on(train, test) if train and test else None

    @abstractmethod
    def training(self, counts: Counts) -> tuple[int, ...]:
        """Return the node counts trained on."""

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return the one fold."""
        counts = self.counts(cells)
        if counts is None:
            return []
        train, test = (np.isin(cells.nodes, n) for n in (self.training(counts), counts.test))
        return [Mask("nodes " + ", ".join(map(str, counts.test)), train, test)]


@dataclass(frozen=True)
class PaperLarge(PaperSplit):
    """The large training set of Table III."""

    name: ClassVar[str] = LARGE

    def training(self, counts: Counts) -> tuple[int, ...]:
        """Return the large training set."""
        return counts.large


@dataclass(frozen=True)
class PaperSmall(PaperSplit):
    """The small training set of Table III."""

    name: ClassVar[str] = SMALL

    def training(self, counts: Counts) -> tuple[int, ...]:
        """Return the small training set."""
        return counts.small


class PaperDataset(NamedTuple):
    """What the paper calls a dataset, ``d1``: one collective of one context."""

    label: str
    context: Context
    collective: Collective
    large: Evaluation
    small: Evaluation


def paper_datasets(runs: Sequence[tuple[Evaluation, Evaluation]]) -> list[PaperDataset]:
    """Return d1, d2, … of pairs of evaluations, after large and after small training."""
    found: list[PaperDataset] = []
    for large, small in runs:
        for name in large.tested.collectives:
            label, context = f"d{len(found) + 1}", large.setup.data
            found.append(PaperDataset(label, context, Collective(name), large, small))
    return found


def table_iv(datasets: Sequence[PaperDataset]) -> dict[str, dict[str, dict[str, float]]]:
    """Return Table IV: training set (``large``, ``small``) to selector to dataset to speed-up.

    Speed-ups are arithmetic means of t_default / t_selected; ``mean`` is their mean over datasets.
    """
    return {
        size: _speedups(datasets, [getattr(d, size) for d in datasets])
        for size in ("large", "small")
    }


def _speedups(
    datasets: Sequence[PaperDataset], runs: Sequence[Evaluation]
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name in runs[0].decided:
        row = {
            d.label: run.scores[name][d.collective.value].arithmetic_mean_speedup
            for d, run in zip(datasets, runs, strict=True)
        }
        found[name] = row | {"mean": fmean(row.values())}
    return found


def described(datasets: Sequence[PaperDataset]) -> dict[str, Mapping[str, Any]]:
    """Return what d1, d2, … are, with the test node counts, JSON-able."""
    return {
        d.label: {
            "collective": d.collective.value,
            "context": str(d.context),
            "test_nodes": sorted({int(n) for n in d.large.tested.nodes[_rows(d)]}),
        }
        for d in datasets
    }


def _rows(dataset: PaperDataset) -> Any:
    return dataset.large.tested.of(dataset.collective.value)
