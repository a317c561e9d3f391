"""An evaluation as the options of `colltune evaluate` describe it: checked, and carried out.

``--suite paper`` is that of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020) on any dataset. Table
III names each machine's node counts of a large and of a small training set and of the test
set; Table IV gives per learner and dataset, that is (machine, library, collective), the arithmetic
mean of t_default / t_selected after either training. On machines that Table III does not know,
node counts are parted as there: the test counts lie between training counts, every second one is
tested, the largest is trained on; the small training set is the first, middle and last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import numpy as np

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.frame import join
from colltune.dataset.method import alike
from colltune.dataset.noise import allocations_of
from colltune.dataset.objective import Objective
from colltune.dataset.parquet import read_launch_provenances
from colltune.domain import Collective, Context
from colltune.errors import DataError, say, unknown
from colltune.evaluation.evaluation import Evaluation
from colltune.evaluation.folds import SplitError
from colltune.evaluation.run import evaluate_split
from colltune.evaluation.splits import (
    Extrapolation,
    LeaveAllocationOut,
    LeaveNodesOut,
    LeavePpnOut,
    Mask,
    MaskSplit,
    MessageSizes,
    NodeCounts,
    Split,
)
from colltune.models.cells import CellMatrix
from colltune.models.fitting import Progress
from colltune.models.learners import PUBLISHED, learner_entry
from colltune.mpi.programs import Programs

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
    training: ClassVar[str]
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

    def masks(self, cells: CellMatrix) -> list[Mask]:
        counts = self.counts(cells)
        if counts is None:
            return []
        trained = getattr(counts, self.training)
        train, test = (np.isin(cells.nodes, n) for n in (trained, counts.test))
        return [Mask("nodes " + ", ".join(map(str, counts.test)), train, test)]


@dataclass(frozen=True)
class PaperLarge(PaperSplit):
    """The large training set of Table III."""

    name: ClassVar[str] = LARGE
    training: ClassVar[str] = "large"


@dataclass(frozen=True)
class PaperSmall(PaperSplit):
    """The small training set of Table III."""

    name: ClassVar[str] = SMALL
    training: ClassVar[str] = "small"


class PaperDataset(NamedTuple):
    """What the paper calls a dataset, ``d1``: one collective of one context."""

    label: str
    context: Context
    collective: Collective
    large: Evaluation
    small: Evaluation


def paper_datasets(runs: Sequence[tuple[Evaluation, Evaluation]]) -> list[PaperDataset]:
    found: list[PaperDataset] = []
    for large, small in runs:
        for name in large.tested.collectives:
            label, context = f"d{len(found) + 1}", large.setup.context
            found.append(PaperDataset(label, context, Collective(name), large, small))
    return found


def table_iv(datasets: Sequence[PaperDataset]) -> dict[str, dict[str, dict[str, float]]]:
    """Return Table IV, with means: training set to selector to dataset to speed-up."""
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


@dataclass(frozen=True)
class DecidedDataset:
    """One of the paper's datasets."""

    collective: Collective
    context: Context
    test_nodes: tuple[int, ...]
    """node counts that were tested"""


def described(datasets: Sequence[PaperDataset]) -> dict[str, DecidedDataset]:
    """Return what d1, d2, … are."""
    return {
        d.label: DecidedDataset(
            d.collective,
            d.context,
            tuple(sorted({int(n) for n in d.large.tested.nodes[_rows(d)]})),
        )
        for d in datasets
    }


def _rows(dataset: PaperDataset) -> Any:
    return dataset.large.tested.of(dataset.collective.value)


Run = Callable[[PerformanceDataset, Split], Evaluation]
Begin = Callable[[int, int, str], None]
"""Is told which split begins, as its number, of how many, and its name."""


class PaperRuns(NamedTuple):
    """Evaluations after the large and after the small training, and what was tested in them.

    ``trainings`` are those of the two that mean anything, with the split of each: ``large`` alone
    where the node counts cannot be parted, and another split stands in for both.
    """

    pairs: list[tuple[Evaluation, Evaluation]]
    trainings: Mapping[str, Split]
    tested: str


def run_paper(
    datasets: Sequence[PerformanceDataset],
    run: Run,
    train_nodes: tuple[int, ...] | None = None,
    test_nodes: tuple[int, ...] | None = None,
    begin: Begin = lambda _number, _total, _name: None,
) -> list[tuple[Evaluation, Evaluation]]:
    """Evaluate each of `datasets` after the large and after the small training of the paper."""
    splits = PaperLarge(train_nodes, test_nodes), PaperSmall(train_nodes, test_nodes)
    numbers = count(1)

    def begun(dataset: PerformanceDataset, split: Split) -> Evaluation:
        name = f"{dataset.context.machine}, {split.name}"
        begin(next(numbers), len(splits) * len(datasets), name)
        return run(dataset, split)

    return [(begun(d, splits[0]), begun(d, splits[1])) for d in datasets]


def run_like_paper(dataset: PerformanceDataset, run: Run, seed: int = 0) -> PaperRuns:
    """Evaluate `dataset` as the paper does, or as near to it as the data allow.

    With fewer than three node counts, each ppn is left out once; with one ppn only, random halves
    of the message sizes, drawn with `seed`, are tested by each other.
    """
    try:
        pairs = run_paper([dataset], run)
    except SplitError as error:
        reasons = [str(error)]
    else:
        trainings = {"large": PaperLarge(), "small": PaperSmall()}
        return PaperRuns(pairs, trainings, "node counts between those trained on")
    for split, tested in (
        (LeavePpnOut(), "each ppn, trained on the others"),
        (MessageSizes(seed), "halves of the message sizes, trained on the other half"),
    ):
        try:
            only = run(dataset, split)
        except SplitError as error:
            reasons.append(str(error))
        else:
            return PaperRuns([(only, only)], {"large": split}, tested)
    raise say("no-evaluation", reasons="; ".join(reasons))


SUITES = ("paper",)


@dataclass(frozen=True)
class Result:
    """The evaluations that were made, and the paper's datasets."""

    runs: list[Evaluation]
    paper: list[PaperDataset] = field(default_factory=list)


@dataclass(frozen=True)
class EvaluationRequest:
    data: tuple[Path, ...]
    where: Mapping[str, str]
    split: str | None
    suite: str | None
    train_nodes: tuple[int, ...] | None
    test_nodes: tuple[int, ...] | None
    largest: int | None
    above: int | None
    ppn: tuple[int, ...] | None
    allocation: str | None
    learners: tuple[str, ...]
    guard: bool
    objective: Objective
    judged_by: Objective
    noise: float
    seed: int
    max_nprocs: int | None
    jobs: int | None
    confirm: bool = False
    method: str | None = None
    programs: Programs | None = None
    reader: Callable[[Sequence[Path], Mapping[str, str]], PerformanceDataset] = read

    def read(self) -> list[PerformanceDataset]:
        """Check the options and read the data, for ``--suite paper`` by context."""
        self._check()
        if self.suite != "paper":
            return [self._alike(self.data, "the data")]
        for name in PUBLISHED:
            learner_entry(name)
        by_context: dict[Context, list[PerformanceDataset]] = {}
        for path in self.data:
            dataset = self._alike([path], str(path))
            by_context.setdefault(dataset.context, []).append(dataset)
        return [join(parts) for parts in by_context.values()]

    def _alike(self, data: Sequence[Path], source: str) -> PerformanceDataset:
        dataset = self.reader(data, self.where)
        return alike(dataset, read_launch_provenances(data), self.method, source)

    def run(
        self, datasets: Sequence[PerformanceDataset], begin: Begin, progress: Progress
    ) -> Result:
        """Evaluate what `read` returned; `begin` is told of each split of a suite."""
        run = self._evaluate(progress)
        if self.suite == "paper":
            pairs = run_paper(datasets, run, self.train_nodes, self.test_nodes, begin)
            runs = [run for pair in pairs for run in pair]
            return Result(runs, paper_datasets(pairs))
        (dataset,) = datasets
        if self.split is None:
            return Result([run(dataset, NodeCounts(self.train_nodes or (), self.test_nodes or ()))])
        return Result([run(dataset, SPLITS[self.split](self))])

    def _check(self) -> None:
        name, suite = self.split, self.suite
        if name is not None and name not in SPLITS:
            raise unknown("--split", name, SPLITS, DataError)
        if suite is not None and suite not in SUITES:
            raise unknown("--suite", suite, SUITES, DataError)
        if (self.train_nodes is None) != (self.test_nodes is None):
            raise say("together", one="--train-nodes", other="--test-nodes")
        if name and (suite or self.train_nodes):
            other = f"--suite {suite}" if suite else "--train-nodes"
            raise say("exclusive", one=f"--split {name}", other=other)
        if not (suite or name or self.train_nodes):
            raise say("no-test-data", known=", ".join(SPLITS))
        self._check_owned()

    def _check_owned(self) -> None:
        owned: dict[str, tuple[object, str]] = {
            "--largest": (self.largest is not None, Extrapolation.name),
            "--above": (self.above is not None, Extrapolation.name),
            "--ppn": (self.ppn, LeavePpnOut.name),
        }
        for flag, (value, owner) in owned.items():
            if value and self.split != owner:
                raise say("works-only-with", option=flag, other=f"--split {owner}")
        if self.suite == "paper" and self.confirm:
            raise say("suite-confirmed", suite=self.suite)

    def _evaluate(self, progress: Progress) -> Run:
        provenances = read_launch_provenances(self.data)

        def run(dataset: PerformanceDataset, split: Split) -> Evaluation:
            launches = dataset.frame["launch"].astype(str)
            return evaluate_split(
                dataset,
                split,
                learners=self.learners,
                guard=self.guard,
                objective=self.objective,
                judged_by=self.judged_by,
                noise=self.noise,
                seed=self.seed,
                max_nprocs=self.max_nprocs,
                allocation_of=allocations_of(launches, provenances, self.allocation).by_launch,
                jobs=self.jobs,
                confirm=self.confirm,
                programs=self.programs,
                progress=progress,
            )

        return run


SPLITS: dict[str, Callable[[EvaluationRequest], Split]] = {
    "leave-nodes-out": lambda _: LeaveNodesOut(),
    "leave-ppn-out": lambda request: LeavePpnOut(request.ppn),
    "extrapolation": lambda request: Extrapolation(request.largest, request.above),
    "leave-allocation-out": lambda _: LeaveAllocationOut(),
    "message-sizes": lambda request: MessageSizes(request.seed),
}
