"""Measures default and written file in alternation, and looks at which algorithm ran.

Both sides run as a user's job would: the default without any setting, the selected one with nothing
but the written configuration in its environment.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import bdtr

from colltune.bench.backends import raw
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.protocol import Ending, LaunchPlan
from colltune.bench.schedule import Cell, Step
from colltune.domain import Configuration, Instance, Shape
from colltune.mpi import trace

_PAIRS = 7
_ROUNDS = 2
_SPARE_ROUNDS = 6
_LEAST_S = 0.2
_MORE = 1.5
_MAX_REPS = 1000
_CONFIDENCE = 0.95
_TRACE_BUDGET_S = 10.0


@dataclass(frozen=True)
class Gain:
    """Runtime of the default over that of the selected: median over pairs of launches.

    ``lower`` and ``upper`` are order statistics that hold the true median with at least 95 %
    confidence by the sign test, NaN where there are too few pairs (less than 6). Launches have
    outliers too large for a mean. The selected was the faster one in ``wins`` of the ``pairs``.
    """

    ratio: float
    lower: float
    upper: float
    pairs: int
    wins: int

    @classmethod
    def of(cls, log_ratios: Sequence[float]) -> Gain:
        ordered = sorted(log_ratios)
        n = len(ordered)
        # P(fewer than k of n pairs on one side of the median); bdtr is the binomial distribution
        outside = [2 * float(bdtr(k, n, 0.5)) for k in range(n // 2)]
        dropped = sum(p <= 1 - _CONFIDENCE for p in outside) - 1
        ends = (ordered[dropped], ordered[n - 1 - dropped]) if dropped >= 0 else (math.nan,) * 2
        ratio, lower, upper = map(math.exp, (float(np.median(ordered)), *ends))
        return cls(ratio, lower, upper, n, sum(log > 0 for log in ordered))

    @property
    def is_slower(self) -> bool:
        """Whether the whole interval lies below 1."""
        return self.upper < 1


@dataclass(frozen=True)
class Alternation:
    """Medians per pair of launches: ``log_ratios[instance]`` has one entry per pair."""

    log_ratios: Mapping[Instance, tuple[float, ...]] = field(default_factory=dict)
    timed_s: float = 0.0
    launches: int = 0

    def gain(self, instances: Sequence[Instance]) -> Gain | None:
        """Return the gain over `instances` together; None if none was measured."""
        rows = [self.log_ratios[i] for i in instances if self.log_ratios.get(i)]
        if not rows:
            return None
        pairs = min(len(row) for row in rows)
        return Gain.of(np.mean([row[:pairs] for row in rows], axis=0).tolist())


@dataclass(frozen=True)
class Rounds:
    """Medians of launches that took turns: ``medians_s[round][side]`` by instance, in seconds."""

    medians_s: tuple[tuple[Mapping[Instance, float], ...], ...]
    timed_s: float
    launches: int

    def alternation(self, instances: Sequence[Instance], over: int, under: int) -> Alternation:
        """Return how side `over` compares with side `under`, round by round."""
        ratios: dict[Instance, list[float]] = {instance: [] for instance in instances}
        for sides in self.medians_s:
            for instance in set(sides[over]) & set(sides[under]):
                ratio = math.log(sides[over][instance] / sides[under][instance])
                ratios[instance].append(ratio)
        found = {instance: tuple(logs) for instance, logs in ratios.items()}
        return Alternation(found, self.timed_s, self.launches)


@dataclass(frozen=True)
class Turns:
    """Launches of the benchmark on `shape` under several environments, which take turns."""

    backend: NativeBackend
    shape: Shape
    work: Path | None = None
    launch_s: float | None = None
    rounds: int = _PAIRS
    least_s: float = _LEAST_S

    def take(
        self,
        instances: Sequence[Instance],
        sides: Sequence[Mapping[str, str]],
        budget_s: float,
        progress: Callable[[float], None] = lambda _: None,
    ) -> Rounds:
        """Measure `instances` in rounds of one launch under each environment of `sides`."""
        ends = time.monotonic() + budget_s
        found: list[tuple[Mapping[Instance, float], ...]] = []
        timed_s, launches = 0.0, 0
        around_s = self.backend.around_s if self.launch_s is None else self.launch_s
        least_s = self.least_s
        for turn in range(self.rounds if instances else 0):
            left_s = ends - time.monotonic()
            share_s = left_s / (len(sides) * (self.rounds - turn))
            if left_s < 1.0:
                break
            medians: dict[int, Mapping[Instance, float]] = {}
            for at in range(len(sides)):
                side = (at + turn) % len(sides)
                within_s = max(least_s, share_s - around_s)
                medians[side], seconds, taken_s = self._one_side(instances, sides[side], within_s)
                if self.launch_s is not None and not math.isnan(taken_s):
                    around_s = (around_s + taken_s) / 2
                if not medians[side]:
                    least_s = _MORE * within_s  # not even MPI_Init was through
                timed_s += seconds
                launches += 1
                progress(budget_s - (ends - time.monotonic()))
            found.append(tuple(medians[side] for side in range(len(sides))))
        return Rounds(tuple(found), timed_s, launches)

    def _one_side(
        self, instances: Sequence[Instance], wanted: Mapping[str, str], within_s: float
    ) -> tuple[dict[Instance, float], float, float]:
        """Return medians, the seconds in timed loops, and those that the launch took beside."""
        cells = _as_user_cells(self.backend, instances)
        visit_s = within_s / (_ROUNDS * len(instances))
        steps = tuple(
            Step(i, _MAX_REPS, visit_s)
            for _ in range(_ROUNDS + _SPARE_ROUNDS)
            for i in range(len(cells))
        )
        plan = LaunchPlan(self.shape, cells, steps, within_s)
        with tempfile.TemporaryDirectory(prefix="colltune-", dir=self.work) as folder:
            outcome = self.backend.launch(plan, [{}] * len(cells), "verify", Path(folder), wanted)
            output = raw.read_raw(Path(folder) / "raw.txt")
        medians = {
            cell.instance: float(np.median(output.times_s[i]))
            for i, cell in enumerate(cells)
            if output.times_s.get(i)
        }
        timed_s = 0.0 if math.isnan(output.timed_s) else output.timed_s
        return medians, timed_s, outcome.seconds - output.wall_s


def _as_user_cells(backend: NativeBackend, instances: Sequence[Instance]) -> tuple[Cell, ...]:
    """Return cells that leave the decision to the library and what its environment tells it."""
    library = backend.context("").library
    return tuple(Cell(Configuration.default(library, i.collective), i) for i in instances)


def watch_algorithms(
    backend: NativeBackend,
    shape: Shape,
    instances: Sequence[Instance],
    wanted: Mapping[str, str],
    tracer: Path,
) -> dict[Instance, str]:
    """Return the function that ran for each instance under the environment `wanted`."""
    cells = _as_user_cells(backend, instances)
    steps = tuple(Step(i, 0, 0.0) for i in range(len(cells)))
    plan = LaunchPlan(shape, cells, steps, _TRACE_BUDGET_S)
    options = [*trace.launch_options(tracer), "-x", "COLLBENCH_MARK=1"]
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        outcome = backend.launch(
            plan, [{}] * len(cells), "trace", Path(folder), wanted, options=options
        )
        if raw.read_raw(Path(folder) / "raw.txt").ended != Ending.PLAN:
            return {}
    seen = {
        Instance(o.collective, shape, o.msize_bytes): o.symbol
        for o in trace.observed(outcome.stderr)
        if o.comm_size == shape.nprocs and o.symbol
    }
    return {instance: seen[instance] for instance in instances if instance in seen}
