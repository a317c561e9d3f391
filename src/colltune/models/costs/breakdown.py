"""Fitted costs: where they come from, what they are made of, what other adapters make of them.

`designs` are published ones that most MPI libraries lack: for a broadcast, Hasanov's groups
(`colltune.models.costs.hierarchical`); for an allgather, Tran et al.'s use of all adapters
(`colltune.models.costs.multi_hca`). Nothing of the kind was measured, so that these are formulas
with the network's parameters, and no candidates of any selection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from colltune.domain import Collective, Configuration, Instance
from colltune.errors import DataError
from colltune.models import learners
from colltune.models.cells import CellMatrix
from colltune.models.collective_model import CollectiveModel
from colltune.models.costs.families import configuration_amounts, family_of
from colltune.models.costs.hierarchical import Broadcast, BroadcastCost
from colltune.models.costs.multi_hca import Exchange, MultiAdapterAllgather
from colltune.models.costs.network import (
    COEFFICIENTS,
    Coefficient,
    Instances,
    Link,
    NetworkParameters,
    Numbers,
    Rails,
    RailUse,
)
from colltune.models.learners.cost_model import Costs as CostPredictor


class CostKind(StrEnum):
    """The kinds of cost that people tell apart."""

    LATENCY_BETWEEN = "latency between nodes"
    BANDWIDTH_BETWEEN = "bandwidth between nodes"
    CONTENTION = "contention for adapters"
    LATENCY_WITHIN = "latency within nodes"
    BANDWIDTH_WITHIN = "bandwidth within nodes"
    REDUCTION = "reduction"
    COPIES = "copies"
    BYTES = "bytes of each process"
    SETUP = "start of the call"


_KINDS: dict[Coefficient, CostKind] = {
    Coefficient.SETUP: CostKind.SETUP,
    Coefficient.INTRA_LATENCY: CostKind.LATENCY_WITHIN,
    Coefficient.INTRA_GAP: CostKind.LATENCY_WITHIN,
    Coefficient.INTRA_BYTES: CostKind.BANDWIDTH_WITHIN,
    Coefficient.INTER_LATENCY: CostKind.LATENCY_BETWEEN,
    Coefficient.INTER_GAP: CostKind.LATENCY_BETWEEN,
    Coefficient.INTER_BYTES: CostKind.BANDWIDTH_BETWEEN,
    Coefficient.INTER_CONTENDED: CostKind.CONTENTION,
    Coefficient.REDUCTION: CostKind.REDUCTION,
    Coefficient.COPY: CostKind.COPIES,
}


class Share(NamedTuple):
    """One kind of cost: seconds, and its share of the whole."""

    kind: CostKind
    time_s: float
    share: float


@dataclass(frozen=True, eq=False)
class FittedCost:
    """A configuration's cost with the seconds of each of `COEFFICIENTS`, fitted to measurements.

    They were fitted as if every node had one adapter, so that they hold for the ``measured``
    adapters that the nodes really had.
    """

    configuration: Configuration
    vector: Numbers

    @property
    def is_generic(self) -> bool:
        """Whether the algorithm's rounds, and hence its bytes through adapters, are not known."""
        return family_of(self.configuration).is_generic

    def by_coefficient_s(
        self, instances: Instances, measured: Rails, other: Rails | None = None
    ) -> Numbers:
        """Return the seconds of each of `COEFFICIENTS`, shape (n, k), with `other` adapters.

        Every amount is scaled by what the cost function has for the other adapters over what it has
        for the measured ones. Where it has nothing for the measured ones (no two processes shared
        an adapter) and the fit found something nevertheless, that is left as it is.
        """
        as_fitted = self._amounts(instances, Rails())
        if other is None or other == measured:
            return np.asarray(as_fitted * self.vector)
        before, after = self._amounts(instances, measured), self._amounts(instances, other)
        known = before > 0
        scale = np.where(known, after / np.where(known, before, 1.0), 1.0)
        return np.asarray(as_fitted * scale * self.vector)

    def time_s(self, instances: Instances, measured: Rails, other: Rails | None = None) -> Numbers:
        return np.asarray(self.by_coefficient_s(instances, measured, other).sum(axis=1))

    def _amounts(self, instances: Instances, rails: Rails) -> Numbers:
        return configuration_amounts(self.configuration, replace(instances, rails=rails))


Costs = Mapping[Configuration, FittedCost]
"""Fitted costs by configuration; what is not in it could not be fitted."""


def of_model(model: CollectiveModel) -> Costs | None:
    """Return the costs that `model` rests on, None if it was learned otherwise."""
    return _costs(model.predictor) if isinstance(model.predictor, CostPredictor) else None


def of_cells(cells: CellMatrix) -> Costs:
    """Fit a cost model to measured cells."""
    try:
        predictor = learners.fitted(cells, "cost_model").predictor
    except DataError as error:
        raise DataError(f"no cost model can be fitted: {error}") from error
    assert isinstance(predictor, CostPredictor)
    return _costs(predictor)


def _costs(predictor: CostPredictor) -> Costs:
    pairs = zip(predictor.configurations, predictor.vectors, strict=True)
    return {configuration: FittedCost(configuration, vector) for configuration, vector in pairs}


def network(costs: Costs, measured: Rails, rails: Rails) -> NetworkParameters | None:
    """Return the network that `costs` agree on, with `rails` instead of the `measured` ones.

    Each parameter is the median of those that are not 0. Bytes are those of one adapter: where
    every message used all of the measured ones, it is that many times slower. None where no
    algorithm's rounds are known.
    """
    vectors = np.array([cost.vector for cost in costs.values() if not cost.is_generic])
    if not len(vectors):
        return None
    common = [float(np.median(v[v > 0])) if (v > 0).any() else 0.0 for v in vectors.T]
    found = NetworkParameters.of(common, rails)
    if measured.use is RailUse.BINDING:
        return found
    one_s = found.inter.s_per_byte * measured.adapters
    return replace(found, inter=replace(found.inter, s_per_byte=one_s))


def shares(
    seconds_by_coefficient: Sequence[float] | Numbers, *, generic: bool = False
) -> tuple[Share, ...]:
    """Return the kinds of cost that are not nothing in seconds of `COEFFICIENTS`, by `CostKind`.

    A `generic` basis' bytes of each process may be copied or sent.
    """
    kinds = _KINDS | {Coefficient.COPY: CostKind.BYTES} if generic else _KINDS
    seconds = dict.fromkeys(CostKind, 0.0)
    for coefficient, time_s in zip(COEFFICIENTS, seconds_by_coefficient, strict=True):
        seconds[kinds[coefficient]] += float(time_s)
    total_s = sum(seconds.values())
    return tuple(Share(k, s, s / total_s) for k, s in seconds.items() if s > 0)


_SEGSIZE_BYTES = 65536
_BROADCASTS = (Broadcast.LINEAR, Broadcast.PIPELINED, Broadcast.SCATTER_RING_ALLGATHER)


class Design(NamedTuple):
    """A published design: predicted seconds, and its own optimum in words."""

    name: str
    time_s: float
    optimum: str


def designs(instance: Instance, network: NetworkParameters) -> list[Design]:
    """Return the designs for the collective of `instance`; none for most collectives."""
    if instance.collective is Collective.BCAST:
        return list(_broadcasts(instance, network))
    if instance.collective is Collective.ALLGATHER:
        return list(_allgathers(instance, network))
    return []


def _broadcasts(instance: Instance, network: NetworkParameters) -> Iterator[Design]:
    shape, m = instance.shape, instance.msize_bytes
    link = network.inter if shape.nodes > 1 else network.intra
    if shape.nodes > 1 and network.rails.use is RailUse.SHARING:
        # every message is striped over all adapters
        link = replace(link, s_per_byte=link.s_per_byte / network.rails.adapters)
    for algorithm in _BROADCASTS:
        segments = max(1, -(-m // _SEGSIZE_BYTES))
        best = BroadcastCost(algorithm, shape.nprocs, m, link, segments).optimum()
        groups = "1 group" if best.groups == 1 else f"{best.groups} groups"
        name = f"hierarchical {algorithm.replace('_', '-')}"
        yield Design(name, best.time_s, f"{groups}, {best.gain:.2f}x the flat one")


def _allgathers(instance: Instance, network: NetworkParameters) -> Iterator[Design]:
    shape = instance.shape
    gather = MultiAdapterAllgather(
        shape.nodes,
        shape.ppn,
        instance.msize_bytes,
        network.inter,
        network.rails.adapters,
        memory=network.intra,
        # the fit knows no startup of a local copy
        copy=Link(0.0, network.copy_s_per_byte or network.intra.s_per_byte),
    )
    offload = gather.optimal_offload()
    optimum = f"by formula, {offload.transfers} of {shape.ppn - 1} transfers by adapters"
    if shape.nodes == 1:
        yield Design("MHA-intra", offload.time_s, optimum)
        return
    for exchange in Exchange:
        if exchange is Exchange.RING or not shape.nodes & (shape.nodes - 1):
            name = f"MHA-inter {exchange.replace('_', '-')}"
            yield Design(name, gather.inter_s(exchange), optimum)
