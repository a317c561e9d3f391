"""Decision tables: message-size intervals for a job's communicators.

A rules file knows a communicator by its size alone. Processes of one size can lie packed on few
nodes or spread over many, and an algorithm that is fast for the one can be slow for the other;
therefore a configuration is used for a communicator size only where the layouts agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.collective_model import CollectiveModel
from colltune.models.confirmations import Confirmation
from colltune.mpi.choosing import even_layouts
from colltune.selector.argmin import ModelSelector
from colltune.selector.switch_points import grid, switch_points

Integers = NDArray[np.int64]
Layouts = tuple[Shape, ...]
Intervals = tuple[Interval, ...]


def intervals(
    selector: ModelSelector, collective: Collective, shape: Shape, *, describe: bool = True
) -> tuple[Interval, ...]:
    """Return the decisions for `shape` over message size: exact, ascending, adjacent, from 0 on.

    With `describe` they tell their predictions and reasons, which takes most of the time.
    """
    return _tabulated(selector, collective, [(shape,)], describe=describe)[0]


def decision_table(
    selector: ModelSelector,
    shape: Shape,
    collectives: Iterable[Collective],
    *,
    single_rule: Collection[Collective] = frozenset(),
    comm_layouts: Mapping[int, Layouts] | None = None,
    by_layout: bool = False,
    describe: bool = True,
) -> DecisionTable:
    """Return the decisions for the communicators of a job of `shape`.

    Parameters
    ----------
    selector
        Decides.
    shape
        The job's.
    collectives
        What to decide on.
    single_rule
        Collectives for which the library can be given one configuration for all message sizes
        only: one is chosen if it is predicted at least as fast as the default at every size and
        layout, and faster on average by more than the guard asks.
    comm_layouts
        How the communicators of each size lie; by default `communicator_sizes` in all their
        `layouts`. Each rule is for exactly its size.
    by_layout
        Whether to decide on each layout of a communicator size by itself, too, for files that can
        tell layouts apart.
    describe
        Whether intervals tell their predictions and reasons, which takes most of the time.
    """
    if comm_layouts is None:
        comm_layouts = {size: layouts(size, shape) for size in communicator_sizes(shape)}
    by_size = {size: found for size, found in sorted(comm_layouts.items()) if found}
    apart = [layout for found in by_size.values() if len(found) > 1 for layout in found]
    asked: list[Layouts] = [*by_size.values(), *((layout,) for layout in apart if by_layout)]
    rules: dict[tuple[Collective, int], Intervals] = {}
    of_layouts: dict[tuple[Collective, Shape], Intervals] = {}
    for collective in collectives:
        if collective in single_rule:
            found = _single(selector, collective, asked)
        else:
            found = _tabulated(selector, collective, asked, describe=describe)
        rules |= {(collective, s): i for s, i in zip(by_size, found, strict=False)}
        of_layouts |= {
            (collective, s): i for s, i in zip(apart, found[len(by_size) :], strict=False)
        }
    return DecisionTable(selector.bundle.context.library, shape, rules, of_layouts)


def single_algorithm_table(
    selector: ModelSelector, shape: Shape, collectives: Iterable[Collective]
) -> DecisionTable:
    """Return one configuration per collective, for all communicators and message sizes of a job.

    It is predicted at least as fast as the default on every communicator of `communicator_sizes`,
    in every layout and at every message size, and faster on average. The table names it for the
    communicator of the whole job.

    `collectives` are those to choose for.
    """
    everywhere = tuple(
        layout for size in communicator_sizes(shape) for layout in layouts(size, shape)
    )
    rules = {
        (collective, shape.nprocs): _single(selector, collective, [everywhere])[0]
        for collective in collectives
    }
    return DecisionTable(selector.bundle.context.library, shape, rules)


def communicator_sizes(shape: Shape) -> tuple[int, ...]:
    """Return the sizes of the communicators that programs make on `shape`, ascending, from 2 on.

    The whole job, one process per node, one node, whole nodes in powers of two, halves, quarters, …
    of all of these, and powers of two.
    """
    sizes = {1 << k for k in range(shape.nprocs.bit_length())}
    sizes |= {shape.ppn << k for k in range(shape.nodes.bit_length())}
    for part in (shape.nprocs, shape.nodes, shape.ppn):
        while part > 1:
            sizes.add(part)
            if part % 2:
                break
            part //= 2  # noqa: PLW2901
    return tuple(sorted(s for s in sizes if 2 <= s <= shape.nprocs))


def layouts(comm_size: int, job: Shape) -> Layouts:
    """Return how `comm_size` processes can lie evenly on a job: fewest nodes, most nodes.

    One shape if both are the same, none if they cannot lie evenly at all.
    """
    possible = even_layouts(comm_size, job)
    return tuple(dict.fromkeys((possible[0], possible[-1]))) if possible else ()


def merged(found: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return one interval for neighbours with the same configuration, described as the first.

    `found` are in ascending order, without gaps.
    """
    kept: list[Interval] = []
    for interval in found:
        if kept and kept[-1].configuration == interval.configuration:
            alike = interval.status is kept[-1].status
            status = interval.status if alike else Status.PREDICTED
            kept[-1] = replace(kept[-1], last_bytes=interval.last_bytes, status=status)
        else:
            kept.append(interval)
    return tuple(kept)


class _Agreement:
    """Decides for several rules at once; where a rule's layouts disagree, for the default.

    Codes are columns of the portfolio. To tell what was measured again, each of the bundle's
    confirmations has its own columns behind those.
    """

    def __init__(
        self,
        selector: ModelSelector,
        collective: Collective,
        rules: Sequence[Layouts],
    ) -> None:
        self._selector = selector
        self._collective = collective
        shapes = [shape for rule in rules for shape in rule]
        self._nodes = np.array([s.nodes for s in shapes])
        self._ppn = np.array([s.ppn for s in shapes])
        self._counts = np.array([len(rule) for rule in rules])
        self._starts = np.cumsum(self._counts) - self._counts
        portfolio = selector.portfolio(collective)
        self.default_code = portfolio.index(selector.default(collective))
        self._columns = len(portfolio)

    def __call__(self, rule: Integers, msize_bytes: Integers) -> Integers:
        counts = self._counts[rule]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        at = np.repeat(self._starts[rule], counts) + within
        decisions = self._selector.decide(
            self._collective, self._nodes[at], self._ppn[at], np.repeat(msize_bytes, counts)
        )
        starts = ends - counts
        least = np.minimum.reduceat(decisions.chosen, starts)
        most = np.maximum.reduceat(decisions.chosen, starts)
        told = least + self._columns * (1 + decisions.confirmation[starts])
        return np.where(least == most, told, self.default_code)


def largest_msize(selector: ModelSelector, collective: Collective) -> int:
    """Return the largest message in bytes for which the default may be replaced."""
    return int(selector.bundle.model(collective).coverage.farthest[1][2])


def _tabulated(
    selector: ModelSelector,
    collective: Collective,
    rules: Sequence[Layouts],
    *,
    describe: bool,
) -> list[Intervals]:
    coverage = selector.bundle.model(collective).coverage
    bound = largest_msize(selector, collective)
    agreement = _Agreement(selector, collective, rules)
    found = switch_points(agreement, len(rules), grid(bound, coverage.sizes))
    portfolio = selector.portfolio(collective)
    drafts: list[Intervals] = []
    for switches in found:
        if switches[-1][1] != agreement.default_code:
            switches.append((bound + 1, agreement.default_code))
        drafts.append(between_switches(portfolio, switches, selector.bundle.confirmations))
    return _described(selector, rules, drafts, bound) if describe else drafts


def between_switches(
    portfolio: Sequence[Configuration],
    switches: Sequence[tuple[int, int]],
    confirmations: Sequence[Confirmation] = (),
) -> Intervals:
    """Return the intervals that begin at `switches`: sizes in bytes with columns of `portfolio`.

    Behind these each of `confirmations` has the same columns once more.
    """
    statuses = (Status.PREDICTED, *(confirmation.status for confirmation in confirmations))
    ends: list[int | None] = [first - 1 for first, _ in switches[1:]]
    return tuple(
        Interval(
            first, last, portfolio[code % len(portfolio)], status=statuses[code // len(portfolio)]
        )
        for (first, code), last in zip(switches, [*ends, None], strict=True)
    )


def _described(
    selector: ModelSelector,
    rules: Sequence[Layouts],
    drafts: Sequence[Intervals],
    bound: int,
) -> list[Intervals]:
    """Add to each interval the prediction and reason at its middle, on the first layout."""
    pairs = [(rule, i) for rule, draft in zip(rules, drafts, strict=True) for i in draft]
    selections = iter(
        selector.select_many(
            [Instance(i.configuration.collective, rule[0], i.middle(bound)) for rule, i in pairs]
        )
    )

    def described(interval: Interval, rule: Layouts) -> Interval:
        found = next(selections)
        prediction, reason, status = found.prediction, found.reason, found.status
        if found.configuration != interval.configuration:
            between = " and ".join(map(str, rule))
            prediction, status = found.default, Status.PREDICTED
            reason = f"default kept: {between} do not agree" if len(rule) > 1 else "beyond the data"
        told = replace(interval, prediction=prediction, default=found.default)
        return replace(told, reason=reason, status=status)

    return [
        tuple(described(i, rule) for i in draft) for rule, draft in zip(rules, drafts, strict=True)
    ]


def _single(
    selector: ModelSelector, collective: Collective, rules: Sequence[Layouts]
) -> list[Intervals]:
    """Return one interval for all message sizes for each rule."""
    model, default = selector.bundle.model(collective), selector.default(collective)
    if model.default_column is None:
        reason = (
            "default kept: it was not measured, so no configuration is known to be as fast "
            "everywhere"
        )
        return [(Interval(0, None, default, reason=reason),) for _ in rules]
    low, high = int(model.coverage.low[2]), int(model.coverage.high[2])
    sizes = grid(high, model.coverage.sizes)
    sizes = sizes[sizes >= low]
    asked = list(dict.fromkeys(shape for rule in rules for shape in rule))
    nodes, ppn = (np.repeat([getattr(s, n) for s in asked], len(sizes)) for n in ("nodes", "ppn"))
    decisions = selector.decide(collective, nodes, ppn, np.tile(sizes, len(asked)))
    default_s = decisions.forecast.time_s[:, [model.default_column]]
    gain = np.log(default_s) - np.log(decisions.rank_s)
    # a size that was left to the default after measuring leaves it all sizes
    withdrawn = (decisions.confirmation >= 0) & (decisions.chosen == model.default_column)
    gain[withdrawn] = -np.inf
    rows = np.arange(len(gain)).reshape(len(asked), len(sizes))
    found: list[Intervals] = []
    for rule in rules:
        at = rows[[asked.index(shape) for shape in rule]].ravel()
        asking = rule if selector.asks_for_instances else ()
        instances = [Instance(collective, shape, m) for shape in asking for m in sizes.tolist()]
        best = _for_all_sizes(selector, model, gain[at], decisions.required[at], instances)
        found.append((best,))
    return found


def _for_all_sizes(
    selector: ModelSelector,
    model: CollectiveModel,
    gain: NDArray[np.float64],
    required: NDArray[np.float64],
    instances: Sequence[Instance],
) -> Interval:
    """Return the configuration that is never slower and faster on average, or the default.

    `gain` and `required` (n, C) are predicted log gains over the default, and what is asked for;
    `instances` are those for which it must be permitted.
    """
    fit = np.asarray((gain >= 0).all(axis=0) & (np.arange(gain.shape[1]) != model.default_column))
    mean_gain = np.where(fit, gain, 0.0).mean(axis=0)
    for column in np.argsort(-mean_gain, kind="stable").tolist():
        configuration = model.configurations[column]
        if not fit[column] or mean_gain[column] <= required[:, column].max():
            continue
        if all(selector.permits(configuration, instance) for instance in instances):
            faster = float(np.exp(mean_gain[column]))
            reason = f"one for all sizes, predicted {faster:.2f}x faster on average"
            return Interval(0, None, configuration, reason=reason)
    reason = "default kept: no single configuration is as fast at every size"
    return Interval(0, None, selector.default(model.collective), reason=reason)
