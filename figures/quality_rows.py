"""The rows by which decisions are judged: splits of recorded datasets, pooled over machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.evaluation import Extrapolation, LeaveNodesOut, NodeCounts, Split
from colltune.evaluation.folds import Fold, FoldSource, SplitError
from colltune.evaluation.request import PaperLarge, PaperSmall
from colltune.evaluation.scores import Decided, EvaluatedInstances, LogGains, slowed
from colltune.evaluation.splits import Mask
from colltune.models.cells import CellMatrix

FOLDER = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[2] / "shared")) / "data"
EXTRA = tuple(filter(None, os.environ.get("COLLTUNE_EXTRA", "").split(os.pathsep)))
LEARNER = os.environ.get("COLLTUNE_LEARNER", "auto")
JOBS = int(os.environ["COLLTUNE_JOBS"]) if "COLLTUNE_JOBS" in os.environ else None
ONLY = tuple(filter(None, os.environ.get("COLLTUNE_ROWS", "").split(",")))
_HALVES = "_halves"
_SUFFIX = ".csv.gz"
_TEST = (7, 13, 19, 27, 35)
_NATIVE, _FAT_TREE = "leonardo_openmpi-4.1.6.csv.gz", "simulated_fattree36.csv.gz"
_SIMULATED = "smpi"
_NOISE = 0.05

Ends = tuple[float, float] | None


@dataclass(frozen=True)
class InnerNodesOut(LeaveNodesOut):
    """Leave each node count out once but the smallest and the largest of its collective."""

    name: ClassVar[str] = "inner-nodes-out"

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return a fold per inner node count."""
        return super().masks(cells)[1:-1]


@dataclass(frozen=True)
class Case:
    """A split of a recorded dataset; ``noise`` and ``max_nprocs`` are as for `evaluate_split`."""

    path: Path
    split: Split
    noise: float = 0.0
    max_nprocs: int | None = None

    @property
    def name(self) -> str:
        """The machine and how it is parted."""
        return f"{self.dataset.context.machine}, {self.split.name}"

    @property
    def dataset(self) -> PerformanceDataset:
        """All measurements."""
        return _read(self.path)

    def source(self, judging: PerformanceDataset | None = None) -> FoldSource:
        """Return the measurements; what `fit` learns by default is judged by medians.

        `judging` are those that decisions are judged by, if these are not all.
        """
        return FoldSource(
            self.dataset,
            train_noise=self.noise,
            max_nprocs=self.max_nprocs,
            objective=DEFAULT_OBJECTIVE,
            judged_by=Objective.MEDIAN,
            judging=judging,
        )

    def folds(self, judging: PerformanceDataset | None = None) -> list[Fold]:
        """Return the folds; `judging` is as for `source`.

        Raises
        ------
        SplitError
            If the data do not allow the split.
        """
        return self.split.folds(self.source(judging))


@dataclass(frozen=True)
class Row:
    """Cases that are judged together, with the least share and the most harm that are wanted."""

    name: str
    cases: tuple[Case, ...]
    share: float
    harm: float
    confirmed_share: float
    confirmed_harm: float


class Figures(NamedTuple):
    """Figures of pooled decisions; intervals draw jobs (one shape of one machine) anew."""

    instances: int
    jobs: int
    share: float
    share_interval: Ends
    harm: float
    harm_interval: Ends
    slower: float
    replaced: float
    unmeasured: int
    confirm_cost: float | None = None

    def __str__(self) -> str:
        """Return the figures on a line."""
        ends = [
            "" if e is None else f" [{e[0]:.3f}, {e[1]:.3f}]"
            for e in (self.share_interval, self.harm_interval)
        ]
        return (
            f"share {self.share:.3f}{ends[0]}, harm {self.harm:.2%}{ends[1]},"
            f" slower {self.slower:.2%}, replaced {self.replaced:.0%},"
            f" not measured {self.unmeasured} of {self.instances}"
            + ("" if self.confirm_cost is None else f", cost {self.confirm_cost:.1%}")
        )


@dataclass
class Pool:
    """Decisions of one selector on several cases, as columns."""

    job: list[str] = field(default_factory=list)
    columns: list[NDArray[np.float64]] = field(default_factory=list)
    confirm_s: float = 0.0
    exhaustive_s: float = 0.0

    def add(self, case: Case, tested: EvaluatedInstances, decided: Decided) -> None:
        """Add the decisions on one case."""
        machine = case.dataset.context.machine
        self.job += [f"{machine} {n}x{p}" for n, p in zip(tested.nodes, tested.ppn, strict=True)]
        slower, harmed = slowed(tested, decided)
        gained = np.log(tested.default_s / decided.selected_s)
        possible = np.log(tested.default_s / tested.best_s)
        flags = (slower, harmed, ~decided.kept, decided.unmeasured)
        self.columns.append(np.column_stack([gained, possible, *flags]))
        self.confirm_s += sum(decided.confirm_s.values())
        self.exhaustive_s += sum(decided.exhaustive_s.values())

    def figures(self) -> Figures:
        """Return the figures of all that was added."""
        gained, possible, *flags = np.concatenate(self.columns).T
        slower, harmed, replaced, unmeasured = (np.asarray(f, np.bool_) for f in flags)
        blocks = np.unique(self.job, return_inverse=True)[1]
        found = LogGains(blocks, gained, possible, slower, harmed)
        return Figures(
            len(gained),
            int(blocks.max()) + 1,
            float(gained.sum() / possible.sum()),
            found.ends(gained, possible),
            float(harmed.mean()),
            found.ends_of_share(harmed),
            float(slower.mean()),
            float(replaced.mean()),
            int(unmeasured.sum()),
            self.confirm_s / self.exhaustive_s if self.exhaustive_s else None,
        )


def rows(*, repeated: bool = False) -> tuple[Row, ...]:
    """Return the rows; with `repeated`, of the data with most repetitions of each context.

    COLLTUNE_SHARED names the folder that has ``data``, COLLTUNE_EXTRA further folders of datasets,
    separated by colons, COLLTUNE_ROWS some of the rows.
    """
    files = _files(repeated=repeated)
    simulated = {p for p in files if _read(p).context.library == _SIMULATED}
    real = [p for p in files if p not in simulated]
    others = [p for p in files if p in simulated and p.name != _FAT_TREE]
    tree = next((p for p in files if p.name == _FAT_TREE), None)
    unseen = [Case(p, PaperLarge(), _NOISE) for p in others]
    small = [Case(p, PaperSmall(), _NOISE) for p in others]
    if tree is not None:
        unseen.insert(0, Case(tree, NodeCounts((4, 8, 16, 24, 32, 36), _TEST), _NOISE, 288))
        small.insert(0, Case(tree, NodeCounts((4, 16, 36), _TEST), _NOISE, 288))
    found = (
        Row("real inside", _cases(real, InnerNodesOut()), 0.84, 0.024, 0.93, 0.005),
        Row("real extrapolated", _cases(real, Extrapolation()), 0.72, 0.04, 0.93, 0.01),
        Row("simulated unseen node counts", tuple(unseen), 0.985, 0.005, 0.995, 0.005),
        Row("simulated small training set", tuple(small), 0.965, 0.015, 0.995, 0.005),
    )
    unknown = [name for name in ONLY if name not in {row.name for row in found}]
    if unknown:
        known = ", ".join(row.name for row in found)
        sys.exit(f"COLLTUNE_ROWS: no row {unknown[0]!r}; there are {known}")
    return tuple(row for row in found if row.cases and (not ONLY or row.name in ONLY))


def _cases(paths: Sequence[Path], split: Split) -> tuple[Case, ...]:
    return tuple(Case(path, split) for path in paths)


def _files(*, repeated: bool) -> list[Path]:
    """Return a dataset for each context, in order.

    Those with repetitions (Parquet), then those with two halves of each launch, go before others if
    asked for, else behind them.
    """
    files = [FOLDER / _NATIVE, FOLDER / _FAT_TREE]
    for path in files:
        if not path.exists():
            sys.exit(f"{path} is missing; set COLLTUNE_SHARED to the folder that has data/")
    for folder in map(Path, EXTRA):
        files += sorted(folder.glob(f"*{_SUFFIX}"))
        files += sorted({path.parent for path in folder.glob("*/*.parquet")})
    files.sort(key=lambda path: (path.is_dir(), _HALVES in path.name), reverse=repeated)
    by_context: dict[Any, Path] = {}
    for path in files:
        by_context.setdefault(_read(path).context, path)
    return list(by_context.values())


@cache
def _read(path: Path) -> PerformanceDataset:
    return read([path], {})


def summary(found: Mapping[str, Figures]) -> dict[str, Any]:
    """Return the figures for the line of JSON that a benchmark ends with."""
    return {
        name: {key: _rounded(value) for key, value in one._asdict().items() if value is not None}
        for name, one in found.items()
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return [round(end, 4) for end in value]
    return round(value, 4)


def pooled(
    row: Row,
    decide: Callable[[Case], tuple[EvaluatedInstances, dict[str, Decided]]],
    is_shown: Callable[[str], bool] = lambda _name: True,
) -> dict[str, Figures]:
    """Return the pooled figures of a row by selector; print those of its cases that `is_shown`."""
    pools: dict[str, Pool] = {}
    for case in row.cases:
        try:
            tested, choices = decide(case)
        except SplitError as error:
            print(f"  {case.name}: {error}", file=sys.stderr)
            continue
        for name, choice in choices.items():
            pools.setdefault(name, Pool()).add(case, tested, choice)
            if is_shown(name):
                alone = Pool()
                alone.add(case, tested, choice)
                print(f"  {case.name}, {name}: {alone.figures()}", file=sys.stderr, flush=True)
    return {name: pool.figures() for name, pool in pools.items()}
