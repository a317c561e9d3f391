"""Whether what is predicted to be fastest proves faster than the default when both are measured.

A proposal and its nearest runners-up are measured beside the default, in turns within a launch. The
log ratio of their times is averaged over neighbouring message sizes, for which the same is
proposed. Two things make it uncertain: the scatter of the turns within a launch, and what each
launch does to a ratio, which no number of repetitions averages out (see
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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.models.confirmations import Confirmation
from colltune.models.error_model import ErrorModel
from colltune.models.launch_noise import Z95
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
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Contest:
    """Instances of one collective and shape that are judged together, ascending in size.

    ``candidates`` are compared with ``default``, the proposal first; they stand for messages of
    ``first_bytes`` to ``last_bytes``. ``gain`` is the factor that is predicted for the proposal,
    ``doubt`` how doubtful that is, 0 to 1; ``times_s`` are the default's predicted times.
    ``weight`` is how much the shape matters, ``launch_sd`` by how much a log gain differs between
    launches.
    """

    instances: tuple[Instance, ...]
    default: Configuration
    candidates: tuple[Configuration, ...]
    first_bytes: int
    last_bytes: int | None
    gain: float
    times_s: tuple[float, ...]
    doubt: float = 1.0
    weight: float = 1.0
    launch_sd: float = LAUNCH_SD

    @property
    def shape(self) -> Shape:
        """The shape of all its instances."""
        return self.instances[0].shape

    @property
    def collective(self) -> Collective:
        """The collective of all its instances."""
        return self.instances[0].collective

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The default and all candidates on all its instances."""
        return tuple(
            (configuration, instance)
            for instance in self.instances
            for configuration in (self.default, *self.candidates)
        )

    def part(self, instances: tuple[Instance, ...]) -> Contest:
        """Return the contest of some of its neighbouring instances alone."""
        ranges = _ranges([instance.msize_bytes for instance in self.instances])
        ranges[0] = self.first_bytes, ranges[0][1]
        ranges[-1] = ranges[-1][0], self.last_bytes
        first, last = (self.instances.index(instances[k]) for k in (0, -1))
        return replace(
            self,
            instances=instances,
            first_bytes=ranges[first][0],
            last_bytes=ranges[last][1],
            times_s=self.times_s[first : last + 1],
        )


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
        """The time of the default over that of the configuration."""
        return math.exp(self.log)

    @property
    def lower(self) -> float:
        """The lower end of the ratio's 95 % interval."""
        return math.exp(self.log - _LIMIT * self.sd)

    @property
    def upper(self) -> float:
        """The upper end of the ratio's 95 % interval."""
        return math.exp(self.log + _LIMIT * self.sd)

    @property
    def is_faster(self) -> bool:
        """Whether it is proved that there is a gain."""
        return self.log - _LIMIT * self.sd > 0

    @property
    def is_no_faster(self) -> bool:
        """Whether it is proved that there is none worth having."""
        return self.log + _LIMIT * self.sd < _NO_GAIN

    @property
    def is_slower(self) -> bool:
        """Whether it is proved that it is a loss."""
        return self.log + _LIMIT * self.sd < 0

    @property
    def doubt(self) -> float:
        """The chance that it is of the other sign, doubled: 0 to 1."""
        return math.erfc(abs(self.log) / self.sd / math.sqrt(2)) if self.sd else 0.0


@dataclass(frozen=True)
class Judgement:
    """What is known of some instances of a contest.

    ``status`` is predicted where nothing was measured. ``best`` is the candidate that was measured
    to be the fastest and ``gain`` what it gains, None where nothing was measured or all failed.
    ``open_candidates`` are those that another launch is worth while for.
    """

    contest: Contest
    instances: tuple[Instance, ...]
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
    def range_bytes(self) -> tuple[int, int | None]:
        """The first and last message size that the instances stand for."""
        part = self.contest.part(self.instances)
        return part.first_bytes, part.last_bytes

    @property
    def value(self) -> float:
        """How much there is to be known: log gain at stake x doubt x weight."""
        if self.gain is None:
            stake, doubt = _expected(math.log(self.contest.gain)), self.contest.doubt
        else:
            stake, doubt = self.gain.log, self.gain.doubt
        return len(self.instances) * self.contest.weight * max(stake, _LEAST_STAKE) * doubt


def _expected(log_gain: float) -> float:
    """Return about what is gained where `log_gain` is predicted, and losses are withdrawn."""
    return _PREDICTED_SD * float(np.logaddexp(0.0, log_gain / _PREDICTED_SD))


def judge(
    contests: Sequence[Contest],
    times: Times,
    failed: Collection[Cell] = frozenset(),
    closed: Collection[Cell] = frozenset(),
) -> list[Judgement]:
    """Return what `times` tell of `contests`; all their instances are in one judgement each.

    What `failed` crashed, hung or was wrong, and proves nothing; what is `closed` is not measured
    any more.
    """
    evidence = _Evidence(contests, times, frozenset(failed), frozenset(closed))
    return [
        judgement for contest in contests for judgement in evidence.of(contest, contest.instances)
    ]


class _Evidence:
    """The measured log gains of all candidates."""

    def __init__(
        self,
        contests: Sequence[Contest],
        times: Times,
        failed: frozenset[Cell],
        closed: frozenset[Cell],
    ) -> None:
        self._failed, self._closed = failed, failed | closed
        self._found: dict[Cell, dict[str, _LogGain]] = {}
        self._apart: set[Cell] = set()
        for contest in contests:
            for instance in contest.instances:
                default = times.get((contest.default, instance), {})
                for candidate in contest.candidates:
                    self._compare((candidate, instance), default, times)
        self._between, self._freedom = self._differences(contests)

    def _differences(self, contests: Iterable[Contest]) -> tuple[float, int]:
        """Return the usual variance of log gains between launches, and its degrees of freedom."""
        residuals, variances, freedom = [], [], 0
        for contest in contests:
            for candidate in contest.candidates:
                logs, within = self._launches(contest.instances, candidate)
                if len(logs) > 1:
                    # a mean over n launches takes 1/n of the variance with it
                    scale = math.sqrt(len(logs) / (len(logs) - 1))
                    residuals += (np.abs(logs - logs.mean()) * scale).tolist()
                    variances += within.tolist()
                    freedom += len(logs) - 1
        if not freedom:
            return 0.0, 0
        usual = (_NORMAL * float(np.median(residuals))) ** 2
        return max(0.0, usual - float(np.median(variances))), freedom

    def _compare(self, cell: Cell, default: Mapping[str, Sequence[float]], times: Times) -> None:
        theirs = times.get(cell, {})
        together = [launch for launch in default if launch in theirs]
        pairs = [(launch, launch) for launch in together]
        if not together:
            # where each configuration needs its own launch, these are compared in their order
            pairs = list(zip(default, theirs, strict=False))
            self._apart.add(cell)
        self._found[cell] = {
            str(number) if not together else launch: _log_gain(default[launch], theirs[other])
            for number, (launch, other) in enumerate(pairs)
        }

    def _launches(
        self, instances: Iterable[Instance], candidate: Configuration
    ) -> tuple[Numbers, Numbers]:
        """Return mean log gain over `instances` and its variance within, per launch that has all.

        Instances without any measurement are left out.
        """
        rows = [self._found.get((candidate, instance)) for instance in instances]
        known = [row for row in rows if row]
        launches = [launch for launch in (known[0] if known else ()) if _in_all(launch, known)]
        logs = [float(np.mean([row[launch].log for row in known])) for launch in launches]
        variances = [
            sum(row[launch].variance for row in known) / len(known) ** 2 for launch in launches
        ]
        return np.array(logs), np.array(variances)

    def gain(
        self, contest: Contest, instances: Sequence[Instance], candidate: Configuration
    ) -> Gain | None:
        """Return what `candidate` gains over `instances` together, None if it was not measured."""
        logs, within = self._launches(instances, candidate)
        if not len(logs):
            return None
        known = contest.launch_sd
        if any((candidate, instance) in self._apart for instance in instances):
            known = max(known, _APART_SD)
        inside, freedom = float(within.mean()), len(logs) - 1
        usual = _mean(known**2, _LAUNCH_SD_WORTH, self._between, self._freedom)
        own = max(0.0, float(logs.var(ddof=1)) - inside) if freedom else 0.0
        # launches that happen to agree are no surer than usual ones
        between = max(usual, _mean(usual, _LAUNCH_SD_WORTH, own, freedom))
        sd = math.sqrt((inside + between) / len(logs))
        return Gain(float(logs.mean()), sd, len(logs), inside / between)

    def of(self, contest: Contest, instances: tuple[Instance, ...]) -> Iterator[Judgement]:
        """Judge `instances` together, or by parts where the best is certainly slower at some."""
        sound = [c for c in contest.candidates if _free(c, instances, self._failed)]
        gains = {c: g for c in sound if (g := self.gain(contest, instances, c))}
        if not gains:
            failed = not sound and _free(contest.default, instances, self._failed)
            status = Status.WITHDRAWN if failed else Status.PREDICTED
            left = tuple(c for c in sound if self._goes_on(contest, instances, c))
            yield Judgement(contest, instances, status, None, None, left)
            return
        faster = [c for c, gain in gains.items() if gain.is_faster]
        best = max(gains, key=lambda c: gains[c].lower)
        slower = {i for i in instances if (g := self.gain(contest, [i], best)) and g.is_slower}
        if slower and len(slower) < len(instances):
            for _, run in itertools.groupby(instances, slower.__contains__):
                yield from self.of(contest, tuple(run))
            return
        status = Status.CONFIRMED if faster else Status.WITHDRAWN
        undecided = [c for c, gain in gains.items() if not faster and not gain.is_no_faster]
        left = tuple(c for c in undecided if self._goes_on(contest, instances, c))
        yield Judgement(contest, instances, status, best, gains[best], left)

    def _goes_on(
        self, contest: Contest, instances: Sequence[Instance], candidate: Configuration
    ) -> bool:
        launches = max(len(self._found[candidate, instance]) for instance in instances)
        return launches < MOST_LAUNCHES and all(
            _free(c, instances, self._closed) for c in (contest.default, candidate)
        )


def _free(
    configuration: Configuration, instances: Iterable[Instance], cells: frozenset[Cell]
) -> bool:
    """Tell whether `cells` have the configuration on none of `instances`."""
    return not any((configuration, instance) in cells for instance in instances)


def _mean(known: float, worth: int, found: float, freedom: int) -> float:
    """Return the mean of two variances, weighted by their degrees of freedom."""
    return (worth * known + freedom * found) / (worth + freedom)


class _LogGain(NamedTuple):
    """A launch's log gain on an instance, and its variance within the launch."""

    log: float
    variance: float


def _log_gain(default_s: Sequence[float], other_s: Sequence[float]) -> _LogGain:
    """Compare the parts of the repetitions that were measured in the same turns."""
    turns = min(ROUNDS, len(default_s), len(other_s))
    logs = np.log(_medians(default_s, turns)) - np.log(_medians(other_s, turns))
    if turns < 2:
        return _LogGain(float(logs[0]), 0.0)
    # the variance of Student's distribution: few turns tell little of their own scatter
    few = (turns - 1) / (turns - 3) if turns > 3 else _FEW_TURNS
    return _LogGain(float(logs.mean()), few * float(logs.var(ddof=1)) / turns)


def _medians(times_s: Sequence[float], parts: int) -> Numbers:
    return np.array([np.median(part) for part in np.array_split(np.asarray(times_s), parts)])


def _in_all(launch: str, rows: Iterable[Mapping[str, _LogGain]]) -> bool:
    return all(launch in row for row in rows)


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
    found = []
    for row, (size, range_bytes) in enumerate(zip(ascending, _ranges(ascending), strict=True)):
        ranked = np.argsort(-gains[row], kind="stable")[:MOST_CANDIDATES]
        chosen = [c for c in ranked.tolist() if gains[row, c] > _LEAST_PROPOSED]
        if not chosen:
            continue
        gain, doubt = float(gains[row, chosen[0]]), float(decisions.doubt[row, chosen[0]])
        found.append(
            Contest(
                (Instance(collective, shape, size),),
                selector.default(collective),
                tuple(model.configurations[c] for c in chosen),
                *range_bytes,
                math.exp(gain),
                (float(default_s[row]),),
                min(1.0, max(_LEAST_DOUBT, doubt / gain)) if gain > 0 else 1.0,
                weight,
                _launch_sd(model.error),
            )
        )
    return found


def _launch_sd(error: ErrorModel) -> float:
    """Return by how much launches differ: what the data tell, unless they tell nothing."""
    told = error.detectable / Z95
    return told if told > _LEAST_TOLD_SD else LAUNCH_SD


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int | None]]:
    """Return the message sizes for which each of `sizes` stands, cut at geometric means."""
    cuts = cuts_between(sizes)
    return list(zip([0, *cuts], [*(cut - 1 for cut in cuts), _REACH * sizes[-1]], strict=True))


def cuts_between(sizes: Sequence[int]) -> list[int]:
    """Return from where on each of ascending `sizes` but the first stands: geometric means."""
    return [min(b, max(a + 1, math.isqrt(a * b))) for a, b in itertools.pairwise(sizes)]


def evidence(
    measurements: Iterable[Measurement],
) -> tuple[dict[Cell, dict[str, Sequence[float]]], set[Cell]]:
    """Return what `judge` asks for: the times of `measurements`, and what failed.

    Where only a summary is known, it stands for a single repetition.
    """
    times: dict[Cell, dict[str, Sequence[float]]] = {}
    failed: set[Cell] = set()
    for m in measurements:
        cell = (m.configuration, m.instance)
        if m.status.is_timed and m.summary is not None:
            times.setdefault(cell, {})[m.launch] = m.times_s or (m.summary.time_s,)
        elif m.status is not RunStatus.SKIPPED:
            failed.add(cell)
    return times, failed


def confirmations(judgements: Iterable[Judgement], measured_utc: str) -> tuple[Confirmation, ...]:
    """Return what was decided by measuring at `measured_utc` (ISO), to be kept in the bundle.

    What is open is withdrawn: it did not prove faster. What was not measured stays predicted.
    """
    return tuple(
        _confirmation(judgement, measured_utc)
        for judgement in judgements
        if judgement.status is not Status.PREDICTED
    )


def _confirmation(judgement: Judgement, measured_utc: str) -> Confirmation:
    contest, gain = judgement.contest, judgement.gain
    return Confirmation(
        contest.collective,
        contest.shape,
        *judgement.range_bytes,
        judgement.status,
        judgement.configuration,
        contest.candidates[0],
        gain.ratio if gain else None,
        gain.lower if gain else None,
        gain.upper if gain else None,
        gain.launches if gain else 1,
        measured_utc,
    )
