"""What jobs tell whose arm was drawn, whenever anybody looks.

The service draws which jobs get a decision. If the decision has no effect, the draw knows nothing
of how long a job takes, whatever the times are like: of any distribution, one after the other, of
programs that come once. So one bets on the draw: that jobs which take longer than usual are those
with the decision (it harms), or those without it (it gains). A bet is fair if the decision has
exactly the effect that is supposed; wealth beyond ``1 / alpha`` refutes the supposition at any time
with an error of `alpha` at most (Ville's inequality; Shafer, Journal of the Royal Statistical
Society A 184, 2021). It needs three things: the shares by which arms are drawn are known, the draw
is apart from the job, and each job counts once.

An effect is the logarithm of a job's time with the decision over its time without.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HARM, WORTH = math.log(1.02), math.log(1.10)
_SMALL = (0.01, HARM, 0.03, 0.04, 0.06, 0.08, WORTH, 0.11, 0.15)
_UPWARDS = (*_SMALL, 0.2, 0.27, 0.35, 0.45, 0.6, 0.8, 1.1, 1.6, 2.3, 3.0)
EFFECTS = np.array([*(-effect for effect in reversed(_UPWARDS)), 0.0, *_UPWARDS])
"""The effects that are supposed, shape (n)."""
STAKES = np.array([0.1, 0.3, 1.0, 2.5])
"""How much is bet, shape (m): large ones find large effects soon, small ones small effects."""
_FARTHEST = 3.0
_REMEMBERED, _REMEMBERED_SCALE = 32, 200
_FIRST_SCALES = {True: 0.2, False: 1.0}
_SCALE_WORTH = 3
_LEAST_VARIANCE = 1e-4
_MOST_USERS = 64
_LEAST_OF_USER = 2
_LEAST_ELSEWHERE, _LEAST_TO_SAVE = 3, 2
_SAME = 1e-12
_LONGEST = 1.4
_FIRST_UNSURE = (3.0, 0.09)
_NO_EFFECT_WORTH = 1.0
AT_ANY_LOOK = math.sqrt((1 + 1 / 9) * math.log((1 + 9) / 0.05**2))
"""Standard errors of a sum whose interval of 95 % holds at every look.

The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (Annals of
Statistics 52, 2024), at its narrowest for the sum as it is.
"""


def _nothing() -> NDArray[np.float64]:
    return np.zeros((len(EFFECTS), len(STAKES)))


class EffectInterval(NamedTuple):
    """An effect and its confidence sequence at one moment, and the jobs that it rests on."""

    log: float
    lower: float
    upper: float
    jobs: int

    @property
    def closed(self) -> EffectInterval:
        """The same, whose open ends are the largest effects that are supposed."""
        lower, upper = max(self.lower, EFFECTS[0]), min(self.upper, EFFECTS[-1])
        return self._replace(lower=float(lower), upper=float(upper))


@dataclass
class Usual:
    """What jobs before took: ``log_s`` the mean logarithm of seconds, ``share`` that of the arm.

    The latest 32 count. ``calls`` is the mean of what seconds of a call are multiplied with to
    get what all calls of a job cost.
    """

    count: int = 0
    log_s: float = 0.0
    share: float = 0.0
    calls: float = 0.0

    def add(self, log_s: float, *, is_in: bool, calls: float) -> None:
        self.count += 1
        part = 1.0 / min(self.count, _REMEMBERED)
        self.log_s = round(self.log_s + part * (log_s - self.log_s), 6)
        self.share = round(self.share + part * (is_in - self.share), 6)
        self.calls += part * (calls - self.calls)


class SavedHours(NamedTuple):
    """What a job says of hours saved, and how far from its mean the draw brings that."""

    hours: float
    error: float

    def plus(self, other: SavedHours) -> SavedHours:
        """Return both together, of one job."""
        return SavedHours(self.hours + other.hours, self.error + other.error)


class Seen(NamedTuple):
    """One kind of calls of a job: seconds of a call, beside what is ``usual``.

    ``is_near``: the usual is that of the same program and kind of calls, else of all programs.
    ``weight`` are the seconds of all calls.
    """

    log_s: float
    usual: Usual
    is_near: bool
    weight: float


def usual_of(near: Usual, elsewhere: Usual) -> tuple[Usual, bool] | None:
    """Return what a job is compared with and whether it is near; None for nothing yet."""
    if near.count:
        return near, True
    return (elsewhere, False) if elsewhere.count >= _LEAST_ELSEWHERE else None


@dataclass
class Arms:
    """Bets on the arms of jobs, as they came in.

    ``slower`` and ``faster`` are logarithms of wealth by effect and stake, shape (n, m): the one is
    large where the effect is larger than supposed, the other where it is smaller. ``slope`` are
    sums for the estimate. ``scales`` have counts and variances of times around the usual, near and
    elsewhere; ``users`` how many bets a user had part in.
    """

    jobs: int = 0
    slower: NDArray[np.float64] = field(default_factory=_nothing)
    faster: NDArray[np.float64] = field(default_factory=_nothing)
    slope: list[float] = field(default_factory=lambda: [0.0, 0.0])
    scales: dict[str, list[float]] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    capped: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Arms:
        """Return what `as_json` has turned into `values`."""
        arrays = {n: np.array(values[n]) for n in ("slower", "faster") if n in values}
        return cls(**{**values, **arrays})

    def as_json(self) -> dict[str, Any]:
        arrays = {n: np.round(getattr(self, n), 4).tolist() for n in ("slower", "faster")}
        return {**self.__dict__, **arrays}

    def take(
        self,
        seen: Sequence[Seen],
        *,
        is_in: bool,
        probability: float,
        user: str = "",
        user_share: float = 1.0,
    ) -> None:
        """Bet on one job, whose kinds of calls are `seen`.

        It was in the arm (`is_in`) with `probability`. Bets that it gains or does no harm are left
        out where `user` would carry more than `user_share` of them: nobody alone shows that a
        decision is harmless, whereas harm to one user is harm.
        """
        if not 0.0 < probability < 1.0 or not seen:
            return
        weight = math.fsum(one.weight for one in seen)
        shares = [one.weight / weight if weight else 1.0 / len(seen) for one in seen]
        sides = [self._surprise(one, is_in=is_in) for one in seen]
        surprise = np.sum([s * side for s, side in zip(shares, sides, strict=True)], axis=0)
        self.jobs += 1
        self.slower += _winnings(surprise, is_in=is_in, probability=probability)
        if self._may_speak(user, user_share):
            self.faster += _winnings(-surprise, is_in=is_in, probability=probability)
        for one, share in zip(seen, shares, strict=True):
            self._learn(one, share, is_in=is_in)

    def _surprise(self, one: Seen, *, is_in: bool) -> NDArray[np.float64]:
        off = one.log_s - one.usual.log_s
        effects = EFFECTS * (is_in - one.usual.share)
        scale = math.sqrt(self._scale(one.is_near)[1])
        return np.clip((off - effects) / scale, -_FARTHEST, _FARTHEST)

    def _scale(self, is_near: bool) -> list[float]:
        first = [_SCALE_WORTH, _FIRST_SCALES[is_near] ** 2]
        return self.scales.setdefault("near" if is_near else "elsewhere", first)

    def _learn(self, one: Seen, share: float, *, is_in: bool) -> None:
        scale = self._scale(one.is_near)
        off = one.log_s - one.usual.log_s
        scale[0] = min(scale[0] + 1, _REMEMBERED_SCALE)
        square = min(off * off, _FARTHEST**2 * scale[1])
        scale[1] = max(scale[1] + (square - scale[1]) / scale[0], _LEAST_VARIANCE)
        side = share * (is_in - one.usual.share)
        tamed = math.copysign(math.sqrt(square), off)
        self.slope = [self.slope[0] + side * tamed, self.slope[1] + side * side / share]

    def saved(self, one: Seen, *, is_in: bool, probability: float) -> SavedHours | None:
        """Return what a job says of the hours that the arm saves, None where it cannot say yet.

        Added up over all jobs, it is in the mean what the jobs in the arm saved (Robins,
        Rotnitzky, Zhao, Journal of the American Statistical Association 89, 1994), however long
        each was: by how much its calls took longer than without the arm, weighted by the draw. What
        they take without it is what is usual, less the part that the effect known so far has in it;
        where that is wrong, it costs precision alone.
        """
        if not one.is_near or one.usual.count < _LEAST_TO_SAVE or not 0.0 < probability < 1.0:
            return None
        effect = self.slope[0] / (self.slope[1] + _NO_EFFECT_WORTH)
        without = one.usual.log_s - effect * one.usual.share
        usual_hours = math.exp(without) * one.usual.calls
        longer = math.expm1(min(one.log_s - without, _LONGEST))
        others = probability / (1.0 - probability)
        scale = self.scales.setdefault("without", list(_FIRST_UNSURE))
        error = usual_hours * math.sqrt(others * scale[1])
        if is_in:
            return SavedHours(-longer * usual_hours, error)
        scale[0] = min(scale[0] + 1, _REMEMBERED_SCALE)
        scale[1] += (longer * longer - scale[1]) / scale[0]
        hours = longer * others * usual_hours
        return SavedHours(hours, max(error, abs(hours)))

    def _may_speak(self, user: str, share: float) -> bool:
        """Tell whether a user may carry one more bet, and count it."""
        if share >= 1.0:
            return True
        bets = self.jobs - self.capped
        if self.users.get(user, 0) >= max(_LEAST_OF_USER, share * bets):
            self.capped += 1
            return False
        self.users[user] = self.users.get(user, 0) + 1
        if len(self.users) > _MOST_USERS:
            del self.users[min(self.users, key=lambda user: self.users[user])]
        return True

    def log_e_above(self, effect: float) -> float:
        """Return the log evidence that the effect is larger: the arm is slower than that."""
        at = int(np.searchsorted(EFFECTS, effect - _SAME))
        return float(_mean(self.slower)[min(at, len(EFFECTS) - 1)])

    def log_e_below(self, effect: float) -> float:
        """Return the log evidence that the effect is smaller: the arm is faster than that."""
        at = int(np.searchsorted(EFFECTS, effect + _SAME)) - 1
        return float(_mean(self.faster)[max(at, 0)])

    def interval(self, alpha: float = 0.05) -> EffectInterval | None:
        """Return the effects that are not refuted; None while an end is open."""
        found = self.bounded(alpha)
        is_open = found is None or found.lower < EFFECTS[0] or found.upper > EFFECTS[-1]
        return None if is_open else found

    def bounded(self, alpha: float = 0.05) -> EffectInterval | None:
        """Return the same with an infinite end where nothing is refuted; None without any bet."""
        needed = math.log(2.0 / alpha)
        above = EFFECTS[_mean(self.slower) >= needed]
        below = EFFECTS[_mean(self.faster) >= needed]
        lower = float(above.max()) if above.size else -math.inf
        upper = float(below.min()) if below.size else math.inf
        if not self.slope[1] or lower > upper:
            return None
        told = self.slope[0] / self.slope[1]
        return EffectInterval(min(max(told, lower), upper), lower, upper, self.jobs)


@dataclass
class Total:
    """A sum over jobs of what each saved, and the variance that the draw gives it."""

    hours: float = 0.0
    squares: float = 0.0

    def add(self, saved: SavedHours) -> None:
        self.hours += saved.hours
        self.squares += saved.error**2

    @property
    def interval(self) -> tuple[float, float, float]:
        """The sum, and its interval of 95 %, at every look."""
        half = AT_ANY_LOOK * math.sqrt(self.squares)
        return self.hours, self.hours - half, self.hours + half


def _winnings(
    surprise: NDArray[np.float64], *, is_in: bool, probability: float
) -> NDArray[np.float64]:
    bets = surprise[:, None] * STAKES
    fair = np.log1p(probability * np.expm1(bets))
    won: NDArray[np.float64] = bets * is_in - fair
    return won


def _mean(wealth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the mean wealth over the stakes, shape (n)."""
    most = wealth.max(axis=1)
    mean: NDArray[np.float64] = most + np.log(np.exp(wealth - most[:, None]).mean(axis=1))
    return mean


@dataclass
class BatchLevel:
    """Whether a level shifts: means of batches of jobs, as logarithms.

    An e-detector (Shin, Ramdas, Rinaldo, New England Journal of Statistics in Data Science 2,
    2024): the e-values of a shift at each of the latest moments are added up, so that a false alarm
    comes once in ``1 / RATE`` batches at most, in the mean. The evidence is the Bayes factor of a
    shift that is normal with variance ``PRIOR`` in units of the scatter, with the right-Haar prior
    on the scale (Rouder et al., Psychonomic Bulletin & Review 16, 2009; Lai, Annals of Statistics
    4, 1976). A level is taken to move by ``USUAL`` from batch to batch, which counts as much as
    ``WORTH`` batches; shifts are some times as large.
    """

    batches: list[float] = field(default_factory=list)

    MOST, LEAST, STARTS = 96, 6, 12
    SMALLEST = math.log(1.05)
    RATE = 1e-4
    USUAL, WORTH, PRIOR = 0.03, 4, 10.0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.batches)

    def add(self, value: float) -> float | None:
        """Take in a batch; return the shift where there is one.

        What was before the shift is forgotten then.
        """
        self.batches = [*self.batches, round(value, 5)][-self.MOST :]
        ends = range(max(self.LEAST, len(self.batches) - self.STARTS), len(self.batches))
        shifts = {at: self._shift(at) for at in ends}
        evidence = math.fsum(math.exp(min(log_e, 500.0)) for _, log_e in shifts.values())
        if evidence < 1.0 / self.RATE:
            return None
        at = max(shifts, key=lambda start: shifts[start][1])
        if abs(shifts[at][0]) < self.SMALLEST:
            return None
        self.batches = self.batches[at:]
        return shifts[at][0]

    def _shift(self, at: int) -> tuple[float, float]:
        old, new = self.batches[:at], self.batches[at:]
        shift = statistics.fmean(new) - statistics.fmean(old)
        freedom = len(self.batches) - 2 + self.WORTH
        spread = statistics.pvariance(old) * len(old) + statistics.pvariance(new) * len(new)
        variance = (spread + self.WORTH * self.USUAL**2) / freedom
        size = len(old) * len(new) / len(self.batches)
        return shift, self._log_bayes_factor(size, size * shift**2 / variance, freedom)

    def _log_bayes_factor(self, size: float, t_squared: float, freedom: float) -> float:
        shrunk = 1.0 + size * self.PRIOR
        ratio = t_squared / freedom
        gain = math.log1p(ratio) - math.log1p(ratio / shrunk)
        return 0.5 * ((freedom + 1.0) * gain - math.log(shrunk))
