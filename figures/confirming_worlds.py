"""Whether what is confirmed is true: simulated campaigns, judged and planned as `confirm` does.

In a world, launches shift the time of each configuration, turns within a launch scatter, and one
candidate gains something or nothing does. What is left open is measured in another launch, up to
six of them. Each case is a world, a number of contests and of candidates.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.selector.confirming import (
    MOST_LAUNCHES,
    ROUNDS,
    Cell,
    ContestedInstance,
    ContestState,
    judge,
)
from figures.figure import Figure

CONTESTS = int(os.environ.get("COLLTUNE_CONTESTS", "300"))
_SEED = 29
_BCAST = Collective.BCAST
_DEFAULT = Configuration.default("openmpi", _BCAST)
_CANDIDATES = tuple(Configuration("openmpi", _BCAST, name) for name in ("chain", "binary", "ring"))
_TIME_S, _TURN_SD = 0.006, 0.03
_SIZES = ((1, 3), (5, 1), (5, 3), (20, 3), (40, 1))
_GAINS = (1.05, 1.1, 1.2, 1.5)


@dataclass(frozen=True)
class World:
    """How launches shift times, all as standard deviations of log ratios between launches.

    ``shared`` is the share of it that moves all sizes alike, ``hetero`` by how much the noise of
    contests differs, ``missing`` the share of cells that a launch lacks, ``alike`` how much a
    launch resembles the one before, ``drift`` how fast the first candidate changes.
    """

    name: str
    sd: float
    kind: Literal["normal", "t3", "contaminated"] = "normal"
    shared: float = 0.1
    hetero: float = 0.0
    missing: float = 0.0
    alike: float = 0.0
    drift: float = 0.0

    def drawn(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return numbers with mean 0 and variance 1."""
        if self.kind == "t3":
            return np.asarray(rng.standard_t(3, shape) / math.sqrt(3))
        values = rng.normal(0.0, 1.0, shape)
        if self.kind == "contaminated":
            values *= np.where(rng.random(shape) < 0.1, 4.0, 1.0) / math.sqrt(0.9 + 0.1 * 16)
        return values

    def shifts(self, rng: np.random.Generator, contests: int, own: int) -> NDArray[np.float64]:
        """Return the log times of so many contests, configurations and launches; NaN: missing."""
        shape = (contests, own, MOST_LAUNCHES)
        common, alone = self.drawn(rng, (1, *shape[1:])), self.drawn(rng, shape)
        logs = math.sqrt(self.shared) * common + math.sqrt(1.0 - self.shared) * alone
        for launch in range(1, MOST_LAUNCHES):
            fresh = math.sqrt(1.0 - self.alike**2) * logs[..., launch]
            logs[..., launch] = self.alike * logs[..., launch - 1] + fresh
        spread = np.exp(rng.normal(0.0, self.hetero, (contests, 1, 1)) - self.hetero**2)
        logs *= self.sd / math.sqrt(2.0) * spread
        logs[:, 1] += self.drift * rng.normal() * np.arange(MOST_LAUNCHES)
        return np.where(rng.random(shape) < self.missing, np.nan, logs)


_WORLDS = (
    World("normal .01", 0.01),
    World("normal .05", 0.05),
    World("normal .15", 0.15),
    World("t3 .05", 0.05, "t3"),
    World("t3 .15", 0.15, "t3"),
    World("contaminated .10", 0.1, "contaminated"),
    World("noise differs by contest", 0.07, hetero=0.5),
    World("half moves all sizes .10", 0.1, shared=0.5),
    World("all moves all sizes .10", 0.1, shared=1.0),
    World("t3, half shared, differs", 0.08, "t3", shared=0.5, hetero=0.5),
    World("40 % missing .10", 0.1, missing=0.4),
    World("drift .01 a launch", 0.03, drift=0.01),
    World("all moves all sizes .15", 0.15, shared=1.0),
    World("launches alike .5, .05", 0.05, alike=0.5),
    World("launches alike .3, .10", 0.1, alike=0.3),
    World("launches alike .5, .10", 0.1, alike=0.5),
)


class Outcome(NamedTuple):
    """Shares of contests: ``false``, ``confirmed``, and of intervals that ``hold`` the truth.

    ``launches`` is the mean, ``again`` the true log gain over the told one of what was confirmed.
    """

    false: float
    hold: float
    confirmed: float
    launches: float
    again: float


def false_confirmations() -> Figure:
    """Return the largest share of contests without a gain that are confirmed, over all cases.

    COLLTUNE_CONTESTS is the number of contests of each case, 300 by default.
    """
    worst = max(one.false for one in _all().values())
    return _figure("false_confirmations", worst, "share of contests without a gain", 0.05)


def confirmed_coverage() -> Figure:
    """Return the smallest share of intervals that hold the truth, over the same cases."""
    worst = min(one.hold for one in _all().values())
    return _figure("confirmed_coverage", worst, "share of intervals", 0.95)


def confirming_power() -> Figure:
    """Return the share of gains of 1.1 that are confirmed at .05, in 20 contests."""
    found = {}
    for sd in (0.02, 0.05, 0.1, 0.15):
        for gain in _GAINS:
            one = _case(World(f"normal {sd}", sd), 20, 3, math.log(gain))
            found[f"sd {sd}, gain {gain}"] = one
            print(f"sd {sd}, gain {gain}: {_text(one)}", file=sys.stderr, flush=True)
    ours = found["sd 0.05, gain 1.1"]
    facts = {name: one._asdict() for name, one in found.items()}
    return Figure("confirming_power", ours.confirmed, "share of gains", ours.confirmed, 0.7, facts)


def _figure(name: str, value: float, unit: str, wanted: float) -> Figure:
    facts = {
        key: {part: round(number, 4) for part, number in one._asdict().items()}
        for key, one in _all().items()
    }
    return Figure(name, value, unit, value, wanted, facts)


@cache
def _all() -> dict[str, Outcome]:
    cases = [(world, *sizes) for world in _WORLDS for sizes in _SIZES]
    found = Parallel(n_jobs=-1)(delayed(_case)(*case) for case in cases)
    named = {
        f"{world.name}, {n} contests, {m} candidates": one
        for (world, n, m), one in zip(cases, found, strict=True)
    }
    for name, one in named.items():
        print(f"{name}: {_text(one)}", file=sys.stderr, flush=True)
    return named


def _text(one: Outcome) -> str:
    return (
        f"false {one.false:.3f}, intervals hold {one.hold:.3f}, confirmed {one.confirmed:.2f} in"
        f" {one.launches:.1f} launches, found again {one.again:.2f}"
    )


def _case(world: World, contests: int, candidates: int, log_gain: float = 0.0) -> Outcome:
    """Return what comes of at least `CONTESTS` contests; the first candidate gains `log_gain`."""
    rng = np.random.default_rng([_SEED, contests, candidates])
    found: list[ContestState] = []
    while len(found) < CONTESTS:
        found += _campaign(world, rng, contests, candidates, log_gain)
    truth = [log_gain if j.best == _CANDIDATES[0] else 0.0 for j in found]
    both = list(zip(found, truth, strict=True))
    confirmed = [(j, log) for j, log in both if j.status is Status.CONFIRMED and j.gain]
    within = [
        j.gain.found.lower <= log <= j.gain.found.upper
        for j, log in both
        if j.gain and j.gain.found
    ]
    told = sum(j.gain.expected for j, _ in confirmed if j.gain)
    return Outcome(
        sum(log <= 0 for _, log in confirmed) / len(found),
        fmean(within) if within else 1.0,
        len(confirmed) / len(found),
        fmean(j.gain.launches if j.gain else 0 for j in found),
        sum(log for _, log in confirmed) / told if told else math.nan,
    )


def _campaign(
    world: World, rng: np.random.Generator, contests: int, candidates: int, log_gain: float
) -> Sequence[ContestState]:
    """Measure launch after launch what is open, as the strategy `confirm` does."""
    logs = world.shifts(rng, contests, 1 + candidates)
    logs[:, 1] -= log_gain
    column = {c: number for number, c in enumerate((_DEFAULT, *_CANDIDATES))}
    asked = [
        ContestedInstance(
            Instance(_BCAST, Shape(4, 4), 1 + number),
            _DEFAULT,
            _CANDIDATES[:candidates],
            number,
            number,
            1.1,
            _TIME_S,
        )
        for number in range(contests)
    ]
    times: dict[Cell, dict[str, Sequence[float]]] = {}
    judgements = judge(asked, times)
    for launch in range(MOST_LAUNCHES):
        for number, judgement in enumerate(judgements):
            for configuration in _measured(judgement):
                shift = logs[number, column[configuration], launch]
                if math.isfinite(shift):
                    turns_s = _TIME_S * np.exp(shift + rng.normal(0.0, _TURN_SD, ROUNDS))
                    cell = times.setdefault((configuration, asked[number].instance), {})
                    cell[str(launch)] = turns_s.tolist()
        judgements = judge(asked, times)
    return judgements


def _measured(judgement: ContestState) -> Iterable[Configuration]:
    """Return what the next launch holds of a contest."""
    return (_DEFAULT, *judgement.open_candidates) if judgement.is_open else ()
