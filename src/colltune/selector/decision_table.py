"""Decision tables: message-size intervals for a job's communicators.

A rules file knows a communicator by its size alone. Processes of one size can lie packed on few
nodes or spread over many, and an algorithm that is fast for the one can be slow for the other;
therefore a configuration is used for a communicator size only where the layouts agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import DecisionTable, Interval, Selection, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.collective_model import CollectiveModel
from colltune.models.confirmations import Confirmation
from colltune.mpi.choosing import even_layouts
from colltune.selector.argmin import ModelSelector

Integers = NDArray[np.int64]
Decide = Callable[[Integers, Integers], Integers]
"""Maps rule numbers (n) and message sizes in bytes (n) to codes (n), equal for equal decisions."""
_SIZES_PER_CALL = 256


class _Brackets(NamedTuple):
    """Pairs of sizes of one rule whose decisions differ, each (n)."""

    rule: Integers
    low: Integers
    high: Integers
    low_code: Integers
    high_code: Integers

    def where(self, mask: NDArray[Any]) -> _Brackets:
        return _Brackets(*(v[mask] for v in self))

    def and_also(self, other: _Brackets) -> _Brackets:
        return _Brackets(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def grid(largest_bytes: int, measured: Integers) -> Integers:
    """Return sizes from 0 to `largest_bytes`: two per octave, and the measured ones."""
    octaves = np.int64(1) << np.arange(max(largest_bytes, 1).bit_length(), dtype=np.int64)
    sizes = np.concatenate([[0, largest_bytes], octaves, octaves * 3 // 2, measured])
    # np.unique would import numpy.ma, which costs more than all the rest here.
    ordered = np.sort(sizes[sizes <= largest_bytes])
    return ordered[np.diff(ordered, prepend=-1) > 0]


def switch_points(decide: Decide, n_rules: int, sizes: Integers) -> list[list[tuple[int, int]]]:
    """Return for each of `n_rules` rules from which sizes on a decision holds, with its code.

    Between neighbours of `sizes` that are decided differently the change is found to the byte, for
    all rules at once; a decision that comes and goes between two neighbours that agree is not
    seen. `sizes` are bytes, ascending, as the lists are; their first entry is at ``sizes[0]``.
    """
    rules = np.arange(n_rules)
    codes = decide(np.repeat(rules, len(sizes)), np.tile(sizes, n_rules))
    codes = codes.reshape(n_rules, len(sizes))
    rule, at = np.nonzero(codes[:, 1:] != codes[:, :-1])
    brackets = _Brackets(rule, sizes[at], sizes[at + 1], codes[rule, at], codes[rule, at + 1])
    while (wide := brackets.high - brackets.low > 1).any():
        brackets = brackets.where(~wide).and_also(_narrowed(decide, brackets.where(wide)))
    result = [[(int(sizes[0]), int(codes[r, 0]))] for r in range(n_rules)]
    for position in np.lexsort((brackets.high, brackets.rule)).tolist():
        switch = (int(brackets.high[position]), int(brackets.high_code[position]))
        result[int(brackets.rule[position])].append(switch)
    return result


def _narrowed(decide: Decide, wide: _Brackets) -> _Brackets:
    """Cut brackets into equal sections, many if there are few: a call costs more than a size."""
    sections = max(2, _SIZES_PER_CALL // len(wide.rule))
    inner = np.arange(1, sections)
    cuts = wide.low[:, None] + (wide.high - wide.low)[:, None] * inner // sections
    codes = decide(np.repeat(wide.rule, len(inner)), cuts.ravel()).reshape(cuts.shape)
    edges = np.column_stack([wide.low, cuts, wide.high])
    codes = np.column_stack([wide.low_code, codes, wide.high_code])
    row, at = np.nonzero(codes[:, 1:] != codes[:, :-1])
    return _Brackets(
        wide.rule[row], edges[row, at], edges[row, at + 1], codes[row, at], codes[row, at + 1]
    )


_LEAST_NEAR, _MOST_NEAR = math.log(1.01), math.log(1.025)
"""A file does not switch for less than the first, whatever the noise, and always for the second."""
Flags = NDArray[np.bool_]
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

    def steadied(
        self, found: Sequence[list[tuple[int, int]]], sizes: Integers
    ) -> list[list[tuple[int, int]]]:
        """Return the switch points `found`, by rule, without those that gain nothing.

        Between neighbouring `sizes` a decision changes once, or goes over the default. And from the
        smallest messages on, a configuration goes on as long as the guard allows it and it
        is predicted within `_near` of the fastest in each layout, at the ends of each interval and
        at the `sizes` inside. What is left to the default or confirmed stays as it is.
        """
        if self._selector.guard is None:
            return list(found)
        found = [self._once_between(switches, sizes) for switches in found]
        pieces = [
            (rule, k, np.unique(np.r_[first, sizes[(sizes > first) & (sizes < last)], last - 1]))
            for rule, switches in enumerate(found)
            for k, ((first, code), last) in enumerate(
                zip(switches, [*(f for f, _ in switches[1:]), int(sizes[-1]) + 1], strict=True)
            )
            if k and self._plain(code) and self._plain(switches[k - 1][1])
        ]
        near = dict(zip(((rule, k) for rule, k, _ in pieces), self._near(pieces), strict=True))
        result = []
        for rule, switches in enumerate(found):
            kept = switches[:1]
            for k, (first, code) in enumerate(switches[1:], start=1):
                going_on = kept[-1][1]
                stays = (rule, k) in near and self._plain(going_on) and near[rule, k][going_on]
                if code != going_on and not stays:
                    kept.append((first, code))
            result.append(kept)
        return result

    def _once_between(
        self, switches: Sequence[tuple[int, int]], sizes: Integers
    ) -> list[tuple[int, int]]:
        """Let the last of several changes between two of `sizes` be the only one.

        If the default is among what is decided there, it is from the first change on.
        """
        kept = list(switches[:1])
        places = np.searchsorted(sizes, [first for first, _ in switches])
        for _, group in groupby(zip(places[1:], switches[1:], strict=True), lambda pair: pair[0]):
            changes = [switch for _, switch in group]
            codes = {kept[-1][1], *(code for _, code in changes)}
            if len(changes) > 1 and max(codes) < self._columns:
                over = self.default_code in codes
                changes = [(changes[0][0], self.default_code)] * over + changes[-1:]
            kept += [
                c
                for c, before in zip(changes, [kept[-1], *changes], strict=False)
                if c[1] != before[1]
            ]
        return kept

    def _plain(self, code: int) -> bool:
        """Tell whether a code is a prediction that is not the default."""
        return code < self._columns and code != self.default_code

    def _near(self, pieces: Sequence[tuple[int, int, Integers]]) -> Iterator[Flags]:
        """Yield for each of `pieces`, rules with sizes, which columns are as good as the fastest.

        That is within what noise makes of a gain, between `_LEAST_NEAR` and `_MOST_NEAR`.
        """
        at = [
            (layout, size)
            for rule, _, probes in pieces
            for layout in range(self._starts[rule], self._starts[rule] + self._counts[rule])
            for size in probes.tolist()
        ]
        if not at:
            return
        layout, size = np.array(at).T
        decided = self._selector.decide(
            self._collective, self._nodes[layout], self._ppn[layout], size
        )
        rows = np.arange(len(at))
        # a size at an interval's end can be decided otherwise in one of two layouts
        fastest_s = np.append(decided.rank_s.T, [np.zeros(len(at))], axis=0)[decided.chosen, rows]
        limit = np.exp(np.clip(decided.forecast.noise, _LEAST_NEAR, _MOST_NEAR))
        default = self._selector.bundle.model(self._collective).default_column
        near = decided.rank_s <= (limit * fastest_s)[:, None]
        near &= decided.allowed(default)
        done = 0
        for rule, _, probes in pieces:
            count = int(self._counts[rule]) * len(probes)
            yield near[done : done + count].all(axis=0)
            done += count


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
    sizes = grid(bound, coverage.sizes)
    found = switch_points(agreement, len(rules), sizes)
    portfolio = selector.portfolio(collective)
    drafts: list[Intervals] = []
    for switches in agreement.steadied(found, sizes):
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

    def at(sizes: Sequence[int], of: Sequence[tuple[Layouts, Interval]]) -> list[Selection]:
        instances = [
            Instance(i.configuration.collective, rule[0], size)
            for (rule, i), size in zip(of, sizes, strict=True)
        ]
        return selector.select_many(instances)

    found = at([i.middle(bound) for _, i in pairs], pairs)
    # where an interval goes on through near-ties, the fastest at its beginning decided
    other = [
        k
        for k, (_, i) in enumerate(pairs)
        if not i.configuration.is_default and found[k].configuration != i.configuration
    ]
    begun = [pairs[k] for k in other]
    for k, selection in zip(other, at([i.first_bytes for _, i in begun], begun), strict=True):
        found[k] = selection
    selections = iter(found)

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
        found.append((_for_all_sizes(selector, model, gain[at], decisions.required[at]),))
    return found


def _for_all_sizes(
    selector: ModelSelector,
    model: CollectiveModel,
    gain: NDArray[np.float64],
    required: NDArray[np.float64],
) -> Interval:
    """Return the configuration that is never slower and faster on average, or the default.

    `gain` and `required` (n, C) are predicted log gains over the default, and what is asked for.
    """
    fit = np.asarray((gain >= 0).all(axis=0) & (np.arange(gain.shape[1]) != model.default_column))
    mean_gain = np.where(fit, gain, 0.0).mean(axis=0)
    for column in np.argsort(-mean_gain, kind="stable").tolist():
        if fit[column] and mean_gain[column] > required[:, column].max():
            faster = float(np.exp(mean_gain[column]))
            reason = f"one for all sizes, predicted {faster:.2f}x faster on average"
            return Interval(0, None, model.configurations[column], reason=reason)
    reason = "default kept: no single configuration is as fast at every size"
    return Interval(0, None, selector.default(model.collective), reason=reason)
