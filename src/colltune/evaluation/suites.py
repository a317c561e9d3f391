"""Several splits at once: every one that the data allows, or those of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from colltune.dataset import PerformanceDataset
from colltune.errors import DataError
from colltune.evaluation.evaluation import Evaluation
from colltune.evaluation.folds import SplitError
from colltune.evaluation.other_splits import LeaveAllocationOut
from colltune.evaluation.paper import PaperLarge, PaperSmall
from colltune.evaluation.splits import (
    Extrapolation,
    LeaveNodesOut,
    LeavePpnOut,
    MessageSizes,
    Split,
)

Run = Callable[[PerformanceDataset, Split], Evaluation]
Begin = Callable[[int, int, str], None]
"""Is told which split begins, as its number, of how many, and its name."""


class SuiteRuns(NamedTuple):
    """The evaluations of a suite, and the splits that the data does not allow, with the reason."""

    runs: list[Evaluation]
    left_out: Mapping[str, str]


class PaperRuns(NamedTuple):
    """Evaluations after the large and after the small training, and what was tested in them.

    ``trainings`` are those of the two that mean anything, with the split of each: ``large`` alone
    where the node counts cannot be parted, and another split stands in for both.
    """

    pairs: list[tuple[Evaluation, Evaluation]]
    trainings: Mapping[str, Split]
    tested: str


def run_all(
    dataset: PerformanceDataset,
    run: Run,
    more: Sequence[Split] = (),
    seed: int = 0,
    begin: Begin = lambda _number, _total, _name: None,
) -> SuiteRuns:
    """Run every split that `dataset` allows, and `more` of them; `seed` draws message sizes.

    `begin` is called before each of them.
    """
    splits: list[Split] = [LeaveNodesOut(), LeavePpnOut(), Extrapolation(), MessageSizes(seed)]
    splits += [LeaveAllocationOut(), *more]
    runs, left_out = [], {}
    for number, split in enumerate(splits, start=1):
        begin(number, len(splits), split.name)
        try:
            runs.append(run(dataset, split))
        except SplitError as error:
            left_out[split.name] = str(error)
    if not runs:
        raise DataError(f"the data allows no split at all: {'; '.join(left_out.values())}")
    return SuiteRuns(runs, left_out)


def run_paper(
    datasets: Sequence[PerformanceDataset],
    run: Run,
    train_nodes: tuple[int, ...] | None = None,
    test_nodes: tuple[int, ...] | None = None,
    begin: Begin = lambda _number, _total, _name: None,
) -> list[tuple[Evaluation, Evaluation]]:
    """Evaluate each of `datasets` after the large and after the small training of the paper.

    `begin` is called before each evaluation.
    """
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
    raise DataError(f"the data allow none of the paper's evaluation: {'; '.join(reasons)}")
