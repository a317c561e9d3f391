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
    largest = int(model.coverage.high[2])
    sizes = grid(largest, model.coverage.sizes)
    fastest = _Fastest(selector, collective, asked)
    measured = sizes[sizes >= int(model.coverage.low[2])]
    if model.default_column is None or not fastest.never_slower(measured, asked.index(job)):
        default = selector.default(collective)
        reason = "default kept: no choice for all sizes and communicators is as fast as it"
        return [(Interval(0, None, default, reason=reason),)] * len(asked)
    portfolio = selector.portfolio(collective)
    return [
        between_switches(portfolio, switches)
        for switches in switch_points(fastest, len(asked), sizes)
    ]


class _Fastest:
    """Decides for several shapes at once for the fastest that is not the default."""

    def __init__(
        self, selector: ModelSelector, collective: Collective, shapes: Sequence[Shape]
    ) -> None:
        self._selector = selector
        self._collective = collective
        self._nodes = np.array([s.nodes for s in shapes])
        self._ppn = np.array([s.ppn for s in shapes])
        self._default = selector.portfolio(collective).index(selector.default(collective))

    def __call__(self, rule: Integers, msize_bytes: Integers) -> Integers:
        return self._chosen(self._decide(rule, msize_bytes))

    def never_slower(self, sizes: Integers, job: int) -> bool:
        """Tell whether the choice is as fast as the default everywhere, and gains on the job."""
        rules = np.repeat(np.arange(len(self._nodes)), len(sizes))
        decisions = self._decide(rules, np.tile(sizes, len(self._nodes)))
        chosen = self._chosen(decisions)
        rows = np.arange(len(chosen))
        default_s = decisions.forecast.time_s[:, self._default]
        gain = np.log(default_s) - np.log(decisions.rank_s[rows, chosen])
        own = rules == job
        required = decisions.required[rows, chosen][own].max()
        usable = (chosen != self._default) & ~decisions.beyond
        return bool(usable.all() and (gain >= -NOT_SLOWER).all() and gain[own].mean() > required)

    def _decide(self, rule: Integers, msize_bytes: Integers) -> Decisions:
        return self._selector.decide(
            self._collective, self._nodes[rule], self._ppn[rule], msize_bytes
        )

    def _chosen(self, decisions: Decisions) -> Integers:
        others = decisions.rank_s.copy()
        others[:, self._default] = np.inf
        best = others.argmin(axis=1)
        return np.where(np.isfinite(others[np.arange(len(best)), best]), best, self._default)
