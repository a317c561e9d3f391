"""What would be selected with more nodes, other processes per node, or more network adapters.

Nodes, processes and message size go through the bundle's own models. The adapters of a node (rails)
are no input of theirs, since a machine has the ones that it has; a fitted cost model tells by what
factor each configuration's time changes, and the models' predictions are scaled by it.

Nothing is measured of other rails, so that they count as outside the measured range, and the answer
leans towards the library's own decision: its algorithm is not known, and it is supposed to gain as
much as the configuration that gains most. On a single node rails change nothing.

Intervals reach from the scaled prediction to the one without any effect of the rails (Tran et al.,
Concurrency Computat. Pract. Exper. 2023, table 2, find none for about half of the algorithms).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.decisions import Selection
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import say
from colltune.models.bundle import Bundle
from colltune.models.collective_model import CollectiveModel, Forecast
from colltune.models.costs import breakdown
from colltune.models.costs.breakdown import Costs, Design, Share, designs, shares
from colltune.models.costs.network import Instances, Rails
from colltune.mpi.programs import FOR_A_PROGRAM, Programs
from colltune.selector.argmin import ModelSelector, legal_selector

Numbers = NDArray[np.float64]
_MOST = 2**31 - 1
_MOST_RAILS = 64


class Situation(NamedTuple):
    """An instance, and the adapters of each node."""

    instance: Instance
    rails: Rails
    """network adapters per node"""


@dataclass(frozen=True)
class WhatIfAnswer:
    """What is selected in a situation, and what it is made of.

    Terms are empty where the cost model knows no such algorithm, or its rounds are not known and
    hence neither what other adapters make of it.
    """

    situation: Situation
    """what was asked for"""
    selection: Selection
    """what is selected"""
    outside: tuple[str, ...]
    """counts out of the measured range, in words"""
    chosen_terms: tuple[Share, ...]
    """what its time is made of, by the cost model"""
    default_terms: tuple[Share, ...]
    """what the default's time is made of"""
    designs: tuple[Design, ...] = ()
    """what published designs would take"""


@dataclass(frozen=True)
class NowAndThen:
    """What `what-if` prints."""

    bundle: str
    """id of the bundle"""
    cost_model: str | None
    """what the cost terms are by"""
    promise: str
    now: WhatIfAnswer
    """as it is now"""
    then: WhatIfAnswer
    """as it would be"""
    notes: tuple[str, ...]
    """what the answers rest on"""


class WhatIf:
    """Answers what would be selected in situations of one collective.

    Parameters
    ----------
    bundle
        Fitted models.
    measured
        The adapters of the machine that was measured.
    costs
        Fitted costs by configuration; without any, situations with other adapters are refused.
    guard
        As of `ModelSelector`.
    programs
        Those that a choice has to be safe for.
    """

    def __init__(
        self,
        bundle: Bundle,
        measured: Rails,
        costs: Costs | None = None,
        *,
        guard: bool = True,
        programs: Programs = FOR_A_PROGRAM,
    ) -> None:
        self._bundle = bundle
        self._measured = measured
        self._costs = costs or {}
        self._guard, self._programs = guard, programs

    def answer(self, situation: Situation) -> WhatIfAnswer:
        """Return the selection with its cost terms.

        Raises
        ------
        DataError
            If MPI has no such job or message, or nothing is known of other adapters.
        BundleError
            If the bundle has no models of the collective.
        """
        instance, shape = situation.instance, situation.instance.shape
        if shape.nprocs > _MOST:
            raise say("too-many-processes", shape=shape, most=_MOST)
        if not 1 <= (rails := situation.rails.adapters) <= _MOST_RAILS:
            raise say("impossible-rails", rails=rails, most=_MOST_RAILS)
        model = self._bundle.model(instance.collective)
        used = situation.rails if instance.shape.nodes > 1 else self._measured
        selection = self._selector(model, used).select(instance)
        default = Configuration.default(self._bundle.context.library, instance.collective)
        network = breakdown.network(self._costs, self._measured, situation.rails)
        return WhatIfAnswer(
            situation,
            selection,
            self.outside(situation),
            self._terms(selection.configuration, situation),
            self._terms(default, situation),
            tuple(designs(instance, network)) if network else (),
        )

    def compared(
        self,
        now: Situation,
        then: Situation,
        *,
        cost_model: str | None = None,
        rails_assumed: bool = False,
    ) -> NowAndThen:
        """Return both answers, with what they rest on.

        `cost_model` says what the costs are by, `rails_assumed` that nobody told the adapters of
        the measured machine.
        """
        return NowAndThen(
            self._bundle.id,
            cost_model,
            str(self._programs),
            self.answer(now),
            self.answer(then),
            tuple(self._notes(now, then, assumed=rails_assumed)),
        )

    def outside(self, situation: Situation) -> tuple[str, ...]:
        """Return which counts are out of the measured ranges, in words."""
        instance = situation.instance
        shape, coverage = instance.shape, self._bundle.model(instance.collective).coverage
        counts = {
            "nodes": (shape.nodes, coverage.low[0], coverage.high[0]),
            "processes": (shape.nprocs, coverage.low[1], coverage.high[1]),
            "bytes": (instance.msize_bytes, coverage.low[2], coverage.high[2]),
            "processes per node": (shape.ppn, *coverage.ppn_range),
        }
        return tuple(
            f"{count} {what}, measured {least} to {most}"
            for what, (count, least, most) in counts.items()
            if not max(least, 1) <= max(count, 1) <= max(most, 1)
        )

    def nearest_measured(self, shape: Shape) -> Shape:
        """Return the measured shape that is nearest to `shape` in octaves of nodes and ppn."""

        def distance(other: Shape) -> tuple[float, Shape]:
            nodes, ppn = math.log2(other.nodes / shape.nodes), math.log2(other.ppn / shape.ppn)
            return abs(nodes) + abs(ppn), other

        return min(self._bundle.training_shapes, key=distance)

    def unknown(self, collective: Collective) -> tuple[Configuration, ...]:
        """Return the configurations whose costs are not known, the default aside."""
        configurations = self._bundle.model(collective).configurations
        return tuple(c for c in configurations if not self._is_known(c) and not c.is_default)

    def _notes(self, now: Situation, then: Situation, *, assumed: bool) -> Iterator[str]:
        """Yield what the answers rest on and what cannot be known."""
        if now == then:
            yield "the new job does not differ from the present one"
        if self.outside(now) or self.outside(then):
            yield (
                "the interval comes from errors at measured shapes; outside of them it may be too "
                "narrow"
            )
        if now.rails == then.rails:
            return
        if assumed:
            yield (
                "the data do not say how many adapters the measured nodes have; 1 is assumed "
                "(set it with --now-rails)"
            )
        if then.instance.shape.nodes == 1:
            yield "a single node does not use its adapters, so more rails change nothing"
        yield (
            "times with other rails are the models' predictions, scaled by the cost model; none "
            "was measured, and the intervals include no effect at all"
        )
        yield (
            "the algorithm behind the default is unknown; it is assumed to gain as much from the "
            "rails as the configuration that gains most"
        )
        unknown = self.unknown(then.instance.collective)
        if unknown:
            names = ", ".join(c.id for c in unknown)
            yield f"not considered with other rails, because no cost formula is known: {names}"

    def _is_known(self, configuration: Configuration) -> bool:
        cost = self._costs.get(configuration)
        return cost is not None and not cost.is_generic

    def _selector(self, model: CollectiveModel, rails: Rails) -> ModelSelector:
        if rails == self._measured:
            return legal_selector(self._bundle, self._programs, guard=self._guard)
        if not any(self._is_known(c) for c in model.configurations):
            raise say("rails-need-costs", rails=rails.adapters, collective=model.collective)
        given = {f.name: getattr(model, f.name) for f in fields(CollectiveModel)}
        scaled = _OtherRails(**given, costs=self._costs, measured=self._measured, rails=rails)
        models = tuple(scaled if m is model else m for m in self._bundle.models)
        other = replace(self._bundle, models=models)
        return legal_selector(other, self._programs, guard=self._guard)

    def _terms(self, configuration: Configuration, situation: Situation) -> tuple[Share, ...]:
        cost = self._costs.get(configuration)
        if cost is None or (cost.is_generic and situation.rails != self._measured):
            return ()
        instance = situation.instance
        at = Instances.of(instance.shape.nodes, instance.shape.ppn, instance.msize_bytes)
        seconds = cost.by_coefficient_s(at, self._measured, situation.rails)[0]
        return shares(seconds, generic=cost.is_generic)


@dataclass(frozen=True, eq=False)
class _OtherRails(CollectiveModel):
    """The models of a collective, scaled to other adapters than the measured ones."""

    costs: Costs = field(kw_only=True)
    measured: Rails = field(kw_only=True)
    rails: Rails = field(kw_only=True)

    def forecast(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Forecast:
        """Predict as outside the measured range; what has no known cost is no candidate.

        The default always is one.
        """
        forecast = super().forecast(nodes, ppn, msize_bytes)
        ratio = self._ratios(Instances.of(nodes, ppn, msize_bytes))
        least, most = np.nanmin(ratio, axis=1), np.nanmax(ratio, axis=1)
        known = np.isfinite(ratio)
        down = np.where(known, ratio, 1.0)
        up = down.copy()
        if self.default_column is not None and not known[:, self.default_column].any():
            down[:, self.default_column], up[:, self.default_column] = least, most
            known[:, self.default_column] = True
        return forecast._replace(
            time_s=forecast.time_s * down,
            lower_s=forecast.lower_s * np.minimum(down, 1.0),
            upper_s=forecast.upper_s * np.maximum(up, 1.0),
            candidate=forecast.candidate & known,
            extrapolated=np.ones_like(forecast.extrapolated),
            doubt=self.doubt(nodes, ppn, msize_bytes),
        )

    def _ratios(self, instances: Instances) -> Numbers:
        """Return the factors on the times of all configurations, (n, C); NaN where not known."""
        ratios = np.full((len(instances), len(self.configurations)), np.nan)
        for column, configuration in enumerate(self.configurations):
            cost = self.costs.get(configuration)
            if cost is not None and not cost.is_generic:
                before_s = cost.time_s(instances, self.measured)
                after_s = cost.time_s(instances, self.measured, self.rails)
                positive = before_s > 0
                ratios[:, column] = np.where(
                    positive, after_s / np.where(positive, before_s, 1.0), 1.0
                )
        return ratios
