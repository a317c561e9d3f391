"""Whether the machine still is the one that the bundle in force was fitted to.

Compared are logarithms of measured over predicted time, of cells that the bundle knows: shapes it
was fitted to, configurations it has, messages within the measured range. Predictions are off by
something even on an unchanged machine, so launches that the bundle was fitted to are the reference:
of every cell that they measured, its median there is taken off. How allocations scatter is told by
cells that several of them measured. Without such launches predictions count as they are, with their
own error.

Calls of one allocation share its nodes and its neighbours, which moves all of its times by 10 to
20 %; thousands of calls in one allocation are one witness. So each allocation counts with its
median alone, and since allocations that follow each other are alike, blocks of them are compared
(`colltune.evidence.components.changed`). An alarm needs both: a shift beyond ``ratio``, and one
that chance explains in fewer than ``false_alarms`` of all checks, a third of these each for all
together, for collectives, and for configurations, divided by how many there are (Bonferroni).

Looked at are, twice: all launches that the bundle was not fitted to; and the latest ten allocations
against all before, because bundles that are fitted anew every night get used to what comes slowly.
Of a configuration what is common to its collective is taken off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import CELL_COLUMNS
from colltune.dataset.objective import Objective, launch_times, parse_objective
from colltune.domain import Collective, parse_parameters
from colltune.evidence.components import changed
from colltune.evidence.launches import Z90, sd_behind
from colltune.models.bundle import Bundle
from colltune.models.collective_model import CollectiveModel
from colltune.retraining.site_file import DriftLimits
from colltune.text import computed, counted

Numbers = NDArray[np.float64]
_LATEST = 10
_CONFIGURATION = ["algorithm", "parameters"]
_ALL = "all"
_SINCE = {"fit": "since the fit", "latest": "recently"}


@dataclass(frozen=True)
class Shift:
    """How runtimes changed."""

    of: str
    """a collective, all of them, or one configuration (relative to the others)"""
    since: str
    """which launches are new: those since the fit, or the latest"""
    ratio: float
    """new over old time"""
    allocations: int
    """new allocations"""
    chance: float
    """probability of a shift as large if nothing has changed"""
    alarm: bool
    """whether it is large and beyond chance"""

    def __str__(self) -> str:
        return (
            f"{self.of}: {self.ratio:.2f}x the time in "
            f"{counted(self.allocations, 'allocation')} {_SINCE[self.since]} (p = "
            f"{self.chance:.1g})"
        )


@dataclass(frozen=True)
class Drift:
    """Whether runtimes changed."""

    shifts: tuple[Shift, ...]
    """alarms, and the shift of every collective"""
    judged: int
    """new measurements that were judged"""
    not_judged: int
    """those that the bundle says nothing of"""

    @computed
    def alarm(self) -> bool:
        """Whether any shift is beyond chance."""
        return bool(self.alarms)

    @property
    def alarms(self) -> tuple[Shift, ...]:
        """The shifts beyond chance."""
        return tuple(shift for shift in self.shifts if shift.alarm)

    @computed
    def ratio(self) -> float | None:
        """The largest shift of all collectives together either way; null: none was judged."""
        whole = [shift.ratio for shift in self.shifts if shift.of == _ALL]
        return max(whole, key=lambda ratio: abs(np.log(ratio)), default=None)


def drift(
    bundle: Bundle,
    measured: PerformanceDataset,
    allocation_of: Mapping[str, str],
    known: Collection[str],
    order: Sequence[str],
    limits: DriftLimits,
) -> Drift:
    """Compare new launches with what `bundle` predicts."""
    table, unjudged = _residuals(bundle, measured)
    launches = table["launch"].astype(str)
    allocations = [*dict.fromkeys(allocation_of[launch] for launch in reversed(order))][::-1]
    table = table.assign(
        allocation=pd.Categorical(launches.map(allocation_of), allocations, ordered=True)
    )
    latest = allocations[-_LATEST:]
    unfitted = ~launches.isin(list(known))
    views = {"fit": unfitted, "latest": table["allocation"].isin(latest)}
    checks = [
        check
        for since, new in views.items()
        if new.any() and (since == "fit" or not (new.all() or (new == unfitted).all()))
        for check in _checks(since, _referenced(table.assign(old=~new)))
    ]
    # the standard deviation of what predictions are off by
    errors = {
        m.collective.value: float(np.median(sd_behind(m.error.lower, m.error.upper, Z90)))
        for m in bundle.models
    }
    errors[_ALL] = max(errors.values(), default=0.0)
    found = (_judged(check, limits, errors, checks) for check in checks)
    not_judged = int((~unjudged.isin(list(known))).sum())
    shifts = tuple(shift for shift in found if shift and (shift.alarm or ":" not in shift.of))
    return Drift(shifts, int(unfitted.sum()), not_judged)


def _referenced(table: pd.DataFrame) -> pd.DataFrame:
    """Take the median of the old launches off; ``scatter`` has what is left of several of them."""
    old = table[table["old"]]
    cells = old.groupby(CELL_COLUMNS).agg(
        reference=("log", "median"), witnesses=("allocation", "nunique")
    )
    pairs = ["collective", *_CONFIGURATION]
    offsets = old.groupby(pairs)["log"].median().rename("offset")
    table = table.join(cells, on=CELL_COLUMNS).join(offsets, on=pairs)
    reference = table["reference"].fillna(table["offset"]).fillna(0.0)
    log = table["log"] - reference
    # a median of few takes a part of their scatter with it
    several = table["witnesses"].where(table["witnesses"] > 1)
    scatter = (log * np.sqrt(several / (several - 1.0))).where(table["old"])
    return table.assign(log=log, scatter=scatter)


def _residuals(bundle: Bundle, measured: PerformanceDataset) -> tuple[pd.DataFrame, pd.Series[str]]:
    """Return log(measured / predicted) of timed rows, and the launches of those not judged."""
    rows = measured.timed()
    objective: Objective = parse_objective(bundle.objective)
    log_s = np.log(launch_times(rows, objective))
    predicted = np.full(len(rows), np.nan)
    for model in bundle.models:
        at = np.flatnonzero((rows["collective"] == model.collective.value).to_numpy())
        if len(at):
            predicted[at] = _predicted(model, rows.iloc[at])
    shapes = {(s.nodes, s.ppn) for s in bundle.training_shapes}
    pairs = zip(rows["nodes"].tolist(), rows["ppn"].tolist(), strict=True)
    judged = np.isfinite(predicted) & np.array([pair in shapes for pair in pairs], np.bool_)
    table = rows.loc[judged, [*CELL_COLUMNS, "launch"]].reset_index(drop=True)
    table["log"] = log_s[judged] - predicted[judged]
    return table, rows.loc[~judged, "launch"].astype(str)


def _predicted(model: CollectiveModel, rows: pd.DataFrame) -> Numbers:
    """Return the logarithm of predicted seconds of each row, NaN where there is no telling."""
    instances = rows[["nodes", "ppn", "msize_bytes"]].to_numpy(np.int64)
    distinct, row_of = np.unique(instances, axis=0, return_inverse=True)
    forecast = model.forecast(*distinct.T)
    known = forecast.candidate & ~forecast.extrapolated[:, None]
    log_s = np.where(known, np.log(forecast.time_s), np.nan)
    columns = {(c.stored_algorithm, c.parameters): i for i, c in enumerate(model.configurations)}
    codes, pairs = pd.factorize(pd.MultiIndex.from_frame(rows[_CONFIGURATION]))
    column_of = [columns.get((str(a), parse_parameters(str(p))), -1) for a, p in pairs]
    column = np.array(column_of, np.int64)[codes]
    found = log_s[row_of.reshape(-1), column]
    return np.asarray(np.where(column < 0, np.nan, found))


@dataclass(frozen=True, eq=False)
class _Check:
    """What is looked at: medians of allocations, as shifts from the reference.

    ``old`` are those of old allocations that share cells with others, ``new`` those of new ones,
    both in order of time; ``witnesses`` is how many old ones the reference rests on.
    """

    name: str
    collective: str
    since: str
    old: Numbers
    witnesses: int
    new: Numbers

    @property
    def kind(self) -> int:
        """Whether it is of everything (0), of a collective (1) or of a configuration (2)."""
        return (self.name != _ALL) + (self.name != self.collective)


def _checks(since: str, table: pd.DataFrame) -> list[_Check]:
    checks = [_check(_ALL, _ALL, since, table)]
    for collective, rows in table.groupby("collective", sort=True):
        name = Collective(str(collective)).value
        checks.append(_check(name, name, since, rows))
        by_allocation = rows.groupby("allocation", observed=True)
        own = rows.assign(
            log=rows["log"] - by_allocation["log"].transform("median"),
            scatter=rows["scatter"] - by_allocation["scatter"].transform("median"),
        )
        for (algorithm, parameters), part in own.groupby(_CONFIGURATION, sort=True):
            label = f"{name}: {algorithm} {parameters}".rstrip()
            checks.append(_check(label, name, since, part))
    return [check for check in checks if len(check.new)]


def _check(name: str, collective: str, since: str, rows: pd.DataFrame) -> _Check:
    def medians(part: pd.DataFrame, column: str) -> Numbers:
        found = part.groupby("allocation", observed=True)[column].median().dropna()
        return found.to_numpy(np.float64)

    old, new = rows[rows["old"]], rows[~rows["old"]]
    witnesses = int(old["allocation"].nunique())
    return _Check(name, collective, since, medians(old, "scatter"), witnesses, medians(new, "log"))


def _judged(
    check: _Check, limits: DriftLimits, errors: Mapping[str, float], checks: Sequence[_Check]
) -> Shift | None:
    sd, n = limits.launch_noise, check.witnesses
    found = changed(check.old, check.new, sd, sd / n**0.5 if n else errors[check.collective])
    if found is None:
        return None
    share = 1.0 / (3.0 * sum(other.kind == check.kind for other in checks))
    is_large = abs(found.log) > np.log(limits.ratio)
    alarm = bool(is_large and found.chance < limits.false_alarms * share)
    ratio = float(np.exp(found.log))
    return Shift(check.name, check.since, ratio, len(check.new), found.chance, alarm)
