"""Which instances are worth measuring: expected regret saved per second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.bench.strategies.knowledge import FLOOR_SD, Knowledge

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MOST_ROWS = 400
_FIRST_VISIT_S = 0.001
_FIRST_REPS = 10
_LEAST_VARIANCE = 1e-8


class Offer(NamedTuple):
    """An instance's visit: it saves ``gain`` of mean log regret and takes ``cost_s`` seconds."""

    gain: float
    cost_s: float
    row: int

    @property
    def rate(self) -> float:
        """Regret saved per second."""
        return self.gain / self.cost_s


class Worth:
    """Offers the instance that saves most per second; taking it lowers the worth of those near.

    A visit of all configurations at an instance x lowers the variance at a target j by the share
    r(x, j)^2, r being their posterior correlation; the expected regret at j falls with the standard
    deviation, by ``1 - sqrt(1 - r^2)``.
    """

    def __init__(self, knowledge: Knowledge, max_reps: int) -> None:
        self._knowledge = knowledge
        rows = np.flatnonzero(knowledge.wanted.any(axis=1))
        if len(rows) > _MOST_ROWS:
            rows = np.sort(knowledge.rng.choice(rows, _MOST_ROWS, replace=False))
        points, targets = knowledge.points[rows], knowledge.targets
        surrogate = knowledge.surrogate
        self._rows = rows
        self._among = surrogate.covariance(points, points)
        self._towards = surrogate.covariance(points, targets)
        self._variance = surrogate.variance(targets)
        self._regret = knowledge.regret / len(targets)
        self._reps = _reps(knowledge, rows, max_reps)
        self._cost_s = (self._reps * knowledge.time_s[rows]).sum(axis=1)
        contenders = np.maximum(1, knowledge.contends[rows].sum(axis=1))
        done = (self._reps + knowledge.reps[rows]) * knowledge.contends[rows]
        after = np.maximum(1.0, done.sum(axis=1) / contenders)
        self._noise = knowledge.scatter / after + FLOOR_SD**2

    def picks(self, allowed: Flags | None = None) -> Picks:
        """Start picking among the instances that are `allowed` (R), by default all."""
        free = self._cost_s > 0
        if allowed is not None:
            free = free & allowed[self._rows]
        at = np.flatnonzero(free)
        return Picks(
            self._rows[at],
            self._reps[at],
            self._cost_s[at],
            self._noise[at],
            self._among[np.ix_(at, at)],
            self._towards[at],
            self._variance,
            self._regret,
            np.ones(len(at), np.bool_),
        )


def _reps(knowledge: Knowledge, rows: Integers, max_reps: int) -> Integers:
    """Return the repetitions of a visit, shape (rows, C).

    A first visit takes up to 10 of what may be best, within a millisecond (the first few are the
    most disturbed on real machines), and one of the rest; every further one doubles those of what
    may still be best.
    """
    done = knowledge.reps[rows]
    fitting = _FIRST_VISIT_S / np.maximum(knowledge.time_s[rows], 1e-9)
    first = np.clip(fitting, 1, _FIRST_REPS).astype(np.int64)
    again = np.where(done > 0, np.minimum(done, np.maximum(0, max_reps - done)), first)
    fresh = knowledge.wanted[rows] & (done == 0)
    contenders = knowledge.contends[rows] & knowledge.wanted[rows]
    reps = np.where(contenders, again, np.where(fresh, 1, 0))
    return np.minimum(reps, max_reps)


@dataclass(eq=False)
class Picks:
    """A selection under way among n instances; arrays as in `Worth`, updated by every pick."""

    rows: Integers
    reps: Integers
    cost_s: Numbers
    noise: Numbers
    among: Numbers
    towards: Numbers
    variance: Numbers
    regret: Numbers
    free: Flags
    _offer: Offer | None = field(default=None, init=False)

    def best(self) -> Offer | None:
        """Return the best offer, None when nothing is left."""
        if self._offer is None and self.free.any():
            share = self._explained(np.arange(len(self.rows)))
            gain = (1.0 - np.sqrt(1.0 - share)) @ self.regret
            rate = np.where(self.free, gain / np.maximum(self.cost_s, 1e-12), -1.0)
            at = int(rate.argmax())
            self._offer = Offer(float(gain[at]), float(self.cost_s[at]), at)
        return self._offer

    def take(self, offer: Offer) -> list[tuple[int, int, int]]:
        """Take `offer`; return row, column and repetitions of its cells."""
        at = offer.row
        self.regret = self.regret * np.sqrt(1.0 - self._explained(np.array([at]))[0])
        total = max(self.among[at, at], _LEAST_VARIANCE) + self.noise[at]
        towards, among = self.towards[at].copy(), self.among[at].copy()
        self.variance = np.maximum(self.variance - towards**2 / total, _LEAST_VARIANCE)
        self.towards = self.towards - np.outer(among, towards) / total
        self.among = self.among - np.outer(among, among) / total
        self.free[at] = False
        self._offer = None
        row, columns = int(self.rows[at]), np.flatnonzero(self.reps[at])
        return [(row, int(c), int(self.reps[at, c])) for c in columns]

    def _explained(self, at: Integers) -> Numbers:
        own = np.maximum(self.among[at, at], _LEAST_VARIANCE) + self.noise[at]
        share = self.towards[at] ** 2 / (own[:, None] * self.variance[None, :])
        return np.minimum(share, 1.0)
