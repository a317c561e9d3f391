"""Costs of collective algorithms as linear combinations of non-negative network parameters.

After Hockney a message of b bytes takes ``alpha + b * beta`` seconds (Hasanov et al., Simulation
Modelling Practice and Theory 2015, sec. 2); LogGP adds a gap between messages that one process
sends in a row. Within a node and between nodes the parameters differ, and processes that share a
network adapter slow each other down by the factor C_H: a transfer through H adapters takes
``alpha_H + C_H * M / (BW_H * H)`` (Tran et al., "Accelerating communication with multi-HCA aware
collectives in MPI", sec. 2.2).

An algorithm's cost is a list of `CostTerm`: how many messages, bytes, … there are, each to be
multiplied with one parameter. So costs are predicted for known parameters, and parameters are
fitted to measured times by non-negative least squares. Placement is by blocks: rank r runs on node
``r // ppn``; a round takes as long as its slowest pair, so that it counts as one between nodes as
soon as any of its pairs is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""The columns of `term_matrix`, in order."""


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

    def contention_factor(self, processes: ArrayLike) -> Numbers:
        """Return C_H for `processes` that send from one node at a time."""
        count = np.asarray(processes, np.float64)
        if self.rails.use is RailUse.BINDING:
            count = np.ceil(count / self.rails.adapters)
        return np.asarray(1.0 + self.contention * np.maximum(count - 1.0, 0.0))

    def vector(self) -> Numbers:
        """Return the value of each of `COEFFICIENTS`."""
        values = {
            Coefficient.SETUP: self.setup_s,
            Coefficient.INTRA_LATENCY: self.intra.latency_s,
            Coefficient.INTRA_GAP: self.intra.gap_s,
            Coefficient.INTRA_BYTES: self.intra.s_per_byte,
            Coefficient.INTER_LATENCY: self.inter.latency_s,
            Coefficient.INTER_GAP: self.inter.gap_s,
            Coefficient.INTER_BYTES: self.inter.s_per_byte,
            Coefficient.INTER_CONTENDED: self.contention * self.inter.s_per_byte,
            Coefficient.REDUCTION: self.reduction_s_per_byte,
            Coefficient.COPY: self.copy_s_per_byte,
        }
        return np.array([values[c] for c in COEFFICIENTS])

    @classmethod
    def of(cls, vector: ArrayLike, rails: Rails = ONE_RAIL) -> Self:
        """Return the parameters whose `vector` is the given one, up to contention without bytes.

        Contention is relative to the bytes between nodes; where those cost nothing it is 0.
        """
        at = dict(zip(COEFFICIENTS, np.asarray(vector, np.float64).tolist(), strict=True))
        beta = at[Coefficient.INTER_BYTES]
        return cls(
            Link(
                at[Coefficient.INTRA_LATENCY],
                at[Coefficient.INTRA_BYTES],
                at[Coefficient.INTRA_GAP],
            ),
            Link(at[Coefficient.INTER_LATENCY], beta, at[Coefficient.INTER_GAP]),
            at[Coefficient.REDUCTION],
            at[Coefficient.COPY],
            at[Coefficient.SETUP],
            at[Coefficient.INTER_CONTENDED] / beta if beta > 0 else 0.0,
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


@dataclass(frozen=True, eq=False)
class CostTerm:
    """``amount`` (n) messages or bytes of the part of an algorithm called ``name``.

    Times the parameter ``coefficient`` they are seconds.
    """

    name: str
    coefficient: Coefficient
    amount: Numbers


Parameters = Mapping[str, int]
CostFunction = Callable[[Instances, Parameters], Sequence[CostTerm]]
"""Maps instances and a configuration's parameters (segsize, fanout, …) to terms."""


class Traffic(NamedTuple):
    """Messages that follow one another, each (n): how many, and their bytes in all.

    ``senders`` (n) is how many processes of a node send to other nodes at the same time.
    """

    intra_messages: ArrayLike = 0.0
    intra_bytes: ArrayLike = 0.0
    inter_messages: ArrayLike = 0.0
    inter_bytes: ArrayLike = 0.0
    senders: ArrayLike = 1.0


def traffic_terms(
    instances: Instances, name: str, traffic: Traffic, *, overlapping: bool = False
) -> list[CostTerm]:
    """Return what `traffic` costs.

    Bound to one of H adapters, ceil(k / H) of k senders share one; sharing all of them, each
    message is H times faster and all k senders are in each other's way (Tran et al., sec. 2.2).

    Parameters
    ----------
    overlapping
        The messages do not wait for each other: one latency in all, and a gap for each message.
    """
    adapters = max(instances.rails.adapters, 1)
    binding = instances.rails.use is RailUse.BINDING
    senders = np.asarray(traffic.senders, np.float64)
    rivals = np.maximum((np.ceil(senders / adapters) if binding else senders) - 1.0, 0.0)
    inter_bytes = np.asarray(traffic.inter_bytes, np.float64) / (1 if binding else adapters)
    intra, inter = (np.asarray(t, np.float64) for t in (traffic[0], traffic[2]))
    within, between = f"{name}, within nodes", f"{name}, between nodes"
    amounts = [
        (within, Coefficient.INTRA_LATENCY, np.minimum(intra, 1.0) if overlapping else intra),
        (within, Coefficient.INTRA_GAP, intra if overlapping else 0.0),
        (within, Coefficient.INTRA_BYTES, traffic.intra_bytes),
        (between, Coefficient.INTER_LATENCY, np.minimum(inter, 1.0) if overlapping else inter),
        (between, Coefficient.INTER_GAP, inter if overlapping else 0.0),
        (between, Coefficient.INTER_BYTES, inter_bytes),
        (between, Coefficient.INTER_CONTENDED, inter_bytes * rivals),
    ]
    terms = [term(instances, name, coefficient, amount) for name, coefficient, amount in amounts]
    return [t for t in terms if t.amount.any()]


def merged(terms: Iterable[CostTerm]) -> list[CostTerm]:
    """Add up the terms that have name and coefficient in common, in order of appearance."""
    amounts: dict[tuple[str, Coefficient], Numbers] = {}
    for one in terms:
        key = (one.name, one.coefficient)
        amounts[key] = amounts[key] + one.amount if key in amounts else one.amount
    return [CostTerm(*key, amount) for key, amount in amounts.items()]


def term(instances: Instances, name: str, coefficient: Coefficient, amount: ArrayLike) -> CostTerm:
    """Return a term with `amount` broadcast to the instances."""
    whole = np.broadcast_to(np.asarray(amount, np.float64), len(instances)).copy()
    return CostTerm(name, coefficient, whole)


def term_matrix(instances: Instances, terms: Sequence[CostTerm]) -> Numbers:
    """Return the amounts of `terms` by coefficient: shape (n, k), columns as in `COEFFICIENTS`."""
    matrix = np.zeros((len(instances), len(COEFFICIENTS)))
    for one in terms:
        matrix[:, COEFFICIENTS.index(one.coefficient)] += one.amount
    return matrix


def bytes_received(instances: Instances, terms: Sequence[CostTerm]) -> Numbers:
    """Return the bytes that a process receives in the messages of `terms` one by one, shape (n)."""
    adapters = 1 if instances.rails.use is RailUse.BINDING else max(instances.rails.adapters, 1)
    received = np.zeros(len(instances))
    for one in terms:
        if one.coefficient is Coefficient.INTRA_BYTES:
            received += one.amount
        elif one.coefficient is Coefficient.INTER_BYTES:
            received += one.amount * adapters
    return received


def seconds(terms: Sequence[CostTerm], vector: ArrayLike) -> list[tuple[str, Numbers]]:
    """Return what each named part costs, shape (n) each, with the values of `COEFFICIENTS`.

    Terms of one name are added up; the order is that of their first appearance.
    """
    values = dict(zip(COEFFICIENTS, np.asarray(vector, np.float64).tolist(), strict=True))
    parts: dict[str, Numbers] = {}
    for one in terms:
        cost = one.amount * values[one.coefficient]
        parts[one.name] = parts[one.name] + cost if one.name in parts else cost
    return list(parts.items())


def total_seconds(
    instances: Instances, terms: Sequence[CostTerm], network: NetworkParameters
) -> Numbers:
    """Return the whole cost in seconds, shape (n)."""
    return np.asarray(term_matrix(instances, terms) @ network.vector())
