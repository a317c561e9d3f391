"""Costs of collective algorithms as linear combinations of non-negative network parameters.

After Hockney a message of b bytes takes ``alpha + b * beta`` seconds (Hasanov et al., Simulation
Modelling Practice and Theory 2015, sec. 2); LogGP adds a gap between messages that one process
sends in a row. Within a node and between nodes the parameters differ, and processes that share a
network adapter slow each other down by the factor C_H: a transfer through H adapters takes
``alpha_H + C_H * M / (BW_H * H)`` (Tran et al., "Accelerating communication with multi-HCA aware
collectives in MPI", sec. 2.2).

An algorithm's cost on n instances is a matrix of amounts, (n, k): how many messages, bytes, … there
are, each to be multiplied with one of the k parameters. So costs are predicted for known
parameters, and parameters are fitted to measured times by non-negative least squares. Placement is
by blocks: rank r runs on node ``r // ppn``; a round takes as long as its slowest pair, so that it
counts as one between nodes as soon as any of its pairs is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Coefficient(StrEnum):
    """The parameters that costs are linear in, with their units."""

    SETUP = "setup_s"
    INTRA_LATENCY = "intra.latency_s"
    INTRA_GAP = "intra.gap_s"
    INTRA_BYTES = "intra.s_per_byte"
    INTER_LATENCY = "inter.latency_s"
    INTER_GAP = "inter.gap_s"
    INTER_BYTES = "inter.s_per_byte"
    INTER_CONTENDED = "inter.contended_s_per_byte"
    REDUCTION = "reduction_s_per_byte"
    COPY = "copy_s_per_byte"


COEFFICIENTS: tuple[Coefficient, ...] = tuple(Coefficient)
"""The columns of a matrix of amounts, in order."""


class RailUse(StrEnum):
    """How processes use several adapters: each is bound to one, or each uses all at once."""

    BINDING = "binding"
    SHARING = "sharing"


class Rails(NamedTuple):
    """The network adapters of a node (Tran et al., sec. 2.1)."""

    adapters: int = 1
    """adapters per node"""
    use: RailUse = RailUse.BINDING
    """sharing or binding"""


ONE_RAIL = Rails()


@dataclass(frozen=True)
class Link:
    """What one message costs: ``latency_s`` (alpha) and ``s_per_byte`` (beta) of Hockney's model.

    ``gap_s`` is LogGP's larger one of o and g: the time until a process can send the next message,
    paid instead of the latency by messages that are sent without waiting for each other.
    """

    latency_s: float
    s_per_byte: float
    gap_s: float = 0.0


@dataclass(frozen=True)
class NetworkParameters:
    """Everything that a cost depends on besides the instance and the algorithm.

    ``contention`` is c in C_H(k) = 1 + c (k - 1), the factor by which the bytes of k processes that
    send through one adapter at a time take longer: 0 for an adapter that one process cannot
    saturate, 1 for one that it can. ``setup_s`` is paid once per call, ``copy_s_per_byte`` for
    bytes that are moved within a process.
    """

    intra: Link
    inter: Link
    reduction_s_per_byte: float = 0.0
    copy_s_per_byte: float = 0.0
    setup_s: float = 0.0
    contention: float = 0.0
    rails: Rails = ONE_RAIL

    def vector(self) -> Numbers:
        """Return the value of each of `COEFFICIENTS`."""
        intra, inter = self.intra, self.inter
        within = self.setup_s, intra.latency_s, intra.gap_s, intra.s_per_byte
        contended = self.contention * inter.s_per_byte
        between = inter.latency_s, inter.gap_s, inter.s_per_byte, contended
        return np.array([*within, *between, self.reduction_s_per_byte, self.copy_s_per_byte])

    @classmethod
    def of(cls, vector: ArrayLike, rails: Rails = ONE_RAIL) -> Self:
        """Return the parameters of `vector`; without bytes between nodes no contention."""
        values = np.asarray(vector, np.float64).tolist()
        setup_s, alpha, gap_s, beta, inter_alpha, inter_gap_s, inter_beta, contended = values[:8]
        contention = contended / inter_beta if inter_beta > 0 else 0.0
        links = Link(alpha, beta, gap_s), Link(inter_alpha, inter_beta, inter_gap_s)
        reduction, copy = values[8:]
        return cls(*links, reduction, copy, setup_s, contention, rails)


@dataclass(frozen=True, eq=False)
class Instances:
    """n instances as vectors of floats (n), the adapters per node, and an algorithm's parameters.

    The methods return amounts, (n, k), of who talks to whom.
    """

    nodes: Numbers
    ppn: Numbers
    msize_bytes: Numbers
    rails: Rails = ONE_RAIL
    parameters: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike, rails: Rails = ONE_RAIL
    ) -> Self:
        """Broadcast scalars and vectors to one length."""
        vectors = (np.atleast_1d(np.asarray(v, np.float64)) for v in (nodes, ppn, msize_bytes))
        n, p, m = np.broadcast_arrays(*vectors)
        return cls(n, p, m, rails)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def nprocs(self) -> Numbers:
        """Processes, shape (n)."""
        return self.nodes * self.ppn

    @property
    def one_node(self) -> Flags:
        """Which instances run on a single node, shape (n)."""
        return np.asarray(self.nodes <= 1)

    def given(self, **parameters: int) -> Instances:
        """Return the instances with further parameters (segsize, fanout, …)."""
        return replace(self, parameters={**self.parameters, **parameters})

    def of_bytes(self, msize_bytes: Numbers) -> Instances:
        """Return the instances with other messages, and without parameters."""
        return replace(self, msize_bytes=np.asarray(msize_bytes), parameters={})

    def block(self) -> Instances:
        """Return the same for each process's block of a vector, m / p bytes."""
        return self.of_bytes(self.msize_bytes / self.nprocs)

    def amounts(self, columns: Mapping[Coefficient, ArrayLike]) -> Numbers:
        """Return the amounts of some coefficients, and none of the others."""
        result = np.zeros((len(self), len(COEFFICIENTS)))
        for coefficient, amount in columns.items():
            result[:, COEFFICIENTS.index(coefficient)] = amount
        return result

    def messages(
        self,
        within: ArrayLike = 0.0,
        bytes_within: ArrayLike = 0.0,
        between: ArrayLike = 0.0,
        bytes_between: ArrayLike = 0.0,
        senders: ArrayLike = 1.0,
        *,
        overlapping: bool = False,
    ) -> Numbers:
        """Return messages that follow one another: how many (n), and their bytes in all (n).

        `senders` (n) processes of a node send to other nodes at the same time. Bound to one of H
        adapters, ceil(k / H) of k senders share one; sharing all of them, each message is H times
        faster and all k senders are in each other's way (Tran et al., sec. 2.2). `overlapping`
        messages do not wait for each other: one latency in all, and a gap for each.
        """
        adapters = max(self.rails.adapters, 1)
        binding = self.rails.use is RailUse.BINDING
        rivals = np.asarray(senders, np.float64)
        rivals = np.maximum((np.ceil(rivals / adapters) if binding else rivals) - 1.0, 0.0)
        inter_bytes = np.asarray(bytes_between, np.float64) / (1 if binding else adapters)
        return self.amounts(
            {
                Coefficient.INTRA_LATENCY: np.minimum(within, 1.0) if overlapping else within,
                Coefficient.INTRA_GAP: within if overlapping else 0.0,
                Coefficient.INTRA_BYTES: bytes_within,
                Coefficient.INTER_LATENCY: np.minimum(between, 1.0) if overlapping else between,
                Coefficient.INTER_GAP: between if overlapping else 0.0,
                Coefficient.INTER_BYTES: inter_bytes,
                Coefficient.INTER_CONTENDED: inter_bytes * rivals,
            }
        )

    def with_arithmetic(self, sent: Numbers, times: float = 1.0) -> Numbers:
        """Return `sent` and the arithmetic on every byte that a process receives by it."""
        adapters = 1 if self.rails.use is RailUse.BINDING else max(self.rails.adapters, 1)
        within, between = (
            sent[:, COEFFICIENTS.index(c)]
            for c in (Coefficient.INTRA_BYTES, Coefficient.INTER_BYTES)
        )
        received = times * (within + between * adapters)
        return sent + self.amounts({Coefficient.REDUCTION: received})

    def aligned_on_node(self, distance: float, radix: float = 2.0) -> Flags:
        """Tell where all ranks whose numbers to base `radix` differ in one digit share a node.

        The digit is the one worth `distance`, a power of `radix`; base 2 is ``r xor distance``. So
        it is where `radix` times the distance divides the processes per node.
        """
        return np.asarray((np.remainder(self.ppn, radix * distance) == 0) | self.one_node)

    def in_turn(
        self, on_node: Flags, count: Numbers, nbytes: Numbers, senders: Numbers | float = 1.0
    ) -> Numbers:
        """Return messages after one another, within nodes where `on_node`, else between them."""
        between = ~on_node
        sides = count * on_node, nbytes * on_node, count * between, nbytes * between
        return self.messages(*sides, senders)

    def neighbours(self, rounds: Numbers, nbytes: Numbers) -> Numbers:
        """Return rounds along a ring of all ranks: one process of each node sends.

        As a round is over when its slowest pair is, all are between nodes if there are several
        (Tran et al., sec. 2.2.1, "the slowest links are the bottlenecks").
        """
        return self.in_turn(self.one_node, rounds, nbytes)

    def exchanges(self, counts: Numbers, blocks: Callable[[float], Numbers]) -> Numbers:
        """Return rounds between ranks r and ``r xor 1``, ``r xor 2``, … below `counts`.

        ``blocks(d)`` gives the bytes (n) exchanged at distance d.
        """
        result = np.zeros((len(self), len(COEFFICIENTS)))
        for distance in powers(counts):
            active = distance < counts
            senders = np.minimum(2.0 * distance, self.ppn)
            nbytes = np.where(active, blocks(distance), 0.0)
            on_node = self.aligned_on_node(distance)
            result += self.in_turn(on_node, active.astype(np.float64), nbytes, senders)
        return result

    def shifts(
        self, counts: Numbers, blocks: Callable[[float], Numbers], radix: float = 2.0
    ) -> Numbers:
        """Return rounds from rank r to ``r + d``, d = 1, radix, radix ** 2, ….

        Each has ``radix - 1`` messages, of ``blocks(d)`` bytes in all. Some rank always shifts to
        the next node, min(d, ppn) on each.
        """
        result = np.zeros((len(self), len(COEFFICIENTS)))
        for distance in powers(counts, radix):
            active = distance < counts
            reached = np.minimum(radix - 1.0, np.ceil(counts / distance) - 1.0)
            nbytes = np.where(active, blocks(distance), 0.0)
            senders = np.minimum(distance, self.ppn)
            result += self.in_turn(self.one_node, np.where(active, reached, 0.0), nbytes, senders)
        return result

    def to_everyone(self, nbytes: Numbers, *, overlapping: bool = False) -> Numbers:
        """Return a message from every process to every other, P - 1 within its node.

        Tran et al., sec. 2.2.1: ``(P - 1) (alpha_C + …) + (N - 1) P (alpha_H + …)``.
        """
        local, remote = self.ppn - 1, self.nprocs - self.ppn
        sides = local, local * nbytes, remote, remote * nbytes
        return self.messages(*sides, self.ppn, overlapping=overlapping)

    def from_root(self, count: float = 1.0, *, overlapping: bool = False) -> Numbers:
        """Return the root's messages to all others, each block in `count` messages."""
        local, remote, m = self.ppn - 1, self.nprocs - self.ppn, self.msize_bytes
        sides = count * local, local * m, count * remote, remote * m
        return self.messages(*sides, overlapping=overlapping)


CostFunction = Callable[[Instances], Numbers]
"""Maps n instances with the parameters of a configuration to amounts, (n, k)."""


def powers(counts: Numbers, radix: float = 2.0) -> Iterator[float]:
    """Yield 1, r, r ** 2, … below the largest of `counts`."""
    distance = 1.0
    while distance < counts.max(initial=0.0):
        yield distance
        distance *= radix


def ceil_log(counts: Numbers, radix: float = 2.0) -> Numbers:
    """Return the least whole r with radix ** r >= counts, exactly; 0 for 1."""
    rounds, reached = np.zeros(counts.shape), np.ones(counts.shape)
    while (short := reached < counts).any():
        rounds += short
        reached = np.where(short, reached * radix, reached)
    return rounds


def power_of_two_below(counts: Numbers) -> Numbers:
    """Return the largest power of two that is not above `counts` (at least 1)."""
    power = np.exp2(ceil_log(counts))
    return np.where(power > counts, power / 2.0, power)


def segments(msize_bytes: Numbers, segsize_bytes: int | None) -> Numbers:
    """Return X, into how many segments a message is cut: 1 without a segment size or a message."""
    if not segsize_bytes or segsize_bytes <= 0:
        return np.ones(msize_bytes.shape)
    return np.maximum(np.ceil(msize_bytes / segsize_bytes), 1.0)


def total_seconds(amounts: Numbers, network: NetworkParameters) -> Numbers:
    """Return the whole cost in seconds, shape (n)."""
    return np.asarray(amounts @ network.vector())
