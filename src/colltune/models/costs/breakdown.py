"""Fitted costs: where they come from, what they are made of, what other adapters make of them.

`designs` are published ones that most MPI libraries lack: for a broadcast, Hasanov's groups; for an
allgather, Tran et al.'s use of all adapters. Nothing of the kind was measured, so that these are
formulas with the network's parameters, and no candidates of any selection.

Hasanov's hierarchical transformation of broadcasts takes p processes in G groups of p/G. The
message goes to one leader of each group first, and from the leaders into all groups at once,
by the same algorithm both times; groups need not follow the machine's nodes. All formulas are from
K. Hasanov, J.-N. Quintin, A. Lastovetsky, "Topology-oblivious optimization of MPI broadcast
algorithms on extreme-scale platforms", Simul. Model. Pract. Theory 2015, doi
10.1016/j.simpat.2015.03.005, in Hockney's model: a message of m bytes takes alpha + m beta.

With G = 1 or G = p one of the two levels has a single process and sends nothing, so the cost is
that of the flat algorithm; the printed formulas of sec. 3.2, 3.3 and 3.6 hold for 1 < G < p only.
The cost of making the two communicators is not in the model (sec. 4.1 finds that it can outweigh
the gain); it is paid once per communicator, not per broadcast.

Tried on a simulated 36-node fat tree with nodes as groups, where a pipelined chain was measured
flat and in two levels (SimGrid's NTSL and SMP_linear, both in segments of 8 KiB, 314 instances on
4, 8 and 16 processes per node): eq. 3 says which is faster in 92 %, and the logarithms of the
speed-ups correlate at .95; geometric means 2.06, 3.36, 5.15 predicted and 2.12, 3.44, 5.36 found.
Where it errs, two levels gain on longer messages than it says, for their pipelines overlap. A
binomial tree in two levels takes the same time as the flat one, as sec. 3.3 says.

Tran et al.'s allgather is for nodes with several network adapters, MHA-intra and MHA-inter. Its
formulas are from T. Tran et al., "Accelerating communication with multi-HCA aware collectives
in MPI", Concurrency Computat. Pract. Exper. 2023, doi 10.1002/cpe.7879. On a node, processes copy
their blocks through memory and hand ``d`` of their transfers to the adapters, which would be idle;
between nodes, one leader each exchanges the node's blocks while the others copy out what came.

``msize_bytes`` is the block of one process (M), ``nodes`` N, ``ppn`` P, ``adapters`` H per node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from colltune.domain import Collective, Configuration, Instance
from colltune.errors import DataError, say
from colltune.models import learners
from colltune.models.cells import CellMatrix
from colltune.models.collective_model import CollectiveModel
from colltune.models.costs.families import configuration_amounts, family_of
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


class Exchange(StrEnum):
    """How the leaders of the nodes exchange their blocks (sec. 3.2, phase 2)."""

    RING = "ring"
    RECURSIVE_DOUBLING = "recursive_doubling"


class Offload(NamedTuple):
    """How many of its P - 1 transfers a process hands to the adapters.

    ``transfers`` is the best whole number, ``continuous`` d of eq. 1, ``time_s`` and
    ``without_s`` the allgather's runtime with it and with d = 0.
    """

    transfers: int
    continuous: float
    time_s: float
    without_s: float


@dataclass(frozen=True)
class MultiAdapterAllgather:
    """The runtime of the paper's allgather of blocks of ``msize_bytes``.

    ``link`` has the startup of a transfer over the network (alpha_H) and the time per byte of one
    of the ``adapters`` (1 / BW_H), which every message is striped over; ``memory`` startup and time
    per byte of a transfer to another process of the node (alpha_C, 1 / BW_C), ``copy`` those of a
    plain local copy (alpha_L, 1 / BW_L). ``slowdown`` is b of sec. 4.1: how much longer a transfer
    takes while all processes of the node do one. ``congestion`` is cg of eq. 5; without it readers
    copy out one after another. A copy test measures both (``make figure NAME=copy_congestion``).
    """

    nodes: int
    ppn: int
    msize_bytes: int
    link: Link
    adapters: int
    memory: Link
    copy: Link
    slowdown: float = 1.0
    congestion: float | None = None

    def network_s(self, msize_bytes: float) -> float:
        """Return T_H(M) with every message striped over all adapters: rail sharing.

        Sec. 2.2: alpha_H + M / (BW_H H). Only the bandwidth term gains from adapters.
        """
        return self.link.latency_s + msize_bytes * self.link.s_per_byte / self.adapters

    def broadcast_s(self, msize_bytes: float) -> float:
        """Return the broadcast through shared memory of eq. 5; nothing without other processes.

        Unless cg was measured, it is that of readers that cannot copy at the same time at all (sec.
        4.2).
        """
        copy_s = _message_s(self.copy, msize_bytes)
        readers = float(self.ppn - 1) if self.congestion is None else self.congestion
        return copy_s + copy_s * readers if self.ppn > 1 else 0.0

    def transfer_s(self) -> float:
        """Return T_C(M) of sec. 4.1: alpha_C + (M / BW_C) b."""
        s_per_byte = self.memory.s_per_byte * self.slowdown
        return self.memory.latency_s + self.msize_bytes * s_per_byte

    def intra_s(self, offloaded: float) -> float:
        """Return T_MHA-intra (eq. 2) with `offloaded` transfers (d) per process, in seconds.

        T_L(M) + max((P - 1 - d) T_C(M), P d T_H(M)); the first term prints as T_P.
        """
        copy_s = _message_s(self.copy, self.msize_bytes)
        by_cpu_s = (self.ppn - 1 - offloaded) * self.transfer_s()
        by_network_s = self.ppn * offloaded * self.network_s(self.msize_bytes)
        return copy_s + max(by_cpu_s, by_network_s)

    def optimal_offload(self) -> Offload:
        """Return the best d: eq. 1, T_C (P - 1) / (T_H P + T_C), and its best whole neighbour."""
        cpu_s = self.transfer_s()
        network_s = self.network_s(self.msize_bytes)
        both_s = network_s * self.ppn + cpu_s
        # the share first: it is at most 1 whatever is rounded, and so d no more than there are
        continuous = cpu_s / both_s * (self.ppn - 1) if both_s > 0 else 0.0
        whole = (math.floor(continuous), math.ceil(continuous))
        best = min(whole, key=self.intra_s)
        return Offload(best, continuous, self.intra_s(best), self.intra_s(0))

    def inter_s(self, exchange: Exchange) -> float:
        """Return T_MHA-inter with the leaders' exchange by ring (eq. 7) or doubling (eq. 6).

        Phase 1 is the allgather on each node with the best whole d. Eq. 6 and 7 print it in their
        first case only; it is in both here, as the text of sec. 4.2 has it: otherwise eq. 7 would
        jump where the cases meet. Doubling is modelled for powers of two of nodes (sec. 2.2).
        """
        first_s = self.optimal_offload().time_s
        if self.nodes == 1:
            return first_s
        block = float(self.msize_bytes * self.ppn)
        broadcast_s = self.broadcast_s(block)
        step = block if exchange is Exchange.RING else 2 * block
        if broadcast_s > self.network_s(step):
            return first_s + self.network_s(block) + (self.nodes - 1) * broadcast_s
        last = block if exchange is Exchange.RING else block * self.nodes / 2
        return first_s + self.exchange_s(exchange) + self.broadcast_s(last)

    def exchange_s(self, exchange: Exchange) -> float:
        """Return phase 2 alone: eq. 3 for recursive doubling, eq. 4 for the ring, in seconds."""
        doubling = exchange is Exchange.RECURSIVE_DOUBLING
        steps = self.nodes.bit_length() - 1 if doubling else self.nodes - 1
        startups_s = self.link.latency_s * steps
        block_s = self.network_s(self.msize_bytes * self.ppn) - self.link.latency_s
        return startups_s + (self.nodes - 1) * block_s


def _message_s(link: Link, msize_bytes: float) -> float:
    """Return T_L(M) of table 3."""
    return link.latency_s + msize_bytes * link.s_per_byte


class Broadcast(StrEnum):
    """The eight broadcast algorithms of the paper (sec. 2.1)."""

    FLAT = "flat"
    LINEAR = "linear"
    PIPELINED = "pipelined"
    BINARY = "binary"
    SPLIT_BINARY = "split_binary"
    BINOMIAL = "binomial"
    SCATTER_RING_ALLGATHER = "scatter_ring_allgather"
    SCATTER_RECURSIVE_DOUBLING_ALLGATHER = "scatter_recursive_doubling_allgather"


@dataclass(frozen=True)
class Optimum:
    """The best number of groups.

    ``groups`` is the best divisor of the number of processes, 1 where groups do not pay; the
    paper's optimum, sqrt(p), need not divide p or even be whole.
    """

    groups: int
    time_s: float
    flat_time_s: float

    @property
    def gain(self) -> float:
        """Flat runtime over the best one with groups that divide the processes."""
        return self.flat_time_s / self.time_s if self.time_s > 0 else 1.0


@dataclass(frozen=True)
class BroadcastCost:
    """Runtime of one broadcast of ``msize_bytes`` among ``nprocs`` processes as a function of G.

    ``link`` is the paper's homogeneous network, with alpha as its ``latency_s`` and beta as its
    ``s_per_byte``; ``segments`` (X in the paper) only matters to the pipelined and the split-binary
    algorithm.
    """

    algorithm: Broadcast
    nprocs: int
    msize_bytes: int
    link: Link
    segments: int = 1

    def time_s(self, groups: int) -> float:
        """Return F(G), the cost with `groups` groups, which divide the processes, in seconds."""
        if groups < 1 or self.nprocs % groups:
            known = ", ".join(map(str, self.possible_groups()))
            raise say("groups-do-not-divide", groups=groups, nprocs=self.nprocs, possible=known)
        if groups in (1, self.nprocs):
            return self.flat_time_s
        return self._grouped_s(groups)

    @property
    def flat_time_s(self) -> float:
        """Cost of the algorithm without groups (sec. 2.1), in seconds."""
        if self.nprocs == 1:
            return 0.0
        return self._seconds(*_FLAT[self.algorithm](self.nprocs, self.msize_bytes, self.segments))

    def _grouped_s(self, groups: float) -> float:
        formula = _GROUPED[self.algorithm]
        return self._seconds(*formula(self.nprocs, self.msize_bytes, self.segments, groups))

    def _seconds(self, starts: float, nbytes: float) -> float:
        return starts * self.link.latency_s + nbytes * self.link.s_per_byte

    def possible_groups(self) -> list[int]:
        """Return all divisors of the number of processes, ascending."""
        small = [d for d in range(1, math.isqrt(self.nprocs) + 1) if self.nprocs % d == 0]
        return sorted({*small, *(self.nprocs // d for d in small)})

    def optimum(self) -> Optimum:
        """Return the best number of groups; of equal ones the smallest, so 1 means: leave it."""
        flat_s, least_s = self.flat_time_s, self._grouped_s(math.sqrt(self.nprocs))
        if self.nprocs == 1 or not self.minimum_inside or least_s >= flat_s:
            return Optimum(1, flat_s, flat_s)
        time_s, groups = min((self.time_s(groups), groups) for groups in self.possible_groups())
        return Optimum(groups, time_s, flat_s)

    @property
    def minimum_inside(self) -> bool:
        """Whether F has its minimum over (1, p) at sqrt(p), rather than at its ends.

        Flat, linear and pipelined always (sec. 3.1, 3.2); scatter-ring-allgather where
        alpha / beta > 2 m / p (eq. 6); the others never (sec. 3.3, 3.5, 3.6).
        """
        if self.algorithm is Broadcast.SCATTER_RING_ALLGATHER:
            return self.link.latency_s * self.nprocs > 2 * self.msize_bytes * self.link.s_per_byte
        return self.algorithm in (Broadcast.FLAT, Broadcast.LINEAR, Broadcast.PIPELINED)

    @property
    def condition(self) -> str:
        """What must hold for groups to pay, in words with this broadcast's numbers."""
        if self.algorithm is Broadcast.SCATTER_RING_ALLGATHER:
            holds = "holds" if self.minimum_inside else "does not hold"
            left = f"alpha p = {self.link.latency_s * self.nprocs:.3g} s"
            right = f"2 m beta = {2 * self.msize_bytes * self.link.s_per_byte:.3g} s"
            return f"alpha/beta > 2m/p (eq. 6) {holds}: {left}, {right}"
        if self.algorithm is Broadcast.PIPELINED:
            return (
                "X < p - 2 sqrt(p) + 2 (sec. 2.1.3 against eq. 4):"
                f" X = {self.segments}, p = {self.nprocs}"
            )
        if self.minimum_inside:
            return f"p > 2 sqrt(p) - 1, so always for p > 1 (eq. 2): p = {self.nprocs}"
        return "groups never pay for this algorithm (sec. 3.7)"


# Formulas of p processes, m bytes, X segments and G groups. Each returns what alpha and beta are
# multiplied with.
Counts = tuple[float, float]
_log2 = math.log2


def _messages(count: float, m: float, x: int = 1) -> Counts:
    """Return `count` x (alpha + m/X beta)."""
    return count, count * m / x


def _exchanges(trees: Counts, count: int, m: int) -> Counts:
    """Return `trees` and so many exchanges of half a message, each alpha + m/2 beta."""
    return trees[0] + count, trees[1] + count * m / 2


def _twice_scattered(p: int, m: int, g: float) -> float:
    return 2 * m * (2 - 1 / g - g / p)


_FLAT: dict[Broadcast, Callable[[int, int, int], Counts]] = {
    # sec. 2.1.1 and 2.1.2: (p - 1) (alpha + m beta)
    Broadcast.FLAT: lambda p, m, x: _messages(p - 1, m),
    Broadcast.LINEAR: lambda p, m, x: _messages(p - 1, m),
    # sec. 2.1.3: (X + p - 2) (alpha + m/X beta)
    Broadcast.PIPELINED: lambda p, m, x: _messages(x + p - 2, m, x),
    # sec. 2.1.4: 2 (log2(p + 1) - 1) (alpha + m beta)
    Broadcast.BINARY: lambda p, m, x: _messages(2 * (_log2(p + 1) - 1), m),
    # sec. 2.1.5 with the X segments of sec. 3.6: 2 (log2(p + 1) + X/2 - 2) (alpha + m/X beta)
    # + alpha + m/2 beta, of which sec. 3.6 is twice with p + 1 taken for p. Sec. 2.1.5 prints it
    # without X, for messages that are not segmented.
    Broadcast.SPLIT_BINARY: lambda p, m, x: _exchanges(
        _messages(max(0.0, 2 * (_log2(p + 1) + x / 2 - 2)), m, x), 1, m
    ),
    # sec. 2.1.6: log2(p) (alpha + m beta)
    Broadcast.BINOMIAL: lambda p, m, x: _messages(_log2(p), m),
    # sec. 2.1.7: (log2(p) + p - 1) alpha + 2 (p - 1)/p m beta
    Broadcast.SCATTER_RING_ALLGATHER: lambda p, m, x: (_log2(p) + p - 1, 2 * (p - 1) / p * m),
    # sec. 2.1.8: 2 log2(p) alpha + 2 (p - 1)/p m beta
    Broadcast.SCATTER_RECURSIVE_DOUBLING_ALLGATHER: lambda p, m, x: (
        2 * _log2(p),
        2 * (p - 1) / p * m,
    ),
}
_GROUPED: dict[Broadcast, Callable[[int, int, int, float], Counts]] = {
    # eq. 1: (G + p/G - 2) (alpha + m beta); eq. 2 at G = sqrt(p)
    Broadcast.FLAT: lambda p, m, x, g: _messages(g + p / g - 2, m),
    Broadcast.LINEAR: lambda p, m, x, g: _messages(g + p / g - 2, m),
    # eq. 3: (2X + G + p/G - 4) (alpha + m/X beta); eq. 4 at G = sqrt(p)
    Broadcast.PIPELINED: lambda p, m, x, g: _messages(2 * x + g + p / g - 4, m, x),
    # sec. 3.3: 2 log2(G) + 2 log2(p/G) messages, whatever G is; log2 of both for a binomial tree
    Broadcast.BINARY: lambda p, m, x, g: _messages(2 * _log2(p), m),
    Broadcast.BINOMIAL: lambda p, m, x, g: _messages(_log2(p), m),
    # sec. 3.6: 2 (log2(p) + X - 4) (alpha + m/X beta) + 2 (alpha + m/2 beta), whatever G is
    Broadcast.SPLIT_BINARY: lambda p, m, x, g: _exchanges(
        _messages(max(0.0, 2 * (_log2(p) + x - 4)), m, x), 2, m
    ),
    # eq. 5: (log2(p) + G + p/G - 2) alpha + 2 m (2 - 1/G - G/p) beta; eq. 7 at G = sqrt(p)
    Broadcast.SCATTER_RING_ALLGATHER: lambda p, m, x, g: (
        _log2(p) + g + p / g - 2,
        _twice_scattered(p, m, g),
    ),
    # sec. 3.5: 2 log2(p) alpha + 2 m (2 - 1/G - G/p) beta. The text there speaks of twice the
    # latency; its formula, used here, has the same as sec. 2.1.8.
    Broadcast.SCATTER_RECURSIVE_DOUBLING_ALLGATHER: lambda p, m, x, g: (
        2 * _log2(p),
        _twice_scattered(p, m, g),
    ),
}


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
    """One kind of cost."""

    kind: CostKind
    """what the time goes into"""
    time_s: float
    """time"""
    share: float
    """share of the whole"""


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
        raise say("no-cost-model", why=error) from error
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
    """A published design."""

    name: str
    """name"""
    time_s: float
    """time by its formula"""
    optimum: str
    """with which parameters"""


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
