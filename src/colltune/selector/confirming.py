"""Whether what is predicted to be fastest proves faster than the default when both are measured.

A proposal and its nearest runners-up are measured beside the default, in turns within a launch, in
two launches at least: what one of them tells may be its own luck. `colltune.evidence.launches`
tells how log gains and their noise are estimated. After each launch the candidates that are clearly
behind are dropped. A configuration is

* *faster* if the 95 % interval of its gain lies above 1;
* *no faster* if it lies below 1.01.

Else another launch tells more, up to six of them. Of several that are faster that one wins whose
interval has the highest lower end. What has not proved faster in the end is withdrawn.

What wins at a size is used for the sizes around it, as far as it proved faster at the neighbouring
size as well, or the default is known to run there as it does here. Else it begins, or ends, at the
size that was measured.

What a record of before rests on is added to what is measured on a later occasion. What it confirmed
stays so until it proves slower, by the new launches alone or together with those of before.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.evidence.launches import (
    LOOKS,
    MACHINE,
    GainInterval,
    LaunchGain,
    LaunchVerdict,
    Noise,
    Sums,
    chance_of_proof,
    interval,
    launch_gain,
    launches_to_prove,
    leading,
    likeness,
    pooled,
    shrunk,
    verdict,
)
from colltune.models.confirmations import Confirmation
from colltune.selector.argmin import ModelSelector
from colltune.text import UNPRINTED, computed

ROUNDS = 5
"""Turns of a launch: as many parts of a cell's repetitions are compared one by one."""
MOST_LAUNCHES = LOOKS[-1]
MOST_CANDIDATES = 3
_LEAST_STAKE = 1e-3
_LEAST_PROPOSED = -0.5
"""Log gain that is predicted for what is measured, at least. On real machines a tenth of all that
can be gained is predicted to be slower than the default.
"""
_PREDICTED_SD = 0.1
MOST_REPS, TURN_S = 20, 0.005
"""How often, and for how long, a call is repeated in a turn at most."""
_SLOW_S = 0.02
_SLOW_ROUNDS = 2
_MOST_TIMES = 4
_REACH = 2
_CUT_SHORT = 0.75

Cell = tuple[Configuration, Instance]
Times = Mapping[Cell, Mapping[str, Sequence[float]]]
"""Repetitions in seconds of a configuration on an instance, in order, by the launch's name."""


@dataclass(frozen=True)
class ContestedInstance:
    """An instance whose decision is to be proved.

    ``before`` is what was found on earlier occasions. The default is known to run as at
    ``instance`` from ``alike`` on to its end; None: nothing is known.
    """

    instance: Instance
    default: Configuration
    """id of the library's own decision"""
    candidates: tuple[Configuration, ...]
    """what is compared with it, the proposal first"""
    first_bytes: int
    """smallest message that they stand for"""
    last_bytes: int | None
    """largest one; null: no end"""
    gain: float
    """predicted runtime of the default over that of the proposal"""
    time_s: float
    """predicted runtime of the default"""
    followed: bool = False
    """whether a prediction is in force there if nothing is measured"""
    weight: float = 1.0
    """how much the shape matters"""
    before: Confirmation | None = field(default=None, metadata=UNPRINTED)
    alike: tuple[int, int | None] | None = field(default=None, metadata=UNPRINTED)

    @property
    def shape(self) -> Shape:
        return self.instance.shape

    @property
    def collective(self) -> Collective:
        return self.instance.collective

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple((c, self.instance) for c in (self.default, *self.candidates))


@dataclass(frozen=True)
class CandidateGain:
    """What was measured of a candidate: its log gains over the default, and their noise.

    ``found`` is its interval, None after a single launch; ``expected`` the log gain that is to be
    expected again, given all that was measured in the same run.
    """

    sums: Sums = field(metadata=UNPRINTED)
    noise: Noise = field(metadata=UNPRINTED)
    found: GainInterval | None = field(metadata=UNPRINTED)
    expected: float = field(metadata=UNPRINTED)

    @computed
    def ratio(self) -> float:
        """Measured ratio that is to be expected again."""
        return math.exp(self.expected)

    @computed
    def lower(self) -> float | None:
        """Lower end of its 95 % interval; null: a single launch."""
        return math.exp(self.found.lower) if self.found else None

    @computed
    def upper(self) -> float | None:
        """Upper end of its 95 % interval."""
        return math.exp(self.found.upper) if self.found else None

    @computed
    def launches(self) -> int:
        """Launches in which it was measured."""
        return self.sums.launches

    @property
    def text(self) -> str:
        return f"{self.ratio:.2f}x" + (
            f" ({self.lower:.2f} to {self.upper:.2f})" if self.found else ""
        )


@dataclass(frozen=True)
class ContestState:
    """What is known of a contest; ``sums`` of each candidate."""

    contest: ContestedInstance
    """what is to be proved"""
    status: Status
    """confirmed, withdrawn, or predicted where no verdict is possible yet"""
    best: Configuration | None
    """id of what was measured to be the fastest; null: nothing was measured, or all failed"""
    gain: CandidateGain | None
    """what it gains over the default"""
    open_candidates: tuple[Configuration, ...]
    """ids of what another launch is worth while for"""
    sums: Mapping[Configuration, Sums] = field(default_factory=dict, metadata=UNPRINTED)
    proved: tuple[Configuration, ...] = ()
    """ids of what proved faster"""
    held: tuple[int, int | None] | None = field(default=None, metadata=UNPRINTED)

    @computed
    def first_bytes(self) -> int:
        """Smallest message that it holds for."""
        return self.held[0] if self.held else self.contest.first_bytes

    @computed
    def last_bytes(self) -> int | None:
        """Largest message that it holds for; null: no end."""
        return self.held[1] if self.held else self.contest.last_bytes

    @property
    def is_open(self) -> bool:
        """Whether another launch is worth while."""
        return bool(self.open_candidates)

    def turns(self, time_s: float) -> int:
        """Return how many turns the next launch gives to calls of `time_s`."""
        inside = self.gain.sums.inside if self.gain else 0.0
        scatter = 1.0 if math.isnan(inside) else inside / MACHINE.sd**2
        times = min(_MOST_TIMES, max(1, math.ceil(scatter)))
        return times * (ROUNDS if time_s <= _SLOW_S else _SLOW_ROUNDS)

    @property
    def launches_left(self) -> int:
        """How many more launches a proof takes, if what was measured so far is right."""
        if self.gain is None:
            return LOOKS[0]
        needed = launches_to_prove(self.gain.sums.log, self.gain.noise)
        return max(1, (needed or MOST_LAUNCHES) - self.gain.launches)

    @computed
    def configuration(self) -> Configuration:
        """Id of what is used: the winner, or the default where nothing proved faster."""
        return self.best if self.status is Status.CONFIRMED and self.best else self.contest.default

    @property
    def value(self) -> float:
        """How much measuring it brings: log gain x the chance of it x weight."""
        contest = self.contest
        if self.gain is None:
            # about what is gained since losses are withdrawn, or not lost if it is followed
            scaled = math.log(contest.gain) / _PREDICTED_SD * (-1.0 if contest.followed else 1.0)
            return contest.weight * _PREDICTED_SD * float(np.logaddexp(0.0, scaled))
        chance = chance_of_proof(self.gain.sums, self.gain.noise)
        return contest.weight * max(self.gain.sums.log, _LEAST_STAKE) * chance


def worth_measuring(
    judgements: Iterable[ContestState],
    seconds: Callable[[ContestState], float],
    limit_s: float,
    *,
    spent_s: float = 0.0,
    always_one: bool = False,
) -> list[ContestState]:
    """Return what fits into `limit_s`, most worth per second first, `always_one` at least."""
    timed = [(judgement, seconds(judgement)) for judgement in judgements if judgement.is_open]
    timed.sort(key=lambda pair: pair[0].value / pair[1] if pair[1] else 0.0, reverse=True)
    found: list[ContestState] = []
    for judgement, needed_s in timed:
        if spent_s + needed_s <= limit_s or (always_one and not found):
            spent_s += needed_s
            found.append(judgement)
    return found


def judge(
    contests: Sequence[ContestedInstance],
    times: Times,
    failed: Collection[Cell] = frozenset(),
    closed: Collection[Cell] = frozenset(),
) -> list[ContestState]:
    """Return what `times` tell of each contest; what is `closed` is not measured any more."""
    gains = [
        {cell: _gains(times.get(default, {}), times.get(cell, {})) for cell in candidates}
        for contest in contests
        for default, *candidates in [contest.cells]
    ]
    known = [
        _ContestKnown.of(
            contest, {cell: found for cell, found in own.items() if cell not in failed}
        )
        for contest, own in zip(contests, gains, strict=True)
    ]
    alike = likeness(
        [{launch: gain.log for launch, gain in found.items()} for found in own.values()]
        for own in gains
    )
    noises = [noise._replace(alike=alike) for noise in _noises(known)]
    measured = [
        (cell, found, noise)
        for one, noise in zip(known, noises, strict=True)
        for cell, found in one.sums.items()
    ]
    again = shrunk([(found, noise) for _, found, noise in measured])
    expected = {cell: log for (cell, _, _), log in zip(measured, again, strict=True)}
    return _held(
        [
            _judged(one, noise, expected, failed, closed)
            for one, noise in zip(known, noises, strict=True)
        ]
    )


def _held(judgements: Sequence[ContestState]) -> list[ContestState]:
    """Return them with what is confirmed cut to where it holds."""
    begins = {(*_place(one), one.contest.first_bytes): one for one in judgements}
    ends = {(*_place(one), one.contest.last_bytes): one for one in judgements}

    def cut(one: ContestState) -> ContestState:
        contest, size = one.contest, one.contest.instance.msize_bytes
        first, last = contest.first_bytes, contest.last_bytes
        after = None if last is None else begins.get((*_place(one), last + 1))
        alike_first, alike_last = contest.alike or (size, size)
        if not _holds_towards(ends.get((*_place(one), first - 1)), one, alike_first <= first):
            first = size
        is_alike = alike_last is None or (last is not None and alike_last >= last)
        if not _holds_towards(after, one, is_alike):
            last = size
        return replace(one, held=(first, last))

    return [cut(one) if one.status is Status.CONFIRMED else one for one in judgements]


def _place(one: ContestState) -> tuple[Collective, Shape]:
    return one.contest.collective, one.contest.shape


def _holds_towards(neighbour: ContestState | None, one: ContestState, is_alike: bool) -> bool:
    """Tell whether the winner still gains halfway to the neighbouring size.

    ``is_alike``: the default is known to run there as it does here.
    """
    assert one.best is not None
    if neighbour is None:
        return is_alike
    if one.best in neighbour.proved:
        return True
    there = neighbour.sums.get(one.best)
    return is_alike and (there is None or there.log + one.sums[one.best].log > 0)


@dataclass(frozen=True)
class _ContestKnown:
    """What is known of a contest: ``fresh`` of this occasion, ``sums`` with those before."""

    contest: ContestedInstance
    fresh: Mapping[Cell, Sums]
    sums: Mapping[Cell, Sums]

    @classmethod
    def of(
        cls, contest: ContestedInstance, gains: Mapping[Cell, Mapping[str, LaunchGain]]
    ) -> _ContestKnown:
        told = {cell: Sums.of(found.values()) for cell, found in gains.items()}
        fresh = {cell: found for cell, found in told.items() if found}
        sums = dict(fresh)
        for configuration, found in contest.before.sums if contest.before else ():
            cell = (configuration, contest.instance)
            if cell in gains:
                sums[cell] = found.plus(fresh[cell]) if cell in fresh else found
        return cls(contest, fresh, sums)

    def interval(self, cell: Cell, noise: Noise) -> GainInterval | None:
        """Return what holds the gain of `cell`; what it was confirmed by still holds with it."""
        found, before = self._of_all(cell, noise), self.contest.before
        if before is None or found is None or before.confirmed != cell[0]:
            return found
        assert before.lower is not None
        assert before.upper is not None
        lower = max(found.lower, math.log(before.lower))
        upper = min(found.upper, math.log(before.upper))
        alone = verdict(interval(self.fresh.get(cell), noise, sequence=True))
        if lower >= upper or alone is LaunchVerdict.SLOWER:
            return found
        return GainInterval(min(max(found.log, lower), upper), lower, upper, found.launches)

    def _of_all(self, cell: Cell, noise: Noise) -> GainInterval | None:
        candidates, is_later = len(self.contest.candidates), self.contest.before is not None
        return interval(self.sums[cell], noise, candidates=candidates, sequence=is_later)

    def is_measured_enough(self, cell: Cell, noise: Noise) -> bool:
        """Tell whether `cell` is decided, on a later occasion by launches of that one, too."""
        fresh = self.fresh[cell].launches if cell in self.fresh else 0
        told = cell in self.sums and verdict(self._of_all(cell, noise))
        is_told = told not in (False, LaunchVerdict.OPEN, LaunchVerdict.NOT_COMPARED)
        least = 0 if self.contest.before is None else LOOKS[0]
        return fresh >= MOST_LAUNCHES or (is_told and fresh >= least)


def _noises(known: Sequence[_ContestKnown]) -> list[Noise]:
    """Return the noise of each contest, by what all other contests in the same launches tell."""
    by_shape: dict[Shape, list[int]] = defaultdict(list)
    for number, one in enumerate(known):
        by_shape[one.contest.shape].append(number)
    # a change between two occasions is no noise
    own = [list((one.fresh or one.sums).values()) for one in known]

    def noise(number: int) -> Noise:
        sets = [
            [found for other in members if other != number for found in own[other]]
            for members in by_shape.values()
        ]
        inside = float(np.mean([found.inside for found in own[number]])) if own[number] else 0.0
        return pooled(sets, inside=inside)

    return [noise(number) for number in range(len(known))]


def _judged(
    known: _ContestKnown,
    noise: Noise,
    expected: Mapping[Cell, float],
    failed: Collection[Cell],
    closed: Collection[Cell],
) -> ContestState:
    contest, found = known.contest, known.sums
    default, *candidates = contest.cells
    sound = [cell for cell in candidates if cell not in failed]
    intervals = {cell: known.interval(cell, noise) for cell in found}
    verdicts = {cell: verdict(one) for cell, one in intervals.items()}
    proved = [cell for cell, one in verdicts.items() if one is LaunchVerdict.FASTER]
    is_proved = any(known.is_measured_enough(cell, noise) for cell in proved)
    ahead = leading(found, noise)
    left = tuple(
        cell[0]
        for cell in sound
        if (cell in ahead or not known.fresh)
        and not known.is_measured_enough(cell, noise)
        and not is_proved
        and not {cell, default} & ({*closed} | {*failed})
    )
    if not known.fresh:
        gone = not sound and default not in failed
        return ContestState(
            contest, Status.WITHDRAWN if gone else Status.PREDICTED, None, None, left
        )

    def rank(cell: Cell) -> tuple[bool, float]:
        limits = intervals[cell]
        return limits is not None, limits.lower if limits else found[cell].log

    best = max(found, key=rank)
    # one launch proves nothing, but what is far behind in it is not measured again
    is_told = not ahead or any(verdicts[cell] is not LaunchVerdict.NOT_COMPARED for cell in ahead)
    status = Status.CONFIRMED if proved else Status.WITHDRAWN if is_told else Status.PREDICTED
    gain = CandidateGain(
        found[best], noise, intervals[best], _inside(expected[best], intervals[best])
    )
    sums = {cell[0]: one for cell, one in found.items()}
    faster = tuple(cell[0] for cell in proved)
    return ContestState(contest, status, best[0], gain, left, sums, faster)


def _inside(log: float, within: GainInterval | None) -> float:
    return min(max(log, within.lower), within.upper) if within else log


def _gains(
    default: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]
) -> dict[str, LaunchGain]:
    """Return what each launch tells that holds both."""
    gains = {at: _log_gain(default[at], other[at]) for at in default if at in other}
    return {launch: gain for launch, gain in gains.items() if gain is not None}


def _log_gain(default_s: Sequence[float], other_s: Sequence[float]) -> LaunchGain | None:
    """Return a launch's log gain, by what was measured in the same turns."""
    if not len(default_s) or not len(other_s):
        return None
    made = [len(times_s) / _turn_reps(times_s) for times_s in (default_s, other_s)]
    shares = [1.0, 1.0]
    if min(made) < _CUT_SHORT * max(made):
        # one of them was given up early: only its turns are compared
        shares = [min(made) / turns for turns in made]
    kept = [
        np.asarray(times_s[: max(1, round(len(times_s) * share))], np.float64)
        for times_s, share in zip((default_s, other_s), shares, strict=True)
    ]
    turns = min(ROUNDS, *map(len, kept))
    default, other = (np.array_split(times_s, turns) for times_s in kept)
    return launch_gain(default, other)


def _turn_reps(times_s: Sequence[float]) -> float:
    """Return how many repetitions of a call make a turn."""
    time_s = median(times_s)
    return min(MOST_REPS, max(1.0, TURN_S / time_s)) if time_s > 0 else MOST_REPS


def contests(
    selector: ModelSelector,
    collective: Collective,
    shape: Shape,
    sizes: Iterable[int],
    *,
    weight: float = 1.0,
    measurable: Callable[[Configuration, Instance], bool] = lambda *_: True,
) -> list[ContestedInstance]:
    """Return what is to be measured of a collective on a shape, so that its decisions are proved.

    At each of `sizes` (bytes) the fastest predicted candidate but the default is proposed, also
    where the guard refuses it or the default is predicted to be faster, unless by far, and where
    it is `measurable`.
    """
    model = selector.bundle.model(collective)
    ascending = sorted(set(sizes))
    if model.default_column is None or not ascending:
        return []
    nodes, ppn = ([count] * len(ascending) for count in (shape.nodes, shape.ppn))
    decisions = selector.decide(collective, nodes, ppn, ascending)
    default_s = decisions.forecast.time_s[:, model.default_column]
    gains = np.log(default_s)[:, None] - np.log(decisions.rank_s)
    gains[:, model.default_column] = -np.inf
    for row, column in np.argwhere(gains > _LEAST_PROPOSED).tolist():
        where = Instance(collective, shape, ascending[row])
        if not measurable(model.configurations[column], where):
            gains[row, column] = -np.inf
    cuts = cuts_between(ascending)
    ends = [*(cut - 1 for cut in cuts), _REACH * ascending[-1]]
    found = []
    for row, (size, first, last) in enumerate(zip(ascending, [0, *cuts], ends, strict=True)):
        ranked = np.argsort(-gains[row], kind="stable")[:MOST_CANDIDATES]
        chosen = [c for c in ranked.tolist() if gains[row, c] > _LEAST_PROPOSED]
        if chosen:
            found.append(
                ContestedInstance(
                    Instance(collective, shape, size),
                    selector.default(collective),
                    tuple(model.configurations[c] for c in chosen),
                    first,
                    last,
                    gain=math.exp(float(gains[row, chosen[0]])),
                    time_s=float(default_s[row]),
                    followed=bool(decisions.chosen[row] != model.default_column),
                    weight=weight,
                )
            )
    return found


def cuts_between(sizes: Sequence[int]) -> list[int]:
    """Return from where on each of ascending `sizes` but the first stands: geometric means."""
    return [min(b, max(a + 1, math.isqrt(a * b))) for a, b in itertools.pairwise(sizes)]


def evidence(
    measurements: Iterable[Measurement],
) -> tuple[dict[Cell, dict[str, Sequence[float]]], set[Cell]]:
    """Return the times that `judge` asks for, a summary as one repetition, and what failed."""
    times: dict[Cell, dict[str, Sequence[float]]] = {}
    failed: set[Cell] = set()
    for m in measurements:
        cell = (m.configuration, m.instance)
        if m.status.is_timed and m.summary is not None:
            times.setdefault(cell, {})[m.launch] = m.times_s or (m.summary.time_s,)
        elif m.status not in (RunStatus.SKIPPED, RunStatus.NO_WINDOW):
            failed.add(cell)
    return times, failed


def confirmations(
    judgements: Iterable[ContestState], measured_utc: str
) -> tuple[Confirmation, ...]:
    """Return what was decided by measuring at `measured_utc` (ISO); what is open is withdrawn."""
    return tuple(
        Confirmation(
            one.contest.collective,
            one.contest.shape,
            one.first_bytes,
            one.last_bytes,
            one.status,
            one.configuration,
            one.contest.candidates[0],
            one.gain.ratio if one.gain else None,
            one.gain.lower if one.gain else None,
            one.gain.upper if one.gain else None,
            one.gain.launches if one.gain else 1,
            measured_utc,
            sums=tuple(one.sums.items()),
            noise=one.gain.noise if one.gain else None,
        )
        for one in judgements
        if one.status is not Status.PREDICTED
    )
