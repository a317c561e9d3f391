"""How much slower than the best measured what selectors take is, instance by instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.domain import Collective
from colltune.errors import DataError, say, unknown
from colltune.evaluation import (
    Evaluation,
    LeaveNodesOut,
    LeavePpnOut,
    MessageSizes,
    Split,
    evaluate_split,
)
from colltune.evaluation.folds import SplitError
from colltune.models.fitting import Progress
from colltune.models.guard import Guard
from colltune.plot_data.decisions import ALL, Pick, Picture, beside
from colltune.plot_data.measured import MeasuredDecisions, comparable_cells, compare
from colltune.selector.argmin import ModelSelector
from colltune.text import UNPRINTED, computed

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
DEFAULT, SINGLE_BEST = "default", "single best"
SPLITS: dict[str, Split] = {
    split.name: split for split in (LeaveNodesOut(), LeavePpnOut(), MessageSizes())
}
"""What can be held out, by name; the first that the data allow is taken."""


@dataclass(frozen=True, eq=False)
class SizeRegrets:
    """Regrets by octave of the message size."""

    msize_bytes: list[int]
    """message sizes"""
    geometric_mean: Numbers
    """at each size"""
    p10: Numbers
    """10 % quantile at each size"""
    p90: Numbers
    """90 % quantile at each size"""


@dataclass(frozen=True, eq=False)
class SelectorRegrets:
    """Measured times of what a selector takes over the best measured."""

    geometric_mean: float
    """of selected over best runtime"""
    p95: float
    """95 % quantile"""
    sorted: Numbers
    """all ratios, ascending"""
    by_size: SizeRegrets
    """by message size"""

    @classmethod
    def of(cls, ratios: Numbers, msize_bytes: Integers) -> SelectorRegrets:
        octave = np.floor(np.log2(np.maximum(msize_bytes, 0.5)))
        groups = [octave == one for one in np.unique(octave)]
        places = [int(np.median(msize_bytes[rows])) for rows in groups]
        means = [geometric_mean(ratios[rows].tolist()) for rows in groups]
        ends = [np.exp(np.quantile(np.log(ratios[rows]), (0.1, 0.9))).tolist() for rows in groups]
        by_size = SizeRegrets(places, np.array(means), *np.array(ends).T)
        p95 = float(np.quantile(ratios, 0.95))
        return cls(geometric_mean(ratios.tolist()), p95, np.sort(ratios), by_size)


@dataclass(frozen=True, eq=False)
class InstanceRegrets:
    """Regrets on n instances.

    ``ratios`` holds for each selector the measured times of what it takes over the best measured,
    (n), at least 1.
    """

    collective: Collective | None
    """collective; null: all together"""
    msize_bytes: Integers = field(metadata=UNPRINTED)
    ratios: Mapping[str, Numbers] = field(metadata=UNPRINTED)

    @computed
    def instances(self) -> int:
        """Instances."""
        return len(self.msize_bytes)

    @computed
    def selectors(self) -> dict[str, SelectorRegrets]:
        """By selector."""
        return {n: SelectorRegrets.of(r, self.msize_bytes) for n, r in self.ratios.items()}


@dataclass(frozen=True)
class Regrets(Picture):
    """Regrets of several collectives; ``learned`` are the selectors that are no baselines."""

    groups: tuple[InstanceRegrets, ...]
    """all together, if there are several, and by collective"""
    learned: tuple[str, ...] = field(metadata=UNPRINTED)
    notes: tuple[str, ...] = ()
    """what is not shown"""


def held_out(  # noqa: PLR0913
    dataset: PerformanceDataset,
    pick: Pick = ALL,
    *,
    learners: Sequence[str] = ("auto",),
    split: str | None = None,
    guard: bool | Guard = True,
    objective: Objective = DEFAULT_OBJECTIVE,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Regrets:
    """Return regrets of default, single best configuration and learners on held-out instances.

    Learned is from all instances; `pick` says which are shown. Without `split` it is the first of
    `SPLITS` that the data allow.
    """
    kept = pick.of_collectives(dataset.collectives)
    part = dataset.where(dataset.frame["collective"].isin([c.value for c in kept]))
    if split is not None and split not in SPLITS:
        raise unknown("split", split, SPLITS, DataError)
    found: Evaluation | None = None
    refused: list[str] = []
    for one in SPLITS.values() if split is None else (SPLITS[split],):
        try:
            found = evaluate_split(
                part,
                one,
                learners=learners,
                guard=guard,
                objective=objective,
                with_references=False,
                jobs=jobs,
                progress=progress,
            )
            break
        except SplitError as error:
            refused.append(str(error))
    if found is None:
        raise say("no-evaluation", reasons="\n".join(refused))
    return _of_evaluation(found, pick, kept)


def _of_evaluation(found: Evaluation, pick: Pick, asked: Sequence[Collective]) -> Regrets:
    tested = found.tested
    shown = pick.mask(tested.nodes, tested.ppn)
    if not shown.any():
        shapes = ", ".join({f"{n}x{p}": 0 for n, p in zip(tested.nodes, tested.ppn, strict=True)})
        raise say("nothing-there", what="such shapes", known=f"held out are {shapes}")
    names = {"default": DEFAULT, "single_best": SINGLE_BEST}
    names |= {name: f"{name}, held out" for name in found.learners}
    groups = []
    for collective in tested.collectives:
        rows = tested.of(collective) & shown
        ratios = {
            label: found.decided[name].selected_s[rows] / tested.best_s[rows]
            for name, label in names.items()
        }
        if rows.any():
            groups.append(InstanceRegrets(Collective(collective), tested.msize_bytes[rows], ratios))
    missing = [c.value for c in asked if c.value not in tested.collectives]
    notes = [f"{', '.join(missing)} (too few shapes to hold some out)"] if missing else []
    how = found.setup.split.replace("-", " ")
    guard = "" if found.guard else ", without guard"
    subject = f"regret, {how}{guard} ({found.objective}); {found.setup.context}"
    learned = tuple(names[name] for name in found.learners)
    return Regrets(subject, _with_all(groups), learned, tuple(notes))


def of_bundle(selector: ModelSelector, dataset: PerformanceDataset, pick: Pick = ALL) -> Regrets:
    """Return regrets of the default and of the decisions of `selector` on measured instances.

    Instances whose default or choice was not measured are no part of it.
    """
    bundle = selector.bundle
    collectives = pick.of_collectives(bundle.collectives)
    cells = beside(comparable_cells(bundle, dataset), pick, collectives)
    label = f"bundle {bundle.id[:8]}"
    compared = [compare(selector, matrix) for matrix in cells.values()]
    groups = [group for one in compared if (group := _compared(one, label)).instances]
    if not groups:
        known = "no instance has both the default's time and the choice's"
        raise say("nothing-there", what="what is to be compared", known=known)
    n, trained = sum(g.instances for g in groups), sum(int(one.trained.sum()) for one in compared)
    total = sum(len(one.nodes) for one in compared)
    notes = []
    if n < total:
        notes.append(f"{total - n} of {total} instances, whose default or choice was not measured")
    seen = f", {trained} of {total} on shapes fitted to" if trained else ""
    guard = "" if selector.guard else ", without guard"
    subject = f"regret of {label}{guard}{seen}; {bundle.context}"
    return Regrets(subject, _with_all(groups), (label,), tuple(notes))


def _compared(found: MeasuredDecisions, label: str) -> InstanceRegrets:
    known = np.isfinite(found.default_s) & np.isfinite(found.selected_s)
    best = found.best_s[known]
    ratios = {DEFAULT: found.default_s[known] / best, label: found.selected_s[known] / best}
    return InstanceRegrets(found.collective, found.msize_bytes[known], ratios)


def _with_all(groups: Sequence[InstanceRegrets]) -> tuple[InstanceRegrets, ...]:
    if len(groups) < 2:
        return tuple(groups)
    whole = replace(
        groups[0],
        collective=None,
        msize_bytes=np.concatenate([group.msize_bytes for group in groups]),
        ratios={
            name: np.concatenate([group.ratios[name] for group in groups])
            for name in groups[0].ratios
        },
    )
    return (whole, *groups)
