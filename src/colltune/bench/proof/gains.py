"""What a file brings: default against file, in alternation, under the user's launcher."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.bench.backends import NativeBackend
from colltune.bench.proof.communicators import Layout
from colltune.bench.proof.judging import Evidence
from colltune.bench.proof.user_line import UserLine
from colltune.bench.verify import Gain, Turns
from colltune.domain import Instance
from colltune.mpi.installation import Installation

_MOST_CELLS = 24
_LEAST_S = 10.0
_FIRST_SHARE = 0.75
_PATIENCE_S = 10.0
_OUTSIDE_S = 0.3
_INIT_SHARE = 1.3
_LEAST_TIMED_S = 0.3
_LEAST_CELL_S = 0.05
_SHARE_OF_LAUNCHES = 0.5
_ROUNDS_FOR_INTERVAL = 6
_MOST_ROUNDS = 9


@dataclass(frozen=True)
class Gains:
    """The speed-up of the file over the default for each instance that was measured.

    ``regressions`` were measured a second time, and the file was slower with certainty again.
    """

    gains: Mapping[Instance, Gain] = field(default_factory=dict)
    regressions: frozenset[Instance] = frozenset()
    launches: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measuring:
    """Measures under the user's launcher; ``launch_s`` is what a launch takes by itself."""

    installation: Installation
    line: UserLine
    layout: Layout
    work: Path
    launch_s: float

    def instance_of(self, evidence: Evidence) -> Instance | None:
        """Return what would be measured for a call; None if the benchmark cannot form it."""
        witness = evidence.witness
        shape = self.layout.shape_of(witness.communicator)
        if shape is None:
            return None
        return Instance(witness.call.collective, shape, witness.call.msize_bytes)

    def measure(
        self,
        instances: Sequence[Instance],
        activation: Mapping[str, str],
        budget_s: float,
        progress: Callable[[float], None],
    ) -> Gains:
        """Measure default against file, and what looks slower a second time."""
        cells = tuple(dict.fromkeys(instances))[:_MOST_CELLS]
        if not cells:
            return Gains()
        if budget_s < _LEAST_S:
            return Gains(notes=(f"nothing was measured: of the budget {budget_s:.0f} s were left",))
        ends = time.monotonic() + budget_s
        left_out = len(set(instances)) - len(cells)
        notes = (f"{left_out} further cells were not measured",) if left_out else ()
        first, launches = self._alternate(cells, activation, _FIRST_SHARE * budget_s, progress)
        slower = [cell for cell, gain in first.items() if is_slower(gain)]
        left_s = ends - time.monotonic()
        if not slower or left_s < _LEAST_S / 2:
            return Gains(first, frozenset(slower), launches, notes)
        again, more = self._alternate(slower, activation, left_s, progress)
        certain = frozenset(cell for cell in slower if is_slower(again.get(cell, first[cell])))
        return Gains(first | again, certain, launches + more, notes)

    def _alternate(
        self,
        cells: Sequence[Instance],
        activation: Mapping[str, str],
        budget_s: float,
        progress: Callable[[float], None],
    ) -> tuple[dict[Instance, Gain], int]:
        backend = NativeBackend(self.installation, cache=self.work, launcher=self.line)
        # what is slow to start, once in a while, is not to be given up
        backend.around_s = _PATIENCE_S + 2 * self.launch_s
        # the benchmark's own clock begins before MPI_Init
        least_s = _INIT_SHARE * self.launch_s + _LEAST_TIMED_S + _LEAST_CELL_S * len(cells)
        rounds = affordable_rounds(budget_s, self.launch_s, least_s)
        turns = Turns(backend, self.layout.regular, self.work, _OUTSIDE_S, rounds, least_s)
        found = turns.take(cells, ({}, activation), budget_s, progress).alternation(cells, 0, 1)
        gains = {cell: gain for cell in cells if (gain := found.gain([cell])) is not None}
        return gains, found.launches


def affordable_rounds(budget_s: float, launch_s: float, least_s: float) -> int:
    """Return how many pairs of launches fit: enough for an interval, more if they are cheap."""
    cheap = int(_SHARE_OF_LAUNCHES * budget_s / (2 * launch_s))
    possible = int(budget_s / (2 * (_OUTSIDE_S + least_s)))
    return max(1, min(possible, max(_ROUNDS_FOR_INTERVAL, min(_MOST_ROUNDS, cheap))))


def is_slower(gain: Gain) -> bool:
    """Tell whether the file is slower than the default with certainty."""
    return not math.isnan(gain.upper) and gain.upper < 1
