"""What a file brings: default against file, in alternation, under the user's launcher.

Both sides run as a user's job would: the default without any setting, the other with nothing but
the file's activation in its environment. Where which algorithm ran cannot be seen, the rule's
configuration, forced by variables, takes a turn, too. Where forcing changes the runtime clearly,
the file either does the same or it does not; where it does not, timing tells nothing.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.bench.backends import raw
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.protocol import LaunchPlan, barriers_before
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Collective, Configuration, Instance
from colltune.errors import LibraryError
from colltune.evidence.launches import (
    ALPHA,
    Noise,
    Sums,
    at_one_look,
    chance_of_slower,
    launch_gain,
    pooled,
    rejected,
)
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.text import UNPRINTED, computed, counted
from colltune.verify.probe_calls import JobLayout, ProbeCall
from colltune.verify.user_line import UserLine

_MOST_SIDES = 3
_MOST_CELLS = 24
_LEAST_S = 10.0
_PATIENCE_S = 10.0
_OUTSIDE_S = 0.3
_INIT_SHARE = 1.3
_LEAST_TIMED_S = 0.3
_LEAST_CELL_S = 0.05
_SHARE_OF_LAUNCHES = 0.5
_USUAL_ROUNDS = 6
_MOST_ROUNDS = 9
_VISITS, _SPARE_VISITS = 2, 6
_LEAST_ROUND_S = 1.0
_MORE = 1.5
_MAX_REPS = 1000


@dataclass(frozen=True)
class Gain:
    """Runtime of the default over that of the file, in pairs of launches that follow each other.

    ``noise`` is what the other cells of the launches tell.
    """

    sums: Sums = field(metadata=UNPRINTED)
    noise: Noise = field(metadata=UNPRINTED)

    @computed
    def ratio(self) -> float:
        """Default's runtime over the file's."""
        return math.exp(self.sums.log)

    @computed
    def pairs(self) -> int:
        """Launches of default and file in alternation."""
        return self.sums.launches

    @computed
    def lower(self) -> float | None:
        """Lower end of the 95 % interval; null: a single pair."""
        ends = self.interval()
        return ends and math.exp(ends[0])

    @computed
    def upper(self) -> float | None:
        """Upper end of the 95 % interval; null: a single pair."""
        ends = self.interval()
        return ends and math.exp(ends[1])

    def interval(self, level: float = ALPHA) -> tuple[float, float] | None:
        """Return the ends of the interval of the log gain, None for a single pair."""
        found = at_one_look(self.sums, self.noise, level)
        return found and (found.lower, found.upper)


Times = Mapping[Instance, Sequence[float]]
"""Of a launch, in seconds."""


def gains_of(
    rounds: Sequence[Sequence[Times]], instances: Sequence[Instance], side: int
) -> dict[Instance, Gain]:
    """Return the first side's runtime by that of `side` for what was measured under both.

    Each of `rounds` has a launch for each side.
    """

    def of(instance: Instance) -> Sums | None:
        pairs = ((sides[0].get(instance, ()), sides[side].get(instance, ())) for sides in rounds)
        found = (launch_gain([default], [other]) for default, other in pairs)
        return Sums.of(gain for gain in found if gain is not None)

    sums = {instance: told for instance in instances if (told := of(instance)) is not None}
    return {
        instance: Gain(own, pooled([[told for at, told in sums.items() if at != instance]]))
        for instance, own in sums.items()
    }


def regressions(gains: Mapping[Instance, Gain]) -> frozenset[Instance]:
    """Return what is slower with the file: any of it wrongly in at most 5 % of runs."""
    chances = {at: chance_of_slower(gain.sums, gain.noise) for at, gain in gains.items()}
    return frozenset(rejected({at: p for at, p in chances.items() if p is not None}))


@dataclass(frozen=True)
class Timed:
    """One call under the default, the file, and the forced configuration, as ratios of runtimes."""

    default_to_file: Gain
    default_to_forced: Gain


@dataclass(frozen=True)
class ForcedEnvironments:
    """Environments that force configurations, and which of them shows which call."""

    environments: tuple[Mapping[str, str], ...] = ()
    side_of: Mapping[Instance, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, library: str, release: str, wanted: Sequence[tuple[Instance, Configuration]]
    ) -> ForcedEnvironments:
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


@dataclass(frozen=True)
class Gains:
    """The speed-up of the file over the default for each instance that was measured."""

    gains: Mapping[Instance, Gain] = field(default_factory=dict)
    regressions: frozenset[Instance] = frozenset()
    timed: Mapping[Instance, Timed] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measuring:
    """Measures under the user's launcher; ``launch_s`` is what a launch takes by itself."""

    installation: Installation
    line: UserLine
    layout: JobLayout
    work: Path
    launch_s: float

    def instance_of(self, probe: ProbeCall) -> Instance | None:
        """Return what would be measured for a call; None if the benchmark cannot form it."""
        shape = self.layout.shape_of(probe.communicator)
        if shape is None:
            return None
        return Instance(probe.call.collective, shape, probe.call.msize_bytes)

    def measure(
        self,
        instances: Sequence[Instance],
        activation: Mapping[str, str],
        forced: ForcedEnvironments,
        budget_s: float,
        progress: Callable[[float], None],
    ) -> Gains:
        """Measure default against file."""
        cells = tuple(dict.fromkeys(instances))[:_MOST_CELLS]
        if not cells:
            return Gains()
        if budget_s < _LEAST_S:
            left_s = max(0.0, budget_s)
            return Gains(notes=(f"nothing was measured: {left_s:.0f} s of the budget were left",))
        left_out = len(set(instances)) - len(cells)
        notes = (f"{counted(left_out, 'further cell')} not measured",) if left_out else ()
        sides = ({}, activation, *forced.environments)
        rounds = self._rounds(cells, sides, budget_s, progress)
        gains = gains_of(rounds, cells, 1)
        return Gains(gains, regressions(gains), _timed(rounds, cells, forced), notes)

    def _rounds(
        self,
        cells: Sequence[Instance],
        sides: Sequence[Mapping[str, str]],
        budget_s: float,
        progress: Callable[[float], None],
    ) -> list[list[Times]]:
        """Measure in rounds of one launch under each environment of `sides`, which take turns."""
        backend = NativeBackend(self.installation, cache=self.work, launcher=self.line)
        # what is slow to start, once in a while, is not to be given up
        backend.around_s = _PATIENCE_S + 2 * self.launch_s
        # the benchmark's own clock begins before MPI_Init
        least_s = _INIT_SHARE * self.launch_s + _LEAST_TIMED_S + _LEAST_CELL_S * len(cells)
        n_rounds = affordable_rounds(2 * budget_s / len(sides), self.launch_s, least_s)
        ends = time.monotonic() + budget_s
        around_s = _OUTSIDE_S
        rounds: list[list[Times]] = []
        for turn in range(n_rounds):
            left_s = ends - time.monotonic()
            if left_s < _LEAST_ROUND_S:
                break
            share_s = left_s / (len(sides) * (n_rounds - turn))
            times: dict[int, Times] = {}
            for at in range(len(sides)):
                side = (at + turn) % len(sides)
                within_s = max(least_s, share_s - around_s)
                times[side], taken_s = self._one_side(backend, cells, sides[side], within_s, turn)
                if not math.isnan(taken_s):
                    around_s = (around_s + taken_s) / 2
                if not times[side]:
                    least_s = _MORE * within_s  # not even MPI_Init was through
                progress(budget_s - (ends - time.monotonic()))
            rounds.append([times[side] for side in range(len(sides))])
        return rounds

    def _one_side(
        self,
        backend: NativeBackend,
        instances: Sequence[Instance],
        wanted: Mapping[str, str],
        within_s: float,
        turn: int,
    ) -> tuple[Times, float]:
        """Return times, and the seconds that the launch took beside its timed loops."""
        # the decision is left to the library, and to what its environment tells it
        library = self.installation.library
        cells = tuple(Cell(Configuration.default(library, i.collective), i) for i in instances)
        visit = (_MAX_REPS, within_s / (_VISITS * len(instances)))
        visits = range(_VISITS + _SPARE_VISITS)
        steps = tuple(ScheduleStep(i, *visit) for _ in visits for i in range(len(cells)))
        shape = self.layout.regular
        barriers = barriers_before(backend, shape, turn)
        plan = LaunchPlan(shape, cells, steps, within_s, barriers=barriers)
        # the launch's first process must see the folder
        with tempfile.TemporaryDirectory(prefix="colltune-", dir=self.work) as folder:
            outcome = backend.launch(plan, [{}] * len(cells), "verify", Path(folder), wanted)
            output = raw.read_raw(Path(folder) / "raw.txt")
        times = {cell.instance: output.times_s.get(i, ()) for i, cell in enumerate(cells)}
        return {
            at: told for at, told in times.items() if len(told)
        }, outcome.seconds - output.wall_s


def _timed(
    rounds: Sequence[Sequence[Times]], cells: Sequence[Instance], forced: ForcedEnvironments
) -> dict[Instance, Timed]:
    file = gains_of(rounds, cells, 1)
    found = {}
    for number in range(len(forced.environments)):
        by_force = gains_of(rounds, cells, 2 + number)
        for cell in cells:
            if forced.side_of.get(cell) == number and cell in file and cell in by_force:
                found[cell] = Timed(file[cell], by_force[cell])
    return found


def affordable_rounds(budget_s: float, launch_s: float, least_s: float) -> int:
    """Return how many pairs of launches fit: the usual number, more if they are cheap."""
    cheap = int(_SHARE_OF_LAUNCHES * budget_s / (2 * launch_s))
    possible = int(budget_s / (2 * (_OUTSIDE_S + least_s)))
    return max(1, min(possible, max(_USUAL_ROUNDS, min(_MOST_ROUNDS, cheap))))
