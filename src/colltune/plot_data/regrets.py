"""How much slower than the best measured what selectors take is, instance by instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean
from typing import Any

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
from colltune.plot_data.decisions import ALL, Pick, beside
from colltune.plot_data.measured import MeasuredDecisions, comparable_cells, compare
from colltune.plot_data.runtimes import listed
from colltune.selector.argmin import ModelSelector

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
DEFAULT, SINGLE_BEST = "default", "single best"
SPLITS: dict[str, Split] = {
    split.name: split for split in (LeaveNodesOut(), LeavePpnOut(), MessageSizes())
}
"""What can be held out, by name; the first that the data allow is taken."""


@dataclass(frozen=True, eq=False)
class InstanceRegrets:
    """Regrets on n instances of one collective, or of all for None.

    ``ratios`` holds for each selector the measured times of what it takes over the best measured,
    (n), at least 1.
    """

    collective: Collective | None
    msize_bytes: Integers
    ratios: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.msize_bytes)

    def by_size(self, selector: str) -> Sizes:
        """Return the regrets of `selector` by octave of the message size."""
        octave = np.floor(np.log2(np.maximum(self.msize_bytes, 0.5)))
        found = np.unique(octave)
        logs = np.log(self.ratios[selector])
        groups = [octave == one for one in found]
        places = [int(np.median(self.msize_bytes[rows])) for rows in groups]
        means = [geometric_mean(self.ratios[selector][rows].tolist()) for rows in groups]
        ends = [np.exp(np.quantile(logs[rows], (0.1, 0.9))).tolist() for rows in groups]
        low, high = np.array(ends).T
        return Sizes(places, np.array(means), low, high)

    def as_json(self) -> dict[str, Any]:
        return {
            "collective": None if self.collective is None else self.collective.value,
            "instances": len(self),
            "selectors": {name: self._drawn(name) for name in self.ratios},
        }

    def _drawn(self, selector: str) -> dict[str, Any]:
        sizes = self.by_size(selector)
        return {
            "geometric_mean": geometric_mean(self.ratios[selector].tolist()),
            "p95": float(np.quantile(self.ratios[selector], 0.95)),
            "sorted": listed(np.sort(self.ratios[selector])),
            "by_size": {
                "msize_bytes": sizes.msize_bytes,
                "geometric_mean": listed(sizes.mean),
                "p10": listed(sizes.p10),
                "p90": listed(sizes.p90),
            },
        }


@dataclass(frozen=True, eq=False)
class Sizes:
    """Regrets by octave of the message size: geometric mean, and the ends of the middle 80 %."""

    msize_bytes: list[int]
    mean: Numbers
    p10: Numbers
    p90: Numbers


@dataclass(frozen=True)
class Regrets:
    """Regrets of several collectives, those of all together first if there are several.

    ``learned`` are the selectors that are no baselines; ``notes`` say what is not part of it.
    """

    subject: str
    groups: tuple[InstanceRegrets, ...]
    learned: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "groups": [group.as_json() for group in self.groups],
            "notes": list(self.notes),
        }


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
    groups = [group for one in compared if len(group := _compared(one, label))]
    if not groups:
        known = "no instance has both the default's time and the choice's"
        raise say("nothing-there", what="what is to be compared", known=known)
    n, trained = sum(map(len, groups)), sum(int(one.trained.sum()) for one in compared)
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
