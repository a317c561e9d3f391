"""Hasanov's hierarchical transformation of broadcasts: p processes in G groups of p/G.

The message goes to one leader of each group first, and from the leaders into all groups at once,
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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from colltune.errors import DataError
from colltune.models.costs.network import Link
from colltune.text import counted


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
            raise DataError(
                f"{counted(groups, 'group')} cannot divide "
                f"{counted(self.nprocs, 'process', 'es')}; possible are "
                f"{', '.join(map(str, self.possible_groups()))}"
            )
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
