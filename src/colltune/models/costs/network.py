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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


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
_COLUMN = {coefficient: column for column, coefficient in enumerate(COEFFICIENTS)}


class RailUse(StrEnum):
    """How processes use several adapters: each is bound to one, or each uses all at once."""

    BINDING = "binding"
    SHARING = "sharing"


class Rails(NamedTuple):
    """The network adapters of a node (Tran et al., sec. 2.1)."""

    adapters: int = 1
    use: RailUse = RailUse.BINDING


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
        return np.array(
            [
                self.setup_s,
                self.intra.latency_s,
                self.intra.gap_s,
                self.intra.s_per_byte,
                self.inter.latency_s,
                self.inter.gap_s,
                self.inter.s_per_byte,
                self.contention * self.inter.s_per_byte,
                self.reduction_s_per_byte,
                self.copy_s_per_byte,
            ]
        )

    @classmethod
    def of(cls, vector: ArrayLike, rails: Rails = ONE_RAIL) -> Self:
        """Return the parameters whose `vector` is the given one, up to contention without bytes.

        Contention is relative to the bytes between nodes; where those cost nothing it is 0.
        """
        values = np.asarray(vector, np.float64).tolist()
        setup_s, latency_s, gap_s, s_per_byte = values[:4]
        latency_between_s, gap_between_s, beta, contended, reduction, copy = values[4:]
        return cls(
            Link(latency_s, s_per_byte, gap_s),
            Link(latency_between_s, beta, gap_between_s),
            reduction,
            copy,
            setup_s,
            contended / beta if beta > 0 else 0.0,
            rails,
        )


@dataclass(frozen=True, eq=False)
class Instances:
    """n instances as vectors of floats of shape (n), and the adapters per node."""

    nodes: Numbers
    ppn: Numbers
    msize_bytes: Numbers
    rails: Rails = ONE_RAIL

    @classmethod
    def of(
        cls, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike, rails: Rails = ONE_RAIL
    ) -> Self:
        """Broadcast scalars and vectors to one length."""
        vectors = (np.atleast_1d(np.asarray(v, np.float64)) for v in (nodes, ppn, msize_bytes))
        whole = np.broadcast_arrays(*vectors)
        return cls(whole[0], whole[1], whole[2], rails)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def nprocs(self) -> Numbers:
        """Processes, shape (n)."""
        return self.nodes * self.ppn

    @property
    def several_nodes(self) -> NDArray[np.bool_]:
        """Which instances run on more than one node, shape (n)."""
        return np.asarray(self.nodes > 1)


Parameters = Mapping[str, int]
CostFunction = Callable[[Instances, Parameters], Numbers]
"""Maps n instances and a configuration's parameters (segsize, fanout, …) to amounts, (n, k)."""


class Traffic(NamedTuple):
    """Messages that follow one another, each (n): how many, and their bytes in all.

    ``senders`` (n) is how many processes of a node send to other nodes at the same time.
    """

    intra_messages: ArrayLike = 0.0
    intra_bytes: ArrayLike = 0.0
    inter_messages: ArrayLike = 0.0
    inter_bytes: ArrayLike = 0.0
    senders: ArrayLike = 1.0


def amounts(instances: Instances, columns: Mapping[Coefficient, ArrayLike]) -> Numbers:
    """Return the amounts of some coefficients, and none of the others, (n, k)."""
    result = np.zeros((len(instances), len(COEFFICIENTS)))
    for coefficient, amount in columns.items():
        result[:, _COLUMN[coefficient]] = amount
    return result


def messages(instances: Instances, traffic: Traffic, *, overlapping: bool = False) -> Numbers:
    """Return the amounts of `traffic`, (n, k).

    Bound to one of H adapters, ceil(k / H) of k senders share one; sharing all of them, each
    message is H times faster and all k senders are in each other's way (Tran et al., sec. 2.2).
    `overlapping` messages do not wait for each other: one latency in all, and a gap for each.
    """
    adapters = max(instances.rails.adapters, 1)
    binding = instances.rails.use is RailUse.BINDING
    senders = np.asarray(traffic.senders, np.float64)
    rivals = np.maximum((np.ceil(senders / adapters) if binding else senders) - 1.0, 0.0)
    inter_bytes = np.asarray(traffic.inter_bytes, np.float64) / (1 if binding else adapters)
    intra, inter = traffic.intra_messages, traffic.inter_messages
    return amounts(
        instances,
        {
            Coefficient.INTRA_LATENCY: np.minimum(intra, 1.0) if overlapping else intra,
            Coefficient.INTRA_GAP: intra if overlapping else 0.0,
            Coefficient.INTRA_BYTES: traffic.intra_bytes,
            Coefficient.INTER_LATENCY: np.minimum(inter, 1.0) if overlapping else inter,
            Coefficient.INTER_GAP: inter if overlapping else 0.0,
            Coefficient.INTER_BYTES: inter_bytes,
            Coefficient.INTER_CONTENDED: inter_bytes * rivals,
        },
    )


def bytes_received(instances: Instances, sent: Numbers) -> Numbers:
    """Return the bytes that a process receives in messages of the amounts `sent`, shape (n)."""
    adapters = 1 if instances.rails.use is RailUse.BINDING else max(instances.rails.adapters, 1)
    within, between = (_COLUMN[c] for c in (Coefficient.INTRA_BYTES, Coefficient.INTER_BYTES))
    return np.asarray(sent[:, within] + sent[:, between] * adapters)


def with_arithmetic(instances: Instances, sent: Numbers, times: float = 1.0) -> Numbers:
    """Return the amounts `sent` and the arithmetic on every byte that they bring, so many times."""
    received = times * bytes_received(instances, sent)
    return sent + amounts(instances, {Coefficient.REDUCTION: received})


def total_seconds(amounts: Numbers, network: NetworkParameters) -> Numbers:
    """Return the whole cost in seconds, shape (n)."""
    return np.asarray(amounts @ network.vector())
