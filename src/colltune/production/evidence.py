"""Statistics of the judgement: what jobs of different arms tell, whenever anybody looks.

Jobs of one program, shape, layout and message size follow each other. A job of the rarer arm is
compared with the mean of its two neighbours of the other arm, so that whatever changes slowly, or
for all arms alike, cancels. As the service draws the arms, the expected difference is the effect.

The test is the scale-invariant t-test as an e-value, which may be looked at after every job: the
Bayes factor of an effect size that is normal with variance `PRIOR` (Rouder et al., Psychonomic
Bulletin & Review 16, 2009) with the right-Haar prior on the scale (Pérez-Ortiz, Lardy, de Heide,
Grünwald, Annals of Statistics 52, 2024; Lai, Annals of Statistics 4, 1976). Neighbours of one arm
tell the scale, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PRIOR = 1.0
"""Variance of effect sizes: a decision makes jobs differ by about their own scatter."""
INTERVAL_ALPHA = 0.05
LEAST = 4
"""Differences on which a verdict rests at least."""
GROUPS = 16
_STUDENT = 2.131
"""Of 15 degrees of freedom, 95 % on both sides: of a jackknife by 16 groups."""
_LEAST_SD = 0.01
_LARGEST = math.log(16.0)
_KEPT, _FEW, _TAILS = 31, 5, 6.0
_NORMAL = 1.4826
_LEAST_TAIL = 0.05
_MOST_SAME = 64
_MORE_SAME = 3
_LEAST_OF_USER = 2
_MOST_USERS = 64


class Interval(NamedTuple):
    """An estimate, and its confidence sequence at one moment, as logarithms of ratios."""

    mean: float
    lower: float
    upper: float


def log_bayes_factor(size: float, t_squared: float, freedom: float, prior: float = PRIOR) -> float:
    """Return the logarithm of the evidence against no effect, of a t of so many differences."""
    shrunk = 1.0 + size * prior
    ratio = t_squared / freedom
    gain = math.log1p(ratio) - math.log1p(ratio / shrunk)
    return 0.5 * ((freedom + 1.0) * gain - math.log(shrunk))


@dataclass
class Evidence:
    """Differences of jobs, one for each job of the rarer arm, as they came in.

    ``count``, ``mean`` and ``squares`` (of deviations) are of differences, ``same`` and
    ``same_square`` count neighbours of one arm and have their mean squared difference; ``groups``
    have counts and sums for a jackknife by groups of jobs, ``users`` how many differences a user
    had part in, ``recent`` the latest.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    same: int = 0
    same_square: float = 0.0
    groups: dict[str, list[float]] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    recent: list[float] = field(default_factory=list)

    def add(self, value: float, group: int = 0, users: Iterable[str] = ()) -> None:
        value = self._tamed(value)
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self.squares += off * (value - self.mean)
        of_group = self.groups.setdefault(str(group % GROUPS), [0, 0.0])
        of_group[0] += 1
        of_group[1] += value
        self.recent = [*self.recent, round(value, 4)][-_KEPT:]
        for user in filter(None, set(users)):
            self.users[user] = self.users.get(user, 0) + 1
        if len(self.users) > _MOST_USERS:
            del self.users[min(self.users, key=lambda user: self.users[user])]

    def add_same(self, value: float) -> None:
        """Take in a difference between jobs of one arm, which tells the scale alone."""
        value = max(-_LARGEST, min(_LARGEST, value))
        self.same = min(self.same + 1, _MOST_SAME)
        self.same_square += (value * value - self.same_square) / self.same

    def is_full_of(self, user: str, share: float) -> bool:
        """Tell whether a user would carry more than `share` of the weight."""
        limit = max(_LEAST_OF_USER, share * (self.count + 1))
        return bool(user) and self.users.get(user, 0) >= limit

    def _tamed(self, value: float) -> float:
        """Return a difference without its tail, by what came before it."""
        value = max(-_LARGEST, min(_LARGEST, value))
        if len(self.recent) < _FEW:
            return value
        middle = statistics.median(self.recent)
        spread = _NORMAL * statistics.median(abs(one - middle) for one in self.recent)
        tail = _TAILS * max(spread, _LEAST_TAIL)
        return max(middle - tail, min(middle + tail, value))

    @property
    def freedom(self) -> int:
        return self.count - 1 + min(self.same, self.count + _MORE_SAME)

    @property
    def variance(self) -> float:
        own = self.freedom - self.count + 1
        found = (self.squares + own * self.same_square) / self.freedom
        return max(found, _LEAST_SD**2)

    def log_e(self, sign: int) -> float:
        """Return the logarithm of the e-value for an effect of this sign, -1 or 1.

        Under no effect, or one of the other sign, it exceeds 1/alpha at any time with a chance of
        alpha at most.
        """
        if self.count < LEAST:
            return 0.0
        t_squared = self.count * self.mean**2 / self.variance
        two_sided = log_bayes_factor(self.count, t_squared, self.freedom)
        shrunk = 1.0 + self.count * PRIOR
        scale = (self.freedom * self.variance + self.count * self.mean**2 / shrunk) / (
            self.freedom + 1
        )
        t_after = self.mean * self.count * math.sqrt(PRIOR / (shrunk * scale))
        return two_sided + math.log(max(2.0 * _student(self.freedom + 1, sign * t_after), 1e-300))

    def interval(self, alpha: float = INTERVAL_ALPHA) -> Interval | None:
        """Return the effects that the evidence does not exclude at `alpha`, None for no bounds."""
        if self.count < 2:
            return None
        size, freedom = self.count, self.freedom
        shrunk = 1.0 + size * PRIOR
        limit = (math.sqrt(shrunk) / alpha) ** (2.0 / (freedom + 1.0))
        if limit >= shrunk:
            return None
        t_squared = freedom * (limit - 1.0) / (1.0 - limit / shrunk)
        half = math.sqrt(t_squared * self.variance / size)
        return Interval(self.mean, self.mean - half, self.mean + half)


def _student(freedom: float, value: float) -> float:
    """Return Student's distribution function."""
    from scipy.special import stdtr

    return float(stdtr(freedom, value))


class Difference(NamedTuple):
    """What a sequence of jobs tells: ``value`` is the rarer arm less its neighbours.

    ``is_same``: all jobs were of one arm. ``group`` is that of the job in the middle.
    """

    value: float
    is_same: bool
    group: int
    users: tuple[str, ...]


@dataclass
class Neighbours:
    """Jobs of two arms in the order in which they came: ``before`` of the one, ``middle`` after.

    ``before`` are up to two of the more frequent arm, ``middle`` sum and count of the rarer one.
    """

    before: list[float] = field(default_factory=list)
    middle: list[float] = field(default_factory=list)
    group: int = 0
    users: list[str] = field(default_factory=list)

    def take(self, value: float, *, is_rarer: bool, group: int, user: str) -> Difference | None:
        if is_rarer:
            if self.before:
                total, count = self.middle or (0.0, 0)
                self.middle, self.group = [total + value, count + 1], group
                self._note(user)
            return None
        if self.middle:
            middle = self.middle[0] / self.middle[1]
            return self._closed(middle - (self.before[-1] + value) / 2, user, is_same=False)
        if len(self.before) == 2:
            first, middle = self.before
            found = self._closed(middle - (first + value) / 2, user, is_same=True)
            self.before, self.users = [value], [user] if user else []
            return found
        self.before.append(value)
        self._note(user)
        return None

    def _note(self, user: str) -> None:
        if user and user not in self.users:
            self.users.append(user)

    def _closed(self, value: float, user: str, *, is_same: bool) -> Difference:
        self._note(user)
        found = Difference(value, is_same, self.group, tuple(self.users))
        self.before, self.middle, self.users = [], [], []
        return found


def discoveries(log_e: Mapping[str, float], rate: float) -> set[str]:
    """Return which hypotheses to reject: at most a share `rate` of these wrongly, in the mean.

    The e-BH procedure (Wang, Ramdas, Journal of the Royal Statistical Society B 84, 2022), for
    e-values that depend on each other in any way.
    """
    ranked = sorted(log_e, key=lambda name: -log_e[name])
    needed = math.log(len(ranked) / rate) if ranked else 0.0
    last = 0
    for number, name in enumerate(ranked, start=1):
        if log_e[name] + math.log(number) >= needed:
            last = number
    return set(ranked[:last])


@dataclass(frozen=True)
class Decided:
    """What a decision did to ``hours`` node-hours of collectives, one of a ``family``."""

    family: str
    hours: float
    evidence: Evidence


def saved(decisions: Sequence[Decided]) -> tuple[float, float, float]:
    """Return the hours that decisions saved, and the 95 % interval.

    Calls of one job are not independent: the variance is that of a jackknife which leaves out a
    group of jobs at a time from all decisions at once (Kott, Journal of Official Statistics 17,
    2001).
    """
    expected = _saved(decisions, None)
    without = [_saved(decisions, str(group)) for group in range(GROUPS)]
    middle = math.fsum(without) / GROUPS
    variance = math.fsum((one - middle) ** 2 for one in without) * (GROUPS - 1) / GROUPS
    half = _STUDENT * math.sqrt(variance)
    return expected, expected - half, expected + half


def _saved(decisions: Sequence[Decided], left_out: str | None) -> float:
    counts: dict[str, list[float]] = {}
    found: list[tuple[Decided, float, float]] = []
    for one in decisions:
        count, total = _sums(one.evidence, left_out)
        of_family = counts.setdefault(one.family, [0.0, 0.0])
        of_family[0] += count
        of_family[1] += total
        found.append((one, count, total))
    means = {family: total / count if count else 0.0 for family, (count, total) in counts.items()}
    # a replicate may leave a decision without any difference
    return math.fsum(
        one.hours * _share_saved(one.evidence.variance, count, total / count)
        if count
        else one.hours * _share_saved(one.evidence.variance, 1.0, means[one.family])
        for one, count, total in found
    )


def _sums(evidence: Evidence, left_out: str | None) -> tuple[float, float]:
    count, total = float(evidence.count), evidence.mean * evidence.count
    if left_out in evidence.groups:
        fewer, less = evidence.groups[left_out]
        return count - fewer, total - less
    return count, total


def _share_saved(variance: float, count: float, effect: float) -> float:
    """Return exp(-effect) - 1, less what scatter adds to it in the mean."""
    return math.exp(-effect - variance / count / 2.0) - 1.0


@dataclass
class Level:
    """Whether a level shifts: means of batches of jobs, as logarithms.

    An e-detector (Shin, Ramdas, Rinaldo, New England Journal of Statistics in Data Science 2,
    2024): the e-values of a shift at each of the latest moments are added up, so that a false alarm
    comes once in ``1 / RATE`` batches at most, in the mean. A level is taken to move by ``USUAL``
    from batch to batch, which counts as much as ``WORTH`` batches; shifts are some times as large.
    """

    batches: list[float] = field(default_factory=list)

    MOST, LEAST, STARTS = 96, 6, 12
    SMALLEST = math.log(1.05)
    RATE = 1e-4
    USUAL, WORTH, PRIOR = 0.03, 4, 10.0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.batches) if self.batches else 0.0

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
        return shift, log_bayes_factor(size, size * shift**2 / variance, freedom, self.PRIOR)
