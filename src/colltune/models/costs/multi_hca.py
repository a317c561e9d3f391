"""Tran et al.'s allgather for nodes with several network adapters: MHA-intra and MHA-inter.

All formulas are from T. Tran et al., "Accelerating communication with multi-HCA aware collectives
in MPI", Concurrency Computat. Pract. Exper. 2023, doi 10.1002/cpe.7879. On a node, processes copy
their blocks through memory and hand ``d`` of their transfers to the adapters, which would be idle;
between nodes, one leader each exchanges the node's blocks while the others copy out what came.

``msize_bytes`` is the block of one process (M), ``nodes`` N, ``ppn`` P, ``adapters`` H per node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from colltune.models.costs.network import Link


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
