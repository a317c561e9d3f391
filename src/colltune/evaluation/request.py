"""An evaluation as the options of `colltune evaluate` describe it: checked, and carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.frame import join
from colltune.dataset.method import alike
from colltune.dataset.noise import allocations_of
from colltune.dataset.objective import Objective
from colltune.dataset.parquet import read_launch_provenances
from colltune.dataset.profile import read_profiles
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
from colltune.evaluation.paper import Begin, PaperDataset, Run, paper_datasets, run_all, run_paper
from colltune.models.fitting import Progress
from colltune.models.learners import PUBLISHED, learner_entry
from colltune.mpi.programs import Programs

SUITES = ("paper", "all")


@dataclass(frozen=True)
class Result:
    """The evaluations that were made, what was left out and why, and the paper's datasets."""

    runs: list[Evaluation]
    left_out: Mapping[str, str] = field(default_factory=dict)
    paper: list[PaperDataset] = field(default_factory=list)
    suite: str | None = None


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
            return Result(runs, {}, paper_datasets(pairs), self.suite)
        (dataset,) = datasets
        if self.suite == "all":
            more: list[Split] = []
            if self.train_nodes:
                more.append(NodeCounts(self.train_nodes, self.test_nodes or ()))
            if self.test_data:
                more.append(self.transfer())
            runs, left_out = run_all(dataset, run, more, self.seed, begin)
            return Result(runs, left_out, suite=self.suite)
        if self.split is None:
            return Result([run(dataset, NodeCounts(self.train_nodes or (), self.test_nodes or ()))])
        return Result([run(dataset, SPLITS[self.split](self))])

    def _check(self) -> None:
        name = self.split
        if name is not None and name not in SPLITS:
            raise DataError(f"unknown --split {name!r}; known: {', '.join(SPLITS)}")
        if self.suite is not None and self.suite not in SUITES:
            raise DataError(f"unknown --suite {self.suite!r}; known: {', '.join(SUITES)}")
        if (self.train_nodes is None) != (self.test_nodes is None):
            raise DataError("--train-nodes and --test-nodes belong together. Give both.")
        if self.suite is None and name and self.train_nodes:
            raise DataError(f"--split {name} and --train-nodes exclude each other. Drop one.")
        if self.suite and name:
            raise DataError(
                f"--suite {self.suite} and --split {name} exclude each other. Drop one."
            )
        if not (self.suite or name or self.train_nodes):
            raise DataError(
                f"the test data are missing. Give --split with one of {', '.join(SPLITS)}; or "
                "--train-nodes with --test-nodes; or --suite."
            )
        self._check_owned()

    def _check_owned(self) -> None:
        owned: dict[str, tuple[object, str]] = {
            "--largest": (self.largest is not None, Extrapolation.name),
            "--above": (self.above is not None, Extrapolation.name),
            "--ppn": (self.ppn, LeavePpnOut.name),
            "--test-data": (self.suite != "all" and self.test_data, Transfer.name),
        }
        for flag, (value, owner) in owned.items():
            if value and self.split != owner:
                raise DataError(
                    f"{flag} works only with --split {owner}. Drop it, or ask for that split."
                )
        if self.split == Transfer.name and not self.test_data:
            raise DataError(
                "--split transfer needs data of another machine. Name them with --test-data."
            )
        if self.suite == "paper" and (self.profiles or self.confirm):
            option = "--profile" if self.profiles else "--confirm"
            raise DataError(f"--suite paper always draws the paper's figures. Drop {option}.")

    def transfer(self) -> Transfer:
        return Transfer(self.reader(self.test_data, {}))

    def _evaluate(self, progress: Progress) -> Run:
        profile = read_profiles(self.profiles) if self.profiles else None
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
                profile=profile,
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
    "transfer": EvaluationRequest.transfer,
}
