"""What a file brings: default against file, in alternation, under the user's launcher.

Where which algorithm ran cannot be seen, default, file, and the rule's configuration forced by
variables take turns. Where forcing changes the runtime clearly, the file either does the same or it
does not; where it does not, timing tells nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.bench.backends import NativeBackend
from colltune.domain import Collective, Configuration, Instance
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.verify.alternating import Gain, Rounds, Turns
from colltune.verify.probe_calls import Layout
from colltune.verify.rule_status import Assessment, Evidence, RuleStatus
from colltune.verify.user_line import UserLine

_MOST_SIDES = 3
_CLEARLY = 1.15
_SAME_PART = 0.35
_UNSEEN = "which algorithm ran cannot be seen in this library"
_MOST_CELLS = 24
_LEAST_S = 10.0
_FIRST_SHARE = 0.65
_PATIENCE_S = 10.0
_OUTSIDE_S = 0.3
_INIT_SHARE = 1.3
_LEAST_TIMED_S = 0.3
_LEAST_CELL_S = 0.05
_SHARE_OF_LAUNCHES = 0.5
_ROUNDS_FOR_INTERVAL = 6
_MOST_ROUNDS = 9


@dataclass(frozen=True)
class Timed:
    """One call under the default, the file, and the forced configuration, as ratios of runtimes."""

    default_to_file: Gain
    default_to_forced: Gain


@dataclass(frozen=True)
class Forced:
    """Environments that force configurations, and which of them shows which call."""

    environments: tuple[Mapping[str, str], ...] = ()
    side_of: Mapping[Instance, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, library: str, release: str, wanted: Sequence[tuple[Instance, Configuration]]
    ) -> Forced:
        """Spread the configurations over few environments: each forces one per collective."""
        chosen: list[dict[Collective, Configuration]] = []
        side_of: dict[Instance, int] = {}
        environments: list[dict[str, str]] = []
        for instance, configuration in wanted:
            try:
                bound = with_libcolltune(LIBRARIES[library]).at(release)
                forced = bound.forced_environment(configuration)
            except LibraryError:
                continue
            for side in range(_MOST_SIDES):
                if side == len(chosen):
                    chosen.append({})
                    environments.append({})
                if chosen[side].setdefault(instance.collective, configuration) == configuration:
                    environments[side] |= forced
                    side_of[instance] = side
                    break
        return cls(tuple(environments), side_of)


def assessed(timed: Timed) -> Assessment:
    """Return what the runtimes of one call prove of its rule."""
    file, forced = timed.default_to_file, timed.default_to_forced
    told = f"with the file it takes {1 / file.ratio:.2f} of the default's time, forced"
    told += f" {1 / forced.ratio:.2f}"
    if math.isnan(forced.lower) or math.isnan(file.lower):
        return Assessment(RuleStatus.UNOBSERVED, f"{_UNSEEN}, and timing it takes more launches")
    if not _differs(forced):
        return Assessment(
            RuleStatus.UNOBSERVED, f"{_UNSEEN}, and forcing it changes the time too little"
        )
    apart = abs(math.log(file.ratio / forced.ratio)) / abs(math.log(forced.ratio))
    if apart <= _SAME_PART and _is_certain(file):
        return Assessment(RuleStatus.APPLIED, f"by timing: {told}")
    if apart >= 1 - _SAME_PART and not _is_certain(file):
        return Assessment(RuleStatus.IGNORED, f"by timing: {told}")
    return Assessment(RuleStatus.UNOBSERVED, f"{_UNSEEN}, and its time proves nothing: {told}")


def _differs(gain: Gain) -> bool:
    return _is_certain(gain) and abs(math.log(gain.ratio)) >= math.log(_CLEARLY)


def _is_certain(gain: Gain) -> bool:
    """Tell whether 1 lies outside of the interval."""
    return not math.isnan(gain.lower) and (gain.lower > 1 or gain.upper < 1)


@dataclass(frozen=True)
class Gains:
    """The speed-up of the file over the default for each instance that was measured."""

    gains: Mapping[Instance, Gain] = field(default_factory=dict)
    regressions: frozenset[Instance] = frozenset()
    timed: Mapping[Instance, Timed] = field(default_factory=dict)
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
        probe = evidence.probe
        shape = self.layout.shape_of(probe.communicator)
        if shape is None:
            return None
        return Instance(probe.call.collective, shape, probe.call.msize_bytes)

    def measure(
        self,
        instances: Sequence[Instance],
        activation: Mapping[str, str],
        forced: Forced,
        budget_s: float,
        progress: Callable[[float], None],
    ) -> Gains:
        """Measure default against file, and what looks slower a second time."""
        cells = tuple(dict.fromkeys(instances))[:_MOST_CELLS]
        if not cells:
            return Gains()
        if budget_s < _LEAST_S:
            left_s = max(0.0, budget_s)
            return Gains(notes=(f"nothing was measured: of the budget {left_s:.0f} s were left",))
        ends = time.monotonic() + budget_s
        left_out = len(set(instances)) - len(cells)
        notes = (f"{left_out} further cells were not measured",) if left_out else ()
        sides = ({}, activation, *forced.environments)
        rounds = self._turns(cells, sides, _FIRST_SHARE * budget_s, progress)
        first = _gains(rounds, cells, 1)
        timed = _timed(rounds, cells, forced)
        slower = [cell for cell, gain in first.items() if gain.is_slower]
        left_s = ends - time.monotonic()
        if not slower or left_s < _LEAST_S / 2:
            return Gains(first, frozenset(slower), timed, rounds.launches, notes)
        more = self._turns(slower, sides[:2], left_s, progress)
        again = _gains(more, slower, 1)
        certain = frozenset(cell for cell in slower if _is_slower_again(again.get(cell)))
        sure = {cell: gain for cell, gain in again.items() if not math.isnan(gain.lower)}
        return Gains(first | sure, certain, timed, rounds.launches + more.launches, notes)

    def _turns(
        self,
        cells: Sequence[Instance],
        sides: Sequence[Mapping[str, str]],
        budget_s: float,
        progress: Callable[[float], None],
    ) -> Rounds:
        backend = NativeBackend(self.installation, cache=self.work, launcher=self.line)
        # what is slow to start, once in a while, is not to be given up
        backend.around_s = _PATIENCE_S + 2 * self.launch_s
        # the benchmark's own clock begins before MPI_Init
        least_s = _INIT_SHARE * self.launch_s + _LEAST_TIMED_S + _LEAST_CELL_S * len(cells)
        rounds = affordable_rounds(2 * budget_s / len(sides), self.launch_s, least_s)
        turns = Turns(backend, self.layout.regular, self.work, _OUTSIDE_S, rounds, least_s)
        return turns.take(cells, sides, budget_s, progress)


def _gains(rounds: Rounds, cells: Sequence[Instance], side: int) -> dict[Instance, Gain]:
    """Return the default's runtime by that of `side` for what was measured under both."""
    alternation = rounds.alternation(cells, 0, side)
    return {cell: gain for cell in cells if (gain := alternation.gain([cell])) is not None}


def _timed(rounds: Rounds, cells: Sequence[Instance], forced: Forced) -> dict[Instance, Timed]:
    file = _gains(rounds, cells, 1)
    found = {}
    for number in range(len(forced.environments)):
        by_force = _gains(rounds, cells, 2 + number)
        for cell in cells:
            if forced.side_of.get(cell) == number and cell in file and cell in by_force:
                found[cell] = Timed(file[cell], by_force[cell])
    return found


def affordable_rounds(budget_s: float, launch_s: float, least_s: float) -> int:
    """Return how many pairs of launches fit: enough for an interval, more if they are cheap."""
    cheap = int(_SHARE_OF_LAUNCHES * budget_s / (2 * launch_s))
    possible = int(budget_s / (2 * (_OUTSIDE_S + least_s)))
    return max(1, min(possible, max(_ROUNDS_FOR_INTERVAL, min(_MOST_ROUNDS, cheap))))


def _is_slower_again(gain: Gain | None) -> bool:
    """Tell whether a second look agrees; few pairs are enough for that."""
    return gain is not None and (gain.is_slower or (math.isnan(gain.upper) and gain.ratio < 1))
