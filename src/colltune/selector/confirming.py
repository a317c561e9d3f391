"""Whether what is predicted to be fastest proves faster than the default when both are measured.

A proposal and its nearest runners-up are measured beside the default, in turns within a launch. The
log ratio of their times is uncertain for two reasons: the turns within a launch scatter, and each
launch shifts the ratio, which no number of repetitions averages out (see
`colltune.models.launch_noise`). Of a single launch that is what the data, or other machines, tell;
of several it is what they differ by, here and usually. A configuration is

* *faster* if the 95 % interval of its gain lies above 1;
* *no faster* if it lies below 1.01.

Else another launch tells more, up to three of them. Of several that are faster that one wins whose
interval has the highest lower end. What has not proved faster in the end is withdrawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.models.confirmations import Confirmation
from colltune.models.error_model import Z95
from colltune.selector.argmin import ModelSelector

ROUNDS = 6
"""Turns of a launch: as many parts of a cell's repetitions are compared one by one."""
MOST_LAUNCHES = 3
MOST_CANDIDATES = 3
LAUNCH_SD = 0.048
"""By which a log gain differs from launch to launch: seven machines and platforms."""
_LEAST_TOLD_SD = 0.01
_APART_SD = 0.1
_LAUNCH_SD_WORTH = 4
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_LIMIT = 2.24
"""Standard deviations on either side. 1.96 would do for one look at one candidate; with this, what
is no faster is confirmed in less than a tenth of cases, of three candidates looked at three times.
"""
_NO_GAIN = math.log(1.01)
_LEAST_STAKE = 1e-3
_LEAST_PROPOSED = -0.5
"""Log gain that is predicted for what is measured, at least. On real machines a tenth of all that
can be gained is predicted to be slower than the default.
"""
_PREDICTED_SD = 0.1
_LEAST_DOUBT = 0.1
MOST_REPS, TURN_S = 20, 0.005
"""How often, and for how long, a call is repeated in a turn at most."""
_SLOW_S = 0.02
_SLOW_ROUNDS = 2
_MOST_TIMES = 4
_REACH = 2
_FEW_TURNS = 3.0

Cell = tuple[Configuration, Instance]
Times = Mapping[Cell, Mapping[str, Sequence[float]]]
"""Repetitions in seconds of a configuration on an instance, in order, by the launch's name."""


@dataclass(frozen=True)
class Contest:
    """An instance whose decision is to be proved.

    ``candidates`` are compared with ``default``, the proposal first; they stand for messages of
    ``first_bytes`` to ``last_bytes``. ``gain`` is the factor that is predicted for the proposal,
    ``doubt`` how doubtful that is, 0 to 1; ``time_s`` is the default's predicted time. ``weight``
    is how much the shape matters, ``launch_sd`` by how much a log gain differs between launches.
    """

    instance: Instance
    default: Configuration
    candidates: tuple[Configuration, ...]
    first_bytes: int
    last_bytes: int | None
    gain: float
    time_s: float
    doubt: float = 1.0
    weight: float = 1.0
    launch_sd: float = LAUNCH_SD

    @property
    def shape(self) -> Shape:
        return self.instance.shape

    @property
    def collective(self) -> Collective:
        return self.instance.collective

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple((c, self.instance) for c in (self.default, *self.candidates))


class Gain(NamedTuple):
    """A measured log gain over the default, its standard deviation, and in how many launches.

    ``scatter`` is its variance within a launch, in multiples of that between launches.
    """

    log: float
    sd: float
    launches: int
    scatter: float = 0.0

    @property
    def ratio(self) -> float:
        return math.exp(self.log)

    @property
    def lower(self) -> float:
        return math.exp(self.log - _LIMIT * self.sd)

    @property
    def upper(self) -> float:
        return math.exp(self.log + _LIMIT * self.sd)

    @property
    def is_faster(self) -> bool:
        return self.log - _LIMIT * self.sd > 0

    @property
    def is_no_faster(self) -> bool:
        """Whether it is proved that there is none worth having."""
        return self.log + _LIMIT * self.sd < _NO_GAIN

    @property
    def doubt(self) -> float:
        """The chance that it is of the other sign, doubled: 0 to 1."""
        return math.erfc(abs(self.log) / self.sd / math.sqrt(2)) if self.sd else 0.0


@dataclass(frozen=True)
class Judgement:
    """What is known of a contest.

    ``status`` is predicted where nothing was measured. ``best`` is the candidate that was measured
    to be the fastest and ``gain`` what it gains, None where nothing was measured or all failed.
    ``open_candidates`` are those that another launch is worth while for.
    """

    contest: Contest
    status: Status
    best: Configuration | None
    gain: Gain | None
    open_candidates: tuple[Configuration, ...]

    @property
    def is_open(self) -> bool:
        """Whether another launch is worth while."""
        return bool(self.open_candidates)

    def turns(self, time_s: float) -> int:
        """Return how many turns the next launch gives to calls of `time_s`."""
        scatter = self.gain.scatter if self.gain else 0.0
        times = min(_MOST_TIMES, max(1, math.ceil(scatter)))
        return times * (ROUNDS if time_s <= _SLOW_S else _SLOW_ROUNDS)

    @property
    def configuration(self) -> Configuration:
        """What is used: the winner, or the default where nothing proved faster."""
        if self.status is Status.WITHDRAWN or self.best is None:
            return self.contest.default
        return self.best

    @property
    def value(self) -> float:
        """How much there is to be known: log gain at stake x doubt x weight."""
        if self.gain is None:
            # about what is gained, since losses are withdrawn
            scaled = math.log(self.contest.gain) / _PREDICTED_SD
            stake, doubt = _PREDICTED_SD * float(np.logaddexp(0.0, scaled)), self.contest.doubt
        else:
            stake, doubt = self.gain.log, self.gain.doubt
        return self.contest.weight * max(stake, _LEAST_STAKE) * doubt


def worth_measuring(
    judgements: Iterable[Judgement],
    seconds: Callable[[Judgement], float],
    limit_s: float,
    *,
    spent_s: float = 0.0,
    always_one: bool = False,
) -> list[Judgement]:
    """Return what fits into `limit_s`, most worth per second first, `always_one` at least."""
    timed = [(judgement, seconds(judgement)) for judgement in judgements if judgement.is_open]
    timed.sort(key=lambda pair: pair[0].value / pair[1] if pair[1] else 0.0, reverse=True)
    found: list[Judgement] = []
    for judgement, needed_s in timed:
        if spent_s + needed_s <= limit_s or (always_one and not found):
            spent_s += needed_s
            found.append(judgement)
    return found


def judge(
    contests: Sequence[Contest],
    times: Times,
    failed: Collection[Cell] = frozenset(),
    closed: Collection[Cell] = frozenset(),
) -> list[Judgement]:
    """Return what `times` tell of each contest; what is `closed` is not measured any more."""
    evidence = _Evidence(contests, times, frozenset(failed), frozenset(closed))
    return [evidence.judgement(contest) for contest in contests]


class _Evidence:
    """The measured log gains of all candidates, with their variances within the launch."""

    def __init__(
        self,
        contests: Sequence[Contest],
        times: Times,
        failed: frozenset[Cell],
        closed: frozenset[Cell],
    ) -> None:
        self._failed, self._closed = failed, failed | closed
        self._found: dict[Cell, NDArray[np.float64]] = {}
        self._apart: set[Cell] = set()
        for contest in contests:
            default, *candidates = contest.cells
            for cell in candidates:
                self._compare(cell, times.get(default, {}), times.get(cell, {}))
        self._between, self._freedom = self._differences(contests)

    def _compare(
        self,
        cell: Cell,
        default: Mapping[str, Sequence[float]],
        theirs: Mapping[str, Sequence[float]],
    ) -> None:
        pairs = [(default[launch], theirs[launch]) for launch in default if launch in theirs]
        if not pairs:
            # where each configuration needs its own launch, these are compared in their order
            pairs = list(zip(default.values(), theirs.values(), strict=False))
            self._apart.add(cell)
        self._found[cell] = np.array([_log_gain(*pair) for pair in pairs]).reshape(-1, 2)

    def _differences(self, contests: Iterable[Contest]) -> tuple[float, int]:
        """Return the usual variance of log gains between launches, and its degrees of freedom."""
        several = [
            self._found[cell]
            for contest in contests
            for cell in contest.cells[1:]
            if len(self._found[cell]) > 1
        ]
        if not several:
            return 0.0, 0
        # a mean over n launches takes 1/n of the variance with it
        residuals = [
            np.abs(logs - logs.mean()) * math.sqrt(len(logs) / (len(logs) - 1))
            for logs in (found[:, 0] for found in several)
        ]
        usual = (_NORMAL * float(np.median(np.concatenate(residuals)))) ** 2
        inside = float(np.median(np.concatenate(several)[:, 1]))
        return max(0.0, usual - inside), sum(len(found) - 1 for found in several)

    def _gain(self, contest: Contest, cell: Cell) -> Gain | None:
        if not len(self._found[cell]):
            return None
        logs, variances = self._found[cell].T
        known = max(contest.launch_sd, _APART_SD) if cell in self._apart else contest.launch_sd
        inside, freedom = float(np.mean(variances)), len(logs) - 1
        usual = _mean(known**2, _LAUNCH_SD_WORTH, self._between, self._freedom)
        own = max(0.0, float(logs.var(ddof=1)) - inside) if freedom else 0.0
        # launches that happen to agree are no surer than usual ones
        between = max(usual, _mean(usual, _LAUNCH_SD_WORTH, own, freedom))
        sd = math.sqrt((inside + between) / len(logs))
        return Gain(float(logs.mean()), sd, len(logs), inside / between)

    def judgement(self, contest: Contest) -> Judgement:
        default, *candidates = contest.cells
        sound = [cell for cell in candidates if cell not in self._failed]
        gains = {cell: gain for cell in sound if (gain := self._gain(contest, cell))}
        if not gains:
            failed = not sound and default not in self._failed
            status = Status.WITHDRAWN if failed else Status.PREDICTED
            return Judgement(contest, status, None, None, self._open(default, sound))
        is_proved = any(gain.is_faster for gain in gains.values())
        best = max(gains, key=lambda cell: gains[cell].lower)
        status = Status.CONFIRMED if is_proved else Status.WITHDRAWN
        undecided = [c for c, gain in gains.items() if not is_proved and not gain.is_no_faster]
        return Judgement(contest, status, best[0], gains[best], self._open(default, undecided))

    def _open(self, default: Cell, cells: Iterable[Cell]) -> tuple[Configuration, ...]:
        """Return the configurations of `cells` that another launch can be made for."""
        if default in self._closed:
            return ()
        left = (c for c in cells if len(self._found[c]) < MOST_LAUNCHES and c not in self._closed)
        return tuple(configuration for configuration, _ in left)


def _mean(known: float, worth: int, found: float, freedom: int) -> float:
    """Return the mean of two variances, weighted by their degrees of freedom."""
    return (worth * known + freedom * found) / (worth + freedom)


def _log_gain(default_s: Sequence[float], other_s: Sequence[float]) -> tuple[float, float]:
    """Return a launch's log gain, by what was measured in the same turns, and its variance."""
    turns = min(ROUNDS, len(default_s), len(other_s))
    medians = (
        np.log([np.median(part) for part in np.array_split(np.asarray(times_s), turns)])
        for times_s in (default_s, other_s)
    )
    logs = np.subtract(*medians)
    if turns < 2:
        return float(logs[0]), 0.0
    # the variance of Student's distribution: few turns tell little of their own scatter
    few = (turns - 1) / (turns - 3) if turns > 3 else _FEW_TURNS
    return float(logs.mean()), few * float(logs.var(ddof=1)) / turns


def contests(
    selector: ModelSelector,
    collective: Collective,
    shape: Shape,
    sizes: Iterable[int],
    *,
    weight: float = 1.0,
) -> list[Contest]:
    """Return what is to be measured of a collective on a shape, so that its decisions are proved.

    At each of `sizes` (bytes) the fastest predicted candidate but the default is proposed, also
    where the guard refuses it or the default is predicted to be faster, unless by far.
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
        if not selector.permits(model.configurations[column], where):
            gains[row, column] = -np.inf
    # launches differ by what the data tell, unless they tell nothing
    told_sd = model.error.detectable / Z95
    cuts = cuts_between(ascending)
    ends = [*(cut - 1 for cut in cuts), _REACH * ascending[-1]]
    found = []
    for row, (size, first, last) in enumerate(zip(ascending, [0, *cuts], ends, strict=True)):
        ranked = np.argsort(-gains[row], kind="stable")[:MOST_CANDIDATES]
        chosen = [c for c in ranked.tolist() if gains[row, c] > _LEAST_PROPOSED]
        if chosen:
            gain, doubt = float(gains[row, chosen[0]]), float(decisions.doubt[row, chosen[0]])
            found.append(
                Contest(
                    Instance(collective, shape, size),
                    selector.default(collective),
                    tuple(model.configurations[c] for c in chosen),
                    first,
                    last,
                    gain=math.exp(gain),
                    time_s=float(default_s[row]),
                    doubt=min(1.0, max(_LEAST_DOUBT, doubt / gain)) if gain > 0 else 1.0,
                    weight=weight,
                    launch_sd=told_sd if told_sd > _LEAST_TOLD_SD else LAUNCH_SD,
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


def confirmations(judgements: Iterable[Judgement], measured_utc: str) -> tuple[Confirmation, ...]:
    """Return what was decided by measuring at `measured_utc` (ISO); what is open is withdrawn."""
    return tuple(
        Confirmation(
            one.contest.collective,
            one.contest.shape,
            one.contest.first_bytes,
            one.contest.last_bytes,
            one.status,
            one.configuration,
            one.contest.candidates[0],
            one.gain.ratio if one.gain else None,
            one.gain.lower if one.gain else None,
            one.gain.upper if one.gain else None,
            one.gain.launches if one.gain else 1,
            measured_utc,
        )
        for one in judgements
        if one.status is not Status.PREDICTED
    )
