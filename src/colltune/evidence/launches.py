"""What launches tell that measured two configurations beside each other.

The log ratio of their times scatters over the turns within a launch, and each launch shifts it,
which no number of repetitions averages out. So launches are the units. Few of them tell little of
their own noise: it is taken together with what other configurations in the same launches tell, and
with what other machines tell, as a moderated t (Smyth, Statistical Applications in Genetics and
Molecular Biology 3, 2004).

A run looks after each of `LOOKS` launches, at levels that have 5 % together (Jennison, Turnbull,
Group Sequential Methods, 2000): low ones at the first two, which cannot tell whether launches
resemble their neighbours. Where those after them do, or nobody knows, and where launches come from
several occasions, a sequence decides that holds at any time: a mixture over gains (Lai, Annals of
Statistics 4, 1976).

Last comes what is rejected of many hypotheses at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

K = TypeVar("K", bound=Hashable)
Z95, Z90 = 1.96, 1.645
"""Standard deviations on either side of the mean that hold 95 % and 90 % of a normal variable."""
TYPICAL = 0.6745
"""Standard deviations on either side that hold one half."""

LOOKS = (2, 3, 4, 5, 6)
"""After how many launches a run looks."""
ALPHA = 0.05
_EARLY_LOOKS = 3
_AT_A_LOOK = {True: 0.01, False: 0.0233}
"""The levels of an early look and of a later one, so that all `LOOKS` together have `ALPHA`."""
MOST_ALIKE = 0.3
"""From this correlation on launches count as alike."""
_SURE = 1.0
_LEAST_IN_ORDER = 3
NO_GAIN = math.log(1.01)
"""A log gain below this is not worth having."""
_LEAST_CANDIDATES = 3
"""The level is that of so many candidates at least, since noise that all share is known badly."""
_MOST_WORTH = 4.0
_BEHIND = 1.28
_FEW_TURNS, _FEW_TIMES = 3, 3.0
_CLOCKS_S = (1e-6, 1e-7, 1e-8, 1e-9)
_MOST_TIMES_USUAL = 3.0
_LEAST_TICKS, _TICK_ERROR = 10, 1e-6
_PRIOR = 8.0
_FEW_CELLS, _USUAL_VARIANCE = 5, 0.1**2


class LaunchVerdict(StrEnum):
    """What launches prove of a configuration against the default."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "alike"
    OPEN = "open"
    NOT_COMPARED = "not compared"


class Noise(NamedTuple):
    """The standard deviation of a log ratio between launches, and the degrees of freedom behind it.

    ``worth`` is how many differences between launches ``sd`` rests on; ``alike`` by how much, at
    most, a launch resembles the one before, NaN where nothing tells.
    """

    sd: float
    worth: float
    alike: float = math.nan

    def detectable(self, launches: float) -> float:
        """Return the log gain of so many launches that is 1.96 standard errors from none."""
        return Z95 * self.sd / math.sqrt(launches)


MACHINE = Noise(0.05, 1.0)
"""What other machines tell; it counts as much as one difference between launches."""


class LaunchGain(NamedTuple):
    """The log gain of a launch; ``inside`` is its variance by the turns, NaN if there is one."""

    log: float
    inside: float
    turns: int


class Sums(NamedTuple):
    """What is kept of log gains: how many launches, their mean, and their squared deviations.

    ``inside`` is the mean variance within a launch, NaN where a launch does not tell it.
    """

    launches: int
    log: float
    squares: float
    inside: float

    @classmethod
    def of(cls, gains: Iterable[LaunchGain]) -> Self | None:
        """Return the sums of launches; None of none."""
        found = list(gains)
        if not found:
            return None
        logs = np.array([gain.log for gain in found])
        inside = float(np.mean([gain.inside for gain in found]))
        squares = float(((logs - logs.mean()) ** 2).sum())
        return cls(len(found), float(logs.mean()), squares, inside)

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both, of other launches each."""
        launches = self.launches + other.launches
        share, apart = other.launches / launches, other.log - self.log
        squares = self.squares + other.squares + apart**2 * self.launches * share
        inside = self.inside + share * (other.inside - self.inside)
        return Sums(launches, self.log + share * apart, squares, inside)


class GainInterval(NamedTuple):
    """A log gain, what holds it with 95 % over all looks, and in how many launches."""

    log: float
    lower: float
    upper: float
    launches: int


Turns = Sequence[Sequence[float] | NDArray[np.float64]]
"""Repetitions in seconds by the number of a launch's turn; none where a turn was not made."""


def launch_gain(default: Turns, other: Turns) -> LaunchGain | None:
    """Return how much faster `other` was than `default`, by turns of the same number.

    None if no turn has both, a time is not positive, or the clock is too coarse for it.
    """
    pairs = [
        (np.asarray(d, np.float64), np.asarray(o, np.float64))
        for d, o in zip(default, other, strict=False)
        if len(d) and len(o)
    ]
    if not pairs:
        return None
    medians = np.stack([_medians(side) for side in zip(*pairs, strict=True)], axis=1)
    if not (np.isfinite(medians).all() and (medians > 0).all()):
        return None
    step_s = _clock_s(np.concatenate([times_s for pair in pairs for times_s in pair]))
    if medians.min() < _LEAST_TICKS * step_s:
        return None
    logs, turns = np.log(medians[:, 0] / medians[:, 1]), len(medians)
    if turns < 2:
        return LaunchGain(float(logs[0]), math.nan, 1)
    # few turns tell little of their own scatter
    few = _FEW_TIMES if turns <= _FEW_TURNS else 1.0
    ticks = step_s**2 / 12 * float((1 / medians**2).sum()) / turns**2
    return LaunchGain(float(logs.mean()), few * float(logs.var(ddof=1)) / turns + ticks, turns)


def _medians(turns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len(set(map(len, turns))) == 1:
        return np.asarray(np.median(np.array(turns), axis=1))
    return np.array([np.median(times_s) for times_s in turns])


def _clock_s(times_s: NDArray[np.float64]) -> float:
    """Return the step of the clock that told `times_s`, 0 where no step is seen."""
    for step_s in _CLOCKS_S:
        ticks = times_s[np.isfinite(times_s)] / step_s
        if (np.abs(ticks - np.rint(ticks)) < _TICK_ERROR).all():
            return step_s
    return 0.0


def usual(launches: ArrayLike, squares: ArrayLike) -> Noise | None:
    """Return by how much launches differ at the usual cell of a set.

    `launches` are how many each cell has, `squares` their squared deviations. A set is worth its
    launches less one, however many cells it has: what moves all of them alike shows itself once.
    Cells of a single launch tell nothing; None without others. A few wild cells do not count. That
    is what a decision about any cell is weighed by; a proof needs what `told` returns.
    """
    freedom, sums = _several(launches, squares)
    if not len(freedom):
        return None
    # the median of chi-squared by Wilson and Hilferty
    medians = freedom * (1.0 - 2.0 / (9.0 * freedom)) ** 3
    return Noise(math.sqrt(float(np.median(sums / medians))), float(np.median(freedom)))


def told(launches: ArrayLike, squares: ArrayLike) -> Noise | None:
    """Return by how much launches differ in the mean over a set's cells, as `usual` does.

    Tails count, since false gains come from them, but a cell counts for three times the usual
    standard deviation at most: one that stalls makes no noise for all others.
    """
    middle = usual(launches, squares)
    if middle is None:
        return None
    freedom, sums = _several(launches, squares)
    most = (_MOST_TIMES_USUAL * max(middle.sd, MACHINE.sd)) ** 2 * freedom
    variance = float(np.minimum(sums, most).sum() / freedom.sum())
    return middle._replace(sd=math.sqrt(variance))


def _several(launches: ArrayLike, squares: ArrayLike) -> tuple[NDArray[np.float64], ...]:
    """Return the degrees of freedom and the squares of cells that have several launches."""
    numbers, sums = np.asarray(launches, np.float64), np.asarray(squares, np.float64)
    known = (numbers > 1) & np.isfinite(sums)
    return numbers[known] - 1.0, sums[known]


def of_one_launch(bends: ArrayLike, ranges: ArrayLike, *, together: bool) -> Noise:
    """Return the noise of a log ratio of cells that were measured in one launch each.

    `bends` are how far log gains lie from the middle of those of their neighbouring sizes; without
    any, `ranges` tell it, log ratios of the slowest over the fastest process. Either holds what is
    true as well, and so is a bound. What a launch does to all sizes alike shows in neither: it is
    as other machines tell, twice where default and candidate were not launched `together`.
    """
    apart, over_ranks = (np.abs(np.asarray(known, np.float64)) for known in (bends, ranges))
    apart, over_ranks = apart[np.isfinite(apart)], over_ranks[np.isfinite(over_ranks)]
    seen = 0.0
    if len(apart):
        # the mean of both neighbours adds half a variance
        seen = float(np.median(apart)) / TYPICAL / math.sqrt(1.5)
    elif len(over_ranks):
        # which holds 95 % of one time, of two in a ratio
        seen = float(np.median(over_ranks)) / (2 * Z95) * math.sqrt(2.0)
    unseen = MACHINE.sd * (1.0 if together else math.sqrt(2.0))
    return Noise(max(unseen, seen), MACHINE.worth)


def averaged(told_by: Iterable[Noise | None], known: Noise = MACHINE) -> Noise:
    """Return the noise that sets of launches tell together with what was known before."""
    found = [known, *(noise for noise in told_by if noise is not None)]
    worth = sum(noise.worth for noise in found)
    return Noise(math.sqrt(sum(n.worth * n.sd**2 for n in found) / worth), worth)


def pooled(
    sets: Iterable[Iterable[Sums | None]], known: Noise = MACHINE, inside: float = 0.0
) -> Noise:
    """Return the noise that sets of launches tell together with what was known before.

    A set holds the sums of all cells of the same launches. `inside` is the variance within a launch
    of what the noise is asked for; where it is unknown it counts as much as that between launches.
    """
    within = MACHINE.sd**2 if math.isnan(inside) else inside
    cells = [[cell for cell in one if cell is not None] for one in sets]
    return averaged(
        (told([c.launches for c in one], [c.squares for c in one]) for one in cells),
        Noise(math.sqrt(known.sd**2 + within), known.worth),
    )


def interval(
    sums: Sums | None,
    noise: Noise,
    *,
    candidates: int = _LEAST_CANDIDATES,
    sequence: bool = False,
) -> GainInterval | None:
    """Return what holds the log gain of one of `candidates`; None with less than two launches.

    With `sequence`, with more launches than are planned, and where launches may be alike, it holds
    however many launches there will be; else at all looks of one run.
    """
    if sums is None or sums.launches < 2:
        return None
    n, among = sums.launches, max(_LEAST_CANDIDATES, candidates)
    variance, freedom = _variance(sums, noise)
    is_early = n <= _EARLY_LOOKS
    is_planned = is_early or (n <= LOOKS[-1] and noise.alike < MOST_ALIKE)
    if is_planned and not sequence:
        half = _t(_AT_A_LOOK[is_early] / among, freedom) * math.sqrt(variance / n)
    else:
        half = math.sqrt(variance * _mixture(n, freedom, ALPHA / among))
    return GainInterval(sums.log, sums.log - half, sums.log + half, n)


def likeness(cells: Iterable[Iterable[Mapping[str, float]]]) -> float:
    """Return how much a launch resembles the one before at most, as a correlation.

    Each of `cells` has the log gains of its candidates by launch, in order of time. Differences of
    neighbours are set against deviations from the mean (von Neumann, Annals of Mathematical
    Statistics 12, 1941); what moves all cells alike makes fewer witnesses of them. It is the upper
    end of a one-sided interval of 84 %; NaN where no cell has three launches that differ.
    """
    shared = whole = 0.0
    lengths: list[int] = []
    beside: dict[str, list[float]] = defaultdict(list)
    witnesses = 0
    for candidates in cells:
        own: dict[str, float] = defaultdict(float)
        for gains in candidates:
            n = len(gains)
            if n < _LEAST_IN_ORDER:
                continue
            logs = np.array([*gains.values()])
            off = logs - logs.mean()
            squares = float(off @ off)
            shared += squares - float((np.diff(logs) ** 2).sum()) / 2
            whole += squares * (1 - 2 / n)
            lengths.append(n)
            for launch, deviation in zip(gains, off.tolist(), strict=True):
                own[launch] += deviation
        witnesses += bool(own)
        for launch, deviation in own.items():
            beside[launch].append(deviation)
    if not whole > 0:
        return math.nan
    rows = [np.array(deviations) for deviations in beside.values()]
    apart = sum((len(row) - 1) * float(row @ row) for row in rows)
    together = sum(float(row.sum()) ** 2 - float(row @ row) for row in rows)
    common = min(max(together / apart, 0.0), 1.0) if apart > 0 else 0.0
    others = float(np.mean([len(row) - 1 for row in rows]))
    n_mean = float(np.mean(lengths))
    of_one = n_mean**2 / ((n_mean - 2) * (n_mean**2 - 1))
    return shared / whole + _SURE * math.sqrt(of_one * (1 + others * common**2) / witnesses)


def error(sums: Sums, noise: Noise) -> float:
    """Return the standard error of a mean log gain."""
    return math.sqrt(_variance(sums, noise)[0] / sums.launches)


def launches_to_prove(log: float, noise: Noise) -> int | None:
    """Return after how many launches of a run a log gain is proved; None: not within its looks."""
    return next((n for n in LOOKS if log > _half(n, noise)), None)


def chance_of_proof(sums: Sums, noise: Noise) -> float:
    """Return the chance that further launches of a run prove a gain."""
    of_mean, missing = error(sums, noise), _half(LOOKS[-1], noise) - sums.log
    return math.erfc(missing / of_mean / math.sqrt(2.0)) / 2 if of_mean else float(missing < 0)


def _half(launches: int, noise: Noise) -> float:
    """Return half the width of the interval of so many usual launches."""
    found = interval(Sums(launches, 0.0, 0.0, 0.0), noise)
    return found.upper if found else math.inf


def at_one_look(sums: Sums, noise: Noise, level: float = ALPHA) -> GainInterval | None:
    """Return what holds the log gain where nobody looks twice; None with less than two launches."""
    if sums.launches < 2:
        return None
    variance, freedom = _variance(sums, noise)
    half = _t(level, freedom) * math.sqrt(variance / sums.launches)
    return GainInterval(sums.log, sums.log - half, sums.log + half, sums.launches)


def chance_of_slower(sums: Sums, noise: Noise) -> float | None:
    """Return how often what changes nothing looks as slow; None with less than two launches."""
    from scipy.special import stdtr

    if sums.launches < 2:
        return None
    variance, freedom = _variance(sums, noise)
    return float(stdtr(freedom, sums.log / math.sqrt(variance / sums.launches)))


def _variance(sums: Sums, noise: Noise) -> tuple[float, float]:
    """Return the variance of a launch's log gain, and its degrees of freedom.

    Launches that happen to agree are no surer than usual ones.
    """
    worth = min(_MOST_WORTH, noise.worth)
    freedom = worth + sums.launches - 1
    own = (worth * noise.sd**2 + sums.squares) / freedom
    return max(noise.sd**2, own), freedom


def _mixture(n: int, freedom: float, alpha: float) -> float:
    """Return the squared half-width of the sequence, in variances of a launch."""
    shrunk = 1.0 + _PRIOR * n
    limit = (math.sqrt(shrunk) / alpha) ** (2.0 / (freedom + 1.0))
    return freedom * (limit - 1.0) / (1.0 - limit / shrunk) / n if limit < shrunk else math.inf


def _t(both_sides: float, freedom: float) -> float:
    """Return the quantile of Student's distribution that leaves so much on both sides."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1.0 - both_sides / 2.0))


def verdict(found: GainInterval | None, worth: float = NO_GAIN) -> LaunchVerdict:
    """Return what an interval of a log gain proves; `worth` is the least that is worth having."""
    if found is None or math.isnan(found.lower) or math.isnan(found.upper):
        return LaunchVerdict.NOT_COMPARED
    if found.lower > 0:
        return LaunchVerdict.FASTER
    if found.upper < 0:
        return LaunchVerdict.SLOWER
    return LaunchVerdict.ALIKE if found.upper < worth else LaunchVerdict.OPEN


def leading(sums: Mapping[K, Sums], noise: Noise) -> set[K]:
    """Return which candidates the next launch carries on.

    Those that are clearly behind the best, or behind the default, are not.
    """
    best = max((one.log for one in sums.values()), default=0.0)
    return {
        key for key, one in sums.items() if one.log >= max(best, 0.0) - _BEHIND * error(one, noise)
    }


def shrunk(found: Sequence[tuple[Sums, Noise]]) -> list[float]:
    """Return log gains as they are to be expected again, given all that a run measured.

    Those that won are more often lucky ones. Gains are taken to be normal, with the mean and
    variance that all of them tell (DerSimonian, Laird, Controlled Clinical Trials 7, 1986); of few
    nothing tells, so that none is expected.
    """
    if not found:
        return []
    logs = np.array([sums.log for sums, _ in found])
    variances = np.array([error(sums, noise) ** 2 for sums, noise in found])
    mean, spread = 0.0, _USUAL_VARIANCE
    if len(found) >= _FEW_CELLS:
        weights = 1.0 / variances
        total = weights.sum()
        middle = (weights * logs).sum() / total
        beyond = (weights * (logs - middle) ** 2).sum() - (len(found) - 1)
        spread = max(0.0, beyond / (total - (weights**2).sum() / total))
        weights = 1.0 / (variances + spread)
        mean = float((weights * logs).sum() / weights.sum())
    expected = (spread * logs + variances * mean) / (variances + spread)
    return [float(log) for log in expected]


def noticeable(variance: ArrayLike) -> NDArray[np.float64]:
    """Return the least difference that is told from none, given the variance of differences."""
    return np.asarray(Z95 * np.sqrt(variance))


def allowed_variance(difference: float) -> float:
    """Return the variance of differences with which one as large is just told from none."""
    return (difference / Z95) ** 2


def sd_behind(lower: ArrayLike, upper: ArrayLike, limit: float = Z95) -> NDArray[np.float64]:
    """Return the standard deviation behind intervals of so many of them on either side."""
    return np.asarray(np.subtract(upper, lower) / (2.0 * limit))


def ends_of_variance(variance: float, freedom: float) -> tuple[float, float]:
    """Return the ends of the interval of 95 % of a variance of so many degrees of freedom."""
    from scipy.special import chdtri

    low, high = (freedom * variance / float(chdtri(freedom, p)) for p in (0.025, 0.975))
    return low, high


def held(draws: NDArray[Any], share: float) -> tuple[float, float]:
    """Return the ends of what holds this share of draws, as many left out on either side."""
    low, high = np.quantile(draws, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


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


def rejected(chances: Mapping[K, float], alpha: float = 0.05) -> set[K]:
    """Return which hypotheses to reject: any of these wrongly in a share `alpha` of all families.

    Holm's procedure (Scandinavian Journal of Statistics 6, 1979), for chances that depend on each
    other in any way.
    """
    found: set[K] = set()
    for at, name in enumerate(sorted(chances, key=lambda name: chances[name])):
        if chances[name] * (len(chances) - at) > alpha:
            break
        found.add(name)
    return found
