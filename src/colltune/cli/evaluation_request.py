"""What `colltune evaluate` was asked for, checked and carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.frame import join
from colltune.dataset.noise import allocations_of
from colltune.dataset.objective import Objective
from colltune.dataset.profile import Profile
from colltune.dataset.profile_file import read_profiles
from colltune.dataset.reading import read_launch_provenances
from colltune.domain import Context
from colltune.errors import DataError
from colltune.evaluation import (
    Evaluation,
    Extrapolation,
    LeaveAllocationOut,
    LeaveNodesOut,
    LeavePpnOut,
    MessageSizes,
    NodeCounts,
    Split,
    Transfer,
    evaluate_split,
)
from colltune.evaluation.paper import PaperDataset, paper_datasets
from colltune.evaluation.suites import run_all, run_paper

if TYPE_CHECKING:
    from colltune.cli.console import Progress

_SUITES = ("paper", "all")


@dataclass(frozen=True)
class Result:
    """The evaluations that were made, what was left out and why, and the paper's datasets."""

    runs: list[Evaluation]
    left_out: Mapping[str, str] = field(default_factory=dict)
    paper: list[PaperDataset] = field(default_factory=list)
    suite: str | None = None


@dataclass(frozen=True)
class Request:
    """The options of the verb."""

    data: tuple[Path, ...]
    where: Mapping[str, str]
    split: str | None
    suite: str | None
    train_nodes: tuple[int, ...] | None
    test_nodes: tuple[int, ...] | None
    largest: int | None
    above: int | None
    ppn: tuple[int, ...] | None
    test_data: tuple[Path, ...]
    allocation: str | None
    learners: tuple[str, ...]
    guard: bool
    objective: Objective
    judged_by: Objective
    noise: float
    seed: int
    max_nprocs: int | None
    jobs: int | None
    profiles: tuple[Path, ...] = ()
    confirm: bool = False

    def run(self, progress: Progress) -> Result:
        """Evaluate.

        Raises
        ------
        DataError
            If options are unknown or contradict each other, or the data does not allow it.
        """
        self._check()
        if self.suite == "paper":
            if self.profiles:
                raise DataError("--suite paper has the paper's own figures; drop --profile")
            if self.confirm:
                raise DataError("--suite paper has the paper's own figures; drop --confirm")
            return self._run_paper(progress)
        dataset = read(self.data, self.where)
        progress.phase("evaluating", "fits")
        if self.suite == "all":
            run, begin = self._evaluate(progress), progress.part
            runs, left_out = run_all(dataset, run, self._extra_splits(), self.seed, begin)
            return Result(runs, left_out, suite=self.suite)
        return Result([self._evaluate(progress)(dataset, self._split())])

    def _check(self) -> None:
        """Raise `DataError` for options that are unknown or not made for each other."""
        name = self.split
        if name is not None and name not in _SPLITS:
            raise DataError(f"unknown --split {name!r}; known: {', '.join(_SPLITS)}")
        if self.suite is not None and self.suite not in _SUITES:
            raise DataError(f"unknown --suite {self.suite!r}; known: {', '.join(_SUITES)}")
        if (self.train_nodes is None) != (self.test_nodes is None):
            raise DataError("--train-nodes and --test-nodes belong together; give both")
        if (name or self.train_nodes) and self.suite is None and name and self.train_nodes:
            raise DataError(f"--split {name} and --train-nodes exclude each other; drop one")
        if self.suite and name:
            raise DataError(f"--suite {self.suite} and --split {name} exclude each other; drop one")
        if not (self.suite or name or self.train_nodes):
            raise DataError(
                "say what to test: --split with one of"
                f" {', '.join(_SPLITS)}; or --train-nodes with --test-nodes; or --suite"
            )
        for flag, (value, owner) in self._owned().items():
            if value and name != owner and not (self.suite == "all" and flag == "--test-data"):
                raise DataError(f"{flag} belongs to --split {owner}; drop it, or ask for that")
        if name == Transfer.name and not self.test_data:
            raise DataError("--split transfer needs the other machine's data: --test-data DATA")

    def _owned(self) -> dict[str, tuple[object, str]]:
        """Return the options that make sense with one split only."""
        return {
            "--largest": (self.largest is not None, Extrapolation.name),
            "--above": (self.above is not None, Extrapolation.name),
            "--ppn": (self.ppn, LeavePpnOut.name),
            "--test-data": (self.test_data, Transfer.name),
        }

    def _split(self) -> Split:
        if self.split is None:
            return NodeCounts(self.train_nodes or (), self.test_nodes or ())
        return _SPLITS[self.split](self)

    def _extra_splits(self) -> list[Split]:
        """Return the splits of the suite of all that need options."""
        extra: list[Split] = []
        if self.train_nodes:
            extra.append(NodeCounts(self.train_nodes, self.test_nodes or ()))
        if self.test_data:
            extra.append(self.transfer())
        return extra

    def transfer(self) -> Transfer:
        """Return the split between the data and the test data."""
        return Transfer(read(self.test_data))

    def _evaluate(self, progress: Progress) -> Callable[[PerformanceDataset, Split], Evaluation]:
        def run(dataset: PerformanceDataset, split: Split) -> Evaluation:
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
                allocation_of=self._allocations(dataset),
                jobs=self.jobs,
                profile=self._profile(),
                confirm=self.confirm,
                progress=progress.count,
            )

        return run

    def _profile(self) -> Profile | None:
        return read_profiles(self.profiles) if self.profiles else None

    def _allocations(self, dataset: PerformanceDataset) -> Mapping[str, str]:
        provenances = read_launch_provenances(self.data)
        launches = dataset.frame["launch"].astype(str)
        return allocations_of(launches, provenances, self.allocation).by_launch

    def _run_paper(self, progress: Progress) -> Result:
        """Evaluate each context of the data by itself, as the paper does."""
        by_context: dict[Context, list[PerformanceDataset]] = {}
        for path in self.data:
            dataset = read([path], self.where)
            by_context.setdefault(dataset.context, []).append(dataset)
        datasets = [join(parts) for parts in by_context.values()]
        progress.phase("evaluating", "fits")
        run, begin = self._evaluate(progress), progress.part
        pairs = run_paper(datasets, run, self.train_nodes, self.test_nodes, begin)
        paper = paper_datasets(pairs)
        return Result([run for pair in pairs for run in pair], {}, paper, self.suite)


_SPLITS: dict[str, Callable[[Request], Split]] = {
    "leave-nodes-out": lambda _: LeaveNodesOut(),
    "leave-ppn-out": lambda request: LeavePpnOut(request.ppn),
    "extrapolation": lambda request: Extrapolation(request.largest, request.above),
    "leave-allocation-out": lambda _: LeaveAllocationOut(),
    "message-sizes": lambda request: MessageSizes(request.seed),
    "transfer": Request.transfer,
}
