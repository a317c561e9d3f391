"""The noise report of a dataset, and what its noise means for choosing configurations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from colltune.dataset.frame import CELL_COLUMNS
from colltune.dataset.noise.measured import (
    DRIFTING_RATIO,
    Allocations,
    AllocationSource,
)
from colltune.domain import DEFAULT_ALGORITHM, Collective, Configuration, Context
from colltune.evidence.components import (
    Component,
    Variances,
    allocation_medians,
    component,
    contrasts,
    paired,
)
from colltune.evidence.launches import allowed_variance, noticeable
from colltune.evidence.repetitions import median_factor

_SIZE_CLASSES = {"up to 2 KiB": 2048, "up to 64 KiB": 65536, "above 64 KiB": math.inf}
_NOISIEST = 10
TARGET = 1.05
_MOST_LAUNCHES = 10_000


class NoiseLevel(StrEnum):
    """Where the uncertainty of a decision comes from."""

    REPETITIONS = "repetitions"
    LAUNCHES = "launches"
    ALLOCATIONS = "allocations"


@dataclass(frozen=True)
class Separability:
    """How well the two fastest configurations of an instance can be told apart.

    Differences are ratios minus one, medians over instances.
    """

    instances: int
    """instances"""
    smallest_detectable: float | None
    """smallest difference that can be told, as a ratio less 1"""
    is_lower_bound: bool
    """a component is unknown, the true one is larger"""
    launches_per_cell: float
    """mean over cells"""
    allocations_per_cell: float
    """mean over cells"""
    main_source: NoiseLevel
    """where most of the noise comes from"""
    launches_here: int | None
    """launches that a cell needs for 5 % in as many allocations as now; null: unknown, or out of
    reach"""
    allocations: int | None
    """allocations that it needs with one launch in each; null: unknown, or out of reach"""
    default_beaten_share: float | None
    """share of instances on which the default is beaten beyond noise"""


@dataclass(frozen=True)
class Within:
    """Noise within a launch, medians over launches and cells; None where the data do not tell."""

    p90_over_median: float | None
    """within a launch"""
    worst_p90_over_median: float | None
    """of the noisiest tenth"""
    spread: float | None
    """standard deviation of log-times"""
    autocorrelation: float | None
    """of ranks at lag 1"""
    warm_up: float | None
    """ratio of the first ten repetitions to the others"""
    drifting_share: float | None
    """share of measurements that drift by more than 5 %"""
    raw_share: float
    """share of measurements with raw repetitions"""


@dataclass(frozen=True)
class Group:
    """The noise of some of a dataset's cells.

    Where the group itself does not tell a component, its decisions are told with that of the whole
    dataset: it borrows.
    """

    name: str
    """all, a collective, or a class of sizes"""
    cells: int
    """cells"""
    launches: int
    allocations: int
    """allocations"""
    within: Within
    """noise within a launch"""
    between_launches: Component | None
    """between launches of one allocation; null: too few cells have two launches there"""
    between_allocations: Component | None
    """between allocations; null: unknown"""
    comparing_launches: Component | None
    """what is left of it when configurations of an instance are compared that were measured
    together; null: hardly any were"""
    comparing_allocations: Component | None
    """the same between allocations; null: unknown"""
    includes_launches: bool
    """between_allocations includes what launches differ by"""
    borrows: bool
    """components are taken from all"""
    decisions: Separability | None
    """what can be told apart"""

    def detectable_text(self) -> str | None:
        """Return the smallest detectable difference: ``8.9 %``, ``>= 8.9 %``, + if borrowed."""
        decisions = self.decisions
        if decisions is None or decisions.smallest_detectable is None:
            return None
        bound = ">= " if decisions.is_lower_bound else ""
        return f"{bound}{100 * decisions.smallest_detectable:.1f} %{'+' if self.borrows else ''}"


@dataclass(frozen=True)
class NoisyCell:
    """A cell with its noise."""

    configuration: str
    """id"""
    nodes: int
    ppn: int
    msize_bytes: int
    launches: int
    p90_over_median: float | None
    """within launches"""
    launch_ratio: float
    """largest ratio of two launches"""
    modes_ratio: float | None
    """distance of two modes; null: one mode"""


@dataclass(frozen=True)
class NoiseReport:
    """The noise report of a dataset; see the package for the definitions."""

    context: Context
    measurements: int
    """measurements"""
    allocation_sources: Mapping[AllocationSource, int]
    """launches by what told their allocation"""
    overall: Group
    """all of them"""
    collectives: tuple[Group, ...]
    """by collective"""
    size_classes: tuple[Group, ...]
    """by message size"""
    noisiest: tuple[NoisyCell, ...]
    """at most ten"""
    bimodal_cells: int
    """cells with two modes"""
    bimodal: tuple[NoisyCell, ...]
    """at most ten of them"""
    methods: Mapping[str, int] = field(default_factory=dict)
    """launches measured by each method, where it is not the one asked for"""


def noise_report(table: pd.DataFrame, context: Context, allocations: Allocations) -> NoiseReport:
    """Tell how noisy the measurements in `table` are, as `measured` returns it."""
    overall, variances = _group("all", table, Variances())

    def groups(by: pd.Series[str]) -> tuple[Group, ...]:
        names = [name for name in _SIZE_CLASSES if (by == name).any()] or sorted(by.unique())
        if len(names) == 1:
            return (replace(overall, name=names[0]),)
        return tuple(_group(name, table[by == name], variances)[0] for name in names)

    def size_class(msize_bytes: int) -> str:
        return next(name for name, last in _SIZE_CLASSES.items() if msize_bytes <= last)

    cells = _noisy_cells(table)
    return NoiseReport(
        context=context,
        measurements=len(table),
        allocation_sources=dict(allocations.sources),
        overall=overall,
        collectives=groups(table["collective"]),
        size_classes=groups(table["msize_bytes"].map(size_class)),
        noisiest=_first(cells, "noise", context.library),
        bimodal_cells=int(cells["modes_ratio"].notna().sum()),
        bimodal=_first(cells, "modes_ratio", context.library),
    )


def _group(name: str, table: pd.DataFrame, others: Variances) -> tuple[Group, Variances]:
    """Return the noise of the cells in `table`; decisions borrow from `others` what is unknown."""
    known = table.assign(variance=table["variance"].fillna(0.0))
    between = _levels(known, lambda pairs: pairs, per_pair=2)
    comparing = _levels(known, contrasts, per_pair=4)
    includes_launches = between[0] is None and between[1] is not None
    own = Variances(
        0.0 if includes_launches else _variance(comparing[0] or between[0]),
        _variance(comparing[1] or between[1]),
    )
    variances = own.or_else(others)
    cells = table.groupby(["cell", "instance", "algorithm"], as_index=False).agg(
        log_time=("log_time", "median"),
        variance=("variance", "mean"),
        launches=("launch", "size"),
        allocations=("allocation", "nunique"),
    )
    group = Group(
        name=name,
        cells=table["cell"].nunique(),
        launches=table["launch"].nunique(),
        allocations=table["allocation"].nunique(),
        within=_within(table),
        between_launches=between[0],
        between_allocations=between[1],
        comparing_launches=comparing[0],
        comparing_allocations=comparing[1],
        includes_launches=includes_launches,
        borrows=variances != own,
        decisions=decisions(cells, variances),
    )
    return group, variances


def _variance(found: Component | None) -> float | None:
    return None if found is None else found.variance


def _levels(
    table: pd.DataFrame,
    view: Callable[[pd.DataFrame], pd.DataFrame],
    per_pair: int,
) -> tuple[Component | None, Component | None]:
    """Return the components of launches and allocations, from pairs seen through `view`."""
    launches = component(view(paired(table, ["allocation"], "launch")), per_pair)
    merged = allocation_medians(table, launches.variance if launches else 0.0)
    return launches, component(view(paired(merged, [], "allocation")), per_pair)


def _within(table: pd.DataFrame) -> Within:
    drift = table["drift"].dropna()
    drifts = np.abs(np.log(drift)) > np.log(DRIFTING_RATIO)
    return Within(
        p90_over_median=_told(table["p90_over_median"].median()),
        worst_p90_over_median=_told(table["p90_over_median"].quantile(0.9)),
        spread=_told(table["spread"].median()),
        autocorrelation=_told(table["autocorrelation"].median()),
        warm_up=_told(table["warm_up"].median()),
        drifting_share=_told(drifts.mean()),
        raw_share=float((table["times_s"].map(len) > 0).mean()),
    )


def decisions(cells: pd.DataFrame, variances: Variances) -> Separability | None:
    """Tell how well configurations can be told apart; None without two of them anywhere.

    `cells` has one row per cell: ``instance``, ``algorithm``, ``log_time`` (median over launches),
    ``variance`` (mean sampling variance of a launch's median, NaN where unknown), ``launches`` and
    ``allocations`` (how many measured it).
    """
    ranked = cells.assign(error=variances.of_cells(cells)).sort_values(["instance", "log_time"])
    rank = ranked.groupby("instance").cumcount()
    first, second = (ranked[rank == n].set_index("instance") for n in (0, 1))
    if second.empty:
        return None
    top = pd.concat([first.loc[second.index], second])
    errors = first["error"].loc[second.index] + second["error"]
    is_known = bool((errors > 0).any())
    detectable = np.expm1(noticeable(errors.to_numpy(float)))
    # the median cell; an unknown sampling variance counts as none
    sampling, launches, allocations = (
        float(top[name].fillna(0.0).median()) for name in ("variance", "launches", "allocations")
    )
    launch, allocation = (variance or 0.0 for variance in variances)
    by_launches, by_allocations = median_factor(launches), median_factor(allocations)
    sources = {
        NoiseLevel.REPETITIONS: sampling * by_launches,
        NoiseLevel.LAUNCHES: launch * by_launches,
        NoiseLevel.ALLOCATIONS: allocation * by_allocations,
    }
    # of one of two medians, so that a ratio of `TARGET` is seen
    allowed = allowed_variance(math.log(TARGET)) / 2
    here = _needed(launch + sampling, allowed - allocation * by_allocations)
    alone = _needed(allocation + launch + sampling, allowed)
    return Separability(
        instances=len(second),
        smallest_detectable=float(np.median(detectable)) if is_known else None,
        is_lower_bound=None in variances or bool(top["variance"].isna().any()),
        launches_per_cell=launches,
        allocations_per_cell=allocations,
        main_source=max(sources, key=lambda level: sources[level]),
        launches_here=None if variances.launch is None else here,
        allocations=None if variances.allocation is None else alone,
        default_beaten_share=_default_beaten_share(first, ranked) if is_known else None,
    )


def _needed(variance: float, allowed: float) -> int | None:
    """Return of how many values a median has at most the variance `allowed`."""
    if allowed <= 0:
        return None
    if variance <= allowed:
        return 1
    n = math.ceil((math.pi * variance / allowed - math.pi + 2) / 2)
    return n if n <= _MOST_LAUNCHES else None


def _default_beaten_share(first: pd.DataFrame, ranked: pd.DataFrame) -> float | None:
    default = ranked[ranked["algorithm"] == DEFAULT_ALGORITHM].set_index("instance")
    if default.empty:
        return None
    best = first.loc[default.index]
    gain = default["log_time"] - best["log_time"]
    noise = noticeable(default["error"] + best["error"])
    return float((gain > noise).mean())


def _noisy_cells(table: pd.DataFrame) -> pd.DataFrame:
    cells = table.groupby(CELL_COLUMNS, as_index=False).agg(
        launches=("launch", "size"),
        p90_over_median=("p90_over_median", "median"),
        fastest=("log_time", "min"),
        slowest=("log_time", "max"),
        modes_ratio=("modes_ratio", "max"),
    )
    cells["launch_ratio"] = np.exp(cells["slowest"] - cells["fastest"])
    is_told = cells["p90_over_median"].notna() | (cells["launches"] > 1)
    noise = cells["launch_ratio"] * cells["p90_over_median"].fillna(1.0)
    cells["noise"] = noise.where(is_told)
    return cells


def _first(cells: pd.DataFrame, by: str, library: str) -> tuple[NoisyCell, ...]:
    """Return the ten cells with the largest `by` of those that have any."""
    ordered = cells.dropna(subset=[by]).sort_values([by, *CELL_COLUMNS], ascending=False)
    return tuple(
        NoisyCell(
            configuration=Configuration.stored(
                library, Collective(row["collective"]), row["algorithm"], row["parameters"]
            ).id,
            **{name: int(row[name]) for name in ("nodes", "ppn", "msize_bytes", "launches")},
            p90_over_median=_told(row["p90_over_median"]),
            launch_ratio=float(row["launch_ratio"]),
            modes_ratio=_told(row["modes_ratio"]),
        )
        for _, row in ordered.head(_NOISIEST).iterrows()
    )


def _told(value: float | np.floating[Any]) -> float | None:
    return None if np.isnan(value) else float(value)
