"""Decision tables for files that cannot leave a part of a collective to the library.

A collective that stands in such a file is taken from the library's own decision for every message
size, and for every communicator that is named. So it is decided on as a whole: for all of it a
configuration is predicted not to be slower than the default, and the gain on the job's own
communicator is beyond doubt and noise; or the library keeps all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.selector.argmin import Decisions, ModelSelector
from colltune.selector.decision_table import (
    Integers,
    Intervals,
    between_switches,
    communicator_sizes,
    layouts,
)
from colltune.selector.switch_points import grid, switch_points

NOT_SLOWER = math.log(1.02)
"""Log of the ratio of runtimes that counts as equal: launches of one day differ by more."""


def all_or_nothing_table(
    selector: ModelSelector,
    shape: Shape,
    collectives: Iterable[Collective],
    *,
    by_layout: bool = True,
) -> DecisionTable:
    """Return decisions for all message sizes, or nothing, on each layout or the job's own alone."""
    asked = [shape]
    if by_layout:
        asked = [s for size in communicator_sizes(shape) for s in layouts(size, shape)]
    rules: dict[tuple[Collective, int], Intervals] = {}
    of_layouts: dict[tuple[Collective, Shape], Intervals] = {}
    for collective in collectives:
        found = _decided(selector, collective, asked, shape)
        for layout, intervals in zip(asked, found, strict=True):
            if len(layouts(layout.nprocs, shape)) == 1 or not by_layout:
                rules[collective, layout.nprocs] = intervals
            else:
                of_layouts[collective, layout] = intervals
    return DecisionTable(selector.bundle.context.library, shape, rules, of_layouts)


def _decided(
    selector: ModelSelector, collective: Collective, asked: Sequence[Shape], job: Shape
) -> list[Intervals]:
    """Return the intervals of each shape, one left to the library where it keeps all."""
    model = selector.bundle.model(collective)
    portfolio, default = selector.portfolio(collective), selector.default(collective)
    default_column = portfolio.index(default)
    nodes, ppn = (np.array([getattr(s, name) for s in asked]) for name in ("nodes", "ppn"))
    largest = int(model.coverage.high[2])
    sizes = grid(largest, model.coverage.sizes)

    def decide(rule: Integers, msize_bytes: Integers) -> tuple[Decisions, Integers]:
        """Return the decisions, and the fastest of what is not the default."""
        decisions = selector.decide(collective, nodes[rule], ppn[rule], msize_bytes)
        others = decisions.rank_s.copy()
        others[:, default_column] = np.inf
        best = others.argmin(axis=1)
        runs = np.isfinite(others[np.arange(len(best)), best])
        return decisions, np.where(runs, best, default_column)

    def never_slower() -> bool:
        """Tell whether the choice is as fast as the default everywhere, and gains on the job."""
        measured = sizes[sizes >= int(model.coverage.low[2])]
        rules = np.repeat(np.arange(len(asked)), len(measured))
        decisions, chosen = decide(rules, np.tile(measured, len(asked)))
        rows = np.arange(len(chosen))
        default_s = decisions.forecast.time_s[:, default_column]
        gain = np.log(default_s) - np.log(decisions.rank_s[rows, chosen])
        own = rules == asked.index(job)
        required = decisions.required[rows, chosen][own].max()
        usable = (chosen != default_column) & ~decisions.beyond
        return bool(usable.all() and (gain >= -NOT_SLOWER).all() and gain[own].mean() > required)

    refuted = any(
        one.jobs and one.collective is collective and one.shape in asked
        for one in selector.bundle.confirmations
    )
    if model.default_column is None or refuted or not never_slower():
        reason = "default kept: no single choice for all sizes and communicators is as fast"
        if refuted:
            reason = "default kept: production jobs refuted a part of what was chosen"
        return [(Interval(0, None, default, reason=reason),)] * len(asked)
    found = switch_points(lambda *rules: decide(*rules)[1], len(asked), sizes)
    return [between_switches(portfolio, switches) for switches in found]
