"""Which instances are worth measuring: expected regret saved per second."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.bench.strategies.protocol import State
from colltune.bench.strategies.surrogate import Posterior, Surrogate, coordinates
from colltune.domain import Collective, Configuration, Instance, Shape

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
NO_CELL = -1
REPETITION_SD = 0.2
FLOOR_SD = 0.01
_PRIOR_WEIGHT = 20
_MOST_INSTANCES = 400
_TARGET_NODES = 12
_DRAWS = 24
_MOST_SD = 2.0
_NEVER = 50.0
_NEAR_BEST = np.log(1.3)
_HOPELESS = np.log(3.0)
_MOST_ROWS = 400
_FIRST_VISIT_S = 0.001
_FIRST_REPS = 10
_LEAST_VARIANCE = 1e-8


@dataclass(frozen=True, eq=False)
class SurrogateState:
    """One collective's R instances and C configurations."""

    instances: tuple[Instance, ...]
    configurations: tuple[Configuration, ...]
    cell: Integers  # (R, C), indices into the state's cells; NO_CELL where there is none
    open: Flags  # (R, C)
    reps: Integers  # (R, C), repetitions so far
    log_time: Numbers  # (R, C), log of their median in seconds, NaN without any
    weight: Numbers  # (R,)
    scatter: float  # variance of the log time of one repetition
    rng: np.random.Generator  # picks among more instances than can be computed with

    @classmethod
    def of(cls, state: State, collective: Collective, rng: np.random.Generator) -> SurrogateState:
        mine = [i for i, c in enumerate(state.cells) if c.instance.collective is collective]
        rows = {i: n for n, i in enumerate(dict.fromkeys(state.cells[i].instance for i in mine))}
        names = dict.fromkeys(state.cells[i].configuration for i in mine)
        columns = {configuration: n for n, configuration in enumerate(names)}
        cell = np.full((len(rows), len(columns)), NO_CELL, np.int64)
        reps, log_time = np.zeros_like(cell), np.full(cell.shape, np.nan)
        weight = np.ones(len(rows))
        squares, freedom = REPETITION_SD**2 * _PRIOR_WEIGHT, float(_PRIOR_WEIGHT)
        for index in mine:
            at = rows[state.cells[index].instance], columns[state.cells[index].configuration]
            cell[at], weight[at[0]] = index, state.weight(index)
            logs = [math.log(t) for t in state.times_s.get(index, ()) if t > 0]
            if logs:
                reps[at], log_time[at] = len(logs), median(logs)
                mean = math.fsum(logs) / len(logs)
                squares += math.fsum((value - mean) ** 2 for value in logs)
                freedom += len(logs) - 1
        closed = np.isin(cell, list(state.closed))
        scatter = squares / freedom
        free = (cell >= 0) & ~closed
        return cls(tuple(rows), tuple(columns), cell, free, reps, log_time, weight, scatter, rng)

    @cached_property
    def numbers(self) -> Integers:
        """Nodes, ppn and message size in bytes of the instances, shape (R, 3)."""
        return np.array([[i.shape.nodes, i.shape.ppn, i.msize_bytes] for i in self.instances])

    @cached_property
    def points(self) -> Numbers:
        """Where the instances are for the surrogate, shape (R, 5)."""
        return coordinates(*self.numbers.T)

    @cached_property
    def surrogate(self) -> Surrogate:
        """The processes fitted to what was measured, or to a random part if it is much."""
        known = np.flatnonzero(self.reps.any(axis=1))
        if len(known) > _MOST_INSTANCES:
            known = np.sort(self.rng.choice(known, _MOST_INSTANCES, replace=False))
        reps = self.reps[known].sum(axis=1) / np.maximum(1, (self.reps[known] > 0).sum(axis=1))
        variances = self.scatter / np.maximum(1, reps) + FLOOR_SD**2
        residual = self.log_time[known] - self._guess[known, None]
        return Surrogate(self.points[known], residual, variances)

    @cached_property
    def believed(self) -> Posterior:
        """Log runtimes of all cells, as the surrogate sees them."""
        belief = self.surrogate.posterior(self.points)
        return Posterior(belief.mean + self._guess[:, None], belief.sd)

    @cached_property
    def time_s(self) -> Numbers:
        """Expected seconds of a repetition, shape (R, C)."""
        spread = np.minimum(self.believed.sd, 1.0)
        return np.asarray(np.exp(np.clip(self.believed.mean + spread**2 / 2, -50.0, 50.0)))

    @cached_property
    def contends(self) -> Flags:
        """Which open cells may be near the best of their instance, shape (R, C); the default is."""
        low = self.believed.mean - 2 * self.believed.sd
        default = np.array([configuration.is_default for configuration in self.configurations])
        near = low <= self._best[:, None] + _NEAR_BEST
        return np.asarray(self.open & (near | default))

    @cached_property
    def wanted(self) -> Flags:
        """Which open cells an instance's first visit should hold, shape (R, C).

        All, because learners that have not seen how slow an algorithm is take it to be as fast as
        elsewhere; save those of a configuration that from some message size on is hopeless, and
        was never measured there: it is then no candidate there either.
        """
        low = self.believed.mean - 2 * self.believed.sd
        slow = (low > self._best[:, None] + _HOPELESS) | (self.cell == NO_CELL)
        sizes = self.numbers[:, 2]
        given_up = np.zeros_like(slow)
        beyond = np.ones(slow.shape[1], np.bool_)
        for size in np.unique(sizes)[::-1]:
            at = sizes == size
            beyond &= slow[at].all(axis=0) & ~(self.reps[at] > 0).any(axis=0)
            given_up[at] = beyond
        return np.asarray(self.open & ~given_up)

    @cached_property
    def targets(self) -> Numbers:
        """Instances that may be asked for later: the box around the campaign's, shape (T, 5)."""
        nodes, ppn, msize_bytes = self.numbers.T
        low, high = int(nodes.min()), int(nodes.max())
        counts = np.arange(low, high + 1)
        if len(counts) > _TARGET_NODES:
            counts = np.unique(np.rint(np.geomspace(low, high, _TARGET_NODES)).astype(np.int64))
        box = np.array(list(product(counts, np.unique(ppn), np.unique(msize_bytes))), np.int64)
        box = box[box[:, 0] * box[:, 1] <= (nodes * ppn).max()]
        if len(box) > _MOST_INSTANCES:
            box = box[np.sort(self.rng.choice(len(box), _MOST_INSTANCES, replace=False))]
        return coordinates(*box.T)

    @cached_property
    def regret(self) -> Numbers:
        """Expected log regret of the present decisions at the targets, by weight, shape (T)."""
        belief = self.surrogate.posterior(self.targets)
        apart = ((self.targets[:, None, :] - self.points[None, :, :]) ** 2).sum(axis=2)
        nearest = apart.argmin(axis=1)
        possible = (self.open | (self.reps > 0))[nearest]
        mean = np.where(possible, belief.mean, _NEVER)
        sd = np.where(possible, np.minimum(belief.sd, _MOST_SD), 0.0)
        normals = self.rng.standard_normal((_DRAWS, mean.shape[1]))
        return np.asarray(self.weight[nearest] * Posterior(mean, sd).regret(normals))

    @cached_property
    def _best(self) -> Numbers:
        """Log time that the best cell of each instance probably does not exceed, shape (R)."""
        high = np.where(self.cell == NO_CELL, np.inf, self.believed.mean + self.believed.sd)
        return np.asarray(high.min(axis=1))

    @cached_property
    def _guess(self) -> Numbers:
        """Log seconds before anything is known: latency by tree depth, 1 GB/s, shape (R)."""
        nodes, ppn, msize_bytes = self.numbers.T
        nprocs = nodes * ppn
        blocks = nprocs if self.instances[0].collective.has_block_per_rank else 1
        return np.asarray(np.log(3e-6 * (1 + np.log2(nprocs)) + msize_bytes * blocks / 1e9))


class Candidate(NamedTuple):
    """An instance's visit: it saves ``gain`` of mean log regret and takes ``cost_s`` seconds."""

    gain: float
    cost_s: float
    row: int

    @property
    def rate(self) -> float:
        return self.gain / self.cost_s


class Acquisition:
    """Offers the instance that saves most per second; taking it lowers the worth of those near.

    A visit of all configurations at an instance x lowers the variance at a target j by the share
    r(x, j)^2, r being their posterior correlation; the expected regret at j falls with the standard
    deviation, by ``1 - sqrt(1 - r^2)``.
    """

    def __init__(self, known: SurrogateState, max_reps: int) -> None:
        self._known = known
        rows = np.flatnonzero(known.wanted.any(axis=1))
        if len(rows) > _MOST_ROWS:
            rows = np.sort(known.rng.choice(rows, _MOST_ROWS, replace=False))
        points, targets = known.points[rows], known.targets
        surrogate = known.surrogate
        self._rows = rows
        self._among = surrogate.covariance(points, points)
        self._towards = surrogate.covariance(points, targets)
        self._variance = surrogate.variance(targets)
        self._regret = known.regret / len(targets)
        self._reps = _reps(known, rows, max_reps)
        self._cost_s = (self._reps * known.time_s[rows]).sum(axis=1)
        contenders = np.maximum(1, known.contends[rows].sum(axis=1))
        done = (self._reps + known.reps[rows]) * known.contends[rows]
        after = np.maximum(1.0, done.sum(axis=1) / contenders)
        self._noise = known.scatter / after + FLOOR_SD**2

    def batch(self, among: Container[Shape] | None) -> Batch:
        """Start picking among the instances of the shapes `among` (None: all)."""
        instances = self._known.instances
        allowed = [among is None or instances[row].shape in among for row in self._rows]
        at = np.flatnonzero((self._cost_s > 0) & np.array(allowed, np.bool_))
        return Batch(
            self._known.cell[self._rows[at]],
            self._reps[at],
            self._cost_s[at],
            self._noise[at],
            self._among[np.ix_(at, at)],
            self._towards[at],
            self._variance,
            self._regret,
            np.ones(len(at), np.bool_),
        )


def _reps(known: SurrogateState, rows: Integers, max_reps: int) -> Integers:
    """Return the repetitions of a visit, shape (rows, C).

    A first visit takes up to 10 of what may be best, within a millisecond (the first few are the
    most disturbed on real machines), and one of the rest; every further one doubles those of what
    may still be best.
    """
    done = known.reps[rows]
    fitting = _FIRST_VISIT_S / np.maximum(known.time_s[rows], 1e-9)
    first = np.clip(fitting, 1, _FIRST_REPS).astype(np.int64)
    again = np.where(done > 0, np.minimum(done, np.maximum(0, max_reps - done)), first)
    fresh = known.wanted[rows] & (done == 0)
    contenders = known.contends[rows] & known.wanted[rows]
    reps = np.where(contenders, again, np.where(fresh, 1, 0))
    return np.minimum(reps, max_reps)


@dataclass(eq=False)
class Batch:
    """A selection under way among n instances, whose arrays every pick updates."""

    cells: Integers  # (n, C)
    reps: Integers  # (n, C)
    cost_s: Numbers
    noise: Numbers
    among: Numbers  # (n, n)
    towards: Numbers  # (n, T)
    variance: Numbers
    regret: Numbers
    free: Flags
    _best: Candidate | None = field(default=None, init=False)

    def best(self) -> Candidate | None:
        """Return the best candidate, None when nothing is left."""
        if self._best is None and self.free.any():
            share = self._explained(np.arange(len(self.cells)))
            gain = (1.0 - np.sqrt(1.0 - share)) @ self.regret
            rate = np.where(self.free, gain / np.maximum(self.cost_s, 1e-12), -1.0)
            at = int(rate.argmax())
            self._best = Candidate(float(gain[at]), float(self.cost_s[at]), at)
        return self._best

    def take(self, candidate: Candidate) -> dict[int, int]:
        """Take `candidate`; return the repetitions of its cells, by index."""
        at = candidate.row
        self.regret = self.regret * np.sqrt(1.0 - self._explained(np.array([at]))[0])
        total = max(self.among[at, at], _LEAST_VARIANCE) + self.noise[at]
        towards, among = self.towards[at].copy(), self.among[at].copy()
        self.variance = np.maximum(self.variance - towards**2 / total, _LEAST_VARIANCE)
        self.towards = self.towards - np.outer(among, towards) / total
        self.among = self.among - np.outer(among, among) / total
        self.free[at] = False
        self._best = None
        columns = np.flatnonzero(self.reps[at])
        return {int(self.cells[at, c]): int(self.reps[at, c]) for c in columns}

    def _explained(self, at: Integers) -> Numbers:
        own = np.maximum(self.among[at, at], _LEAST_VARIANCE) + self.noise[at]
        share = self.towards[at] ** 2 / (own[:, None] * self.variance[None, :])
        return np.minimum(share, 1.0)
