"""Gains of alternated measurements, and which of them are proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colltune.bench import verify
from colltune.bench.backends import NativeBackend
from colltune.bench.verify import (
    Alternation,
    Contest,
    Cost,
    Gain,
    Turns,
    alternate,
    evidence,
    in_doubt,
    pairs_to_prove,
)
from colltune.domain import Collective, Instance, Shape
from colltune.mpi.installation import Installation

SMALL = Instance(Collective.BCAST, Shape(1, 4), 8)
LARGE = Instance(Collective.BCAST, Shape(1, 4), 8192)


@pytest.mark.parametrize(
    ("pairs", "dropped"), [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5)]
)
def test_interval_is_that_of_the_sign_test(pairs: int, dropped: int) -> None:
    """The interval leaves out as many extremes as the textbook's sign test at 95 % allows."""
    logs = [0.01 * k for k in range(pairs)]
    gain = Gain.of([*reversed(logs)])
    assert gain.pairs == pairs
    assert math.log(gain.ratio) == pytest.approx(0.005 * (pairs - 1))
    assert math.log(gain.lower) == pytest.approx(logs[dropped], abs=1e-12)
    assert math.log(gain.upper) == pytest.approx(logs[-1 - dropped])


def test_one_wild_launch_moves_nothing() -> None:
    """Of nine pairs, a single outlier changes neither the gain nor its interval by much."""
    logs = [0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17]
    wild = Gain.of([*logs, 5.0])
    assert (math.log(wild.ratio), math.log(wild.upper)) == pytest.approx((0.14, 0.17))


def test_few_pairs_have_no_interval() -> None:
    """Fewer than six pairs tell a gain but not how sure it is."""
    gain = Gain.of([math.log(2)] * 5)
    assert gain.ratio == pytest.approx(2)
    assert math.isnan(gain.lower)
    assert math.isnan(gain.upper)


def test_a_range_averages_its_sizes_pair_by_pair() -> None:
    """Sizes of a range are averaged within each pair; what was not measured is left out."""
    alternation = Alternation({SMALL: (0.0, 0.2), LARGE: (0.2, 0.4)}, 1.0, 4)
    gain = alternation.gain([SMALL, LARGE, Instance(Collective.BCAST, Shape(1, 4), 1)])
    assert gain is not None
    assert (math.log(gain.ratio), gain.pairs) == pytest.approx((0.2, 2))
    assert alternation.gain([Instance(Collective.BCAST, Shape(1, 4), 1)]) is None


def test_a_certain_loss_lies_below_one_as_a_whole() -> None:
    """An interval that reaches beyond 1, or no interval at all, is not certain."""
    assert Gain(0.8, 0.7, 0.9, 7, 0).is_slower
    assert not Gain(0.8, 0.7, 1.01, 7, 1).is_slower
    assert not Gain(0.5, math.nan, math.nan, 5, 0).is_slower


@pytest.mark.parametrize(
    ("wins", "losses", "expected"), [(0, 0, 1.0), (1, 0, 1.5), (5, 0, 10.5), (8, 1, 1013 / 90)]
)
def test_evidence_is_the_bayes_factor(wins: int, losses: int, expected: float) -> None:
    """It is the integral of the likelihood over chances above one half, by that at one half."""
    assert evidence(wins, losses) == pytest.approx(expected)
    steps = np.linspace(0.5, 1.0, 200_001)
    likelihood = steps**wins * (1 - steps) ** losses * 2.0 ** (wins + losses)
    assert evidence(wins, losses) == pytest.approx(likelihood.mean(), rel=1e-4)


def test_evidence_is_worth_nothing_on_average_without_an_effect() -> None:
    """From every state, a pair won or lost with equal chances leaves it as it is on average."""
    for wins in range(12):
        for losses in range(12):
            after = (evidence(wins + 1, losses) + evidence(wins, losses + 1)) / 2
            assert after == pytest.approx(evidence(wins, losses))


def test_an_even_match_is_proved_by_luck_in_a_tenth_at_most() -> None:
    """The exact chance to be proved within 60 pairs, looking after each, is below 10 %."""
    chances, proved = {0: 1.0}, 0.0
    for pairs in range(1, 61):
        grown: dict[int, float] = {}
        for wins, chance in chances.items():
            for more in (0, 1):
                grown[wins + more] = grown.get(wins + more, 0.0) + chance / 2
        won = {w: c for w, c in grown.items() if evidence(w, pairs - w) >= 10}
        proved += sum(won.values())
        chances = {w: c for w, c in grown.items() if w not in won}
    assert 0.05 < proved <= 0.1


@pytest.mark.parametrize(("losses", "wins"), [(0, 5), (1, 8), (2, 11)])
def test_losses_take_more_pairs(losses: int, wins: int) -> None:
    """Five pairs of five prove a gain; each that is lost has to be made up for."""
    assert pairs_to_prove(0, losses) == wins
    assert _gain(wins, losses).is_proven
    assert not _gain(wins - 1, losses).is_proven
    assert _gain(losses, wins).is_refuted


def test_a_gain_whose_interval_holds_a_loss_is_not_proved() -> None:
    """A median of 1.06 with an interval of 0.71 to 1.27 proves nothing."""
    logs = [math.log(x) for x in (0.71, 0.94, 0.99, 1.06, 1.1, 1.2, 1.27)]
    found = Gain.of(logs)
    assert (found.ratio, found.lower, found.upper) == pytest.approx((1.06, 0.71, 1.27))
    assert not found.is_proven


def _gain(wins: int, losses: int) -> Gain:
    return Gain.of([0.1] * wins + [-0.1] * losses)


def _at(*msizes: int) -> tuple[Instance, ...]:
    return tuple(Instance(Collective.BCAST, Shape(1, 4), msize) for msize in msizes)


NO_COST = Cost(0.0, 0.0)


def test_what_is_decided_gets_no_more_pairs() -> None:
    """Proved and refuted rows are left out, and sizes that are certainly slower; others go on."""
    proved, refuted, open_, slower = _at(1, 2, 3, 4)
    found = Alternation(
        {proved: (0.1,) * 5, refuted: (-0.1,) * 5, open_: (0.1, -0.1) * 3, slower: (-0.3,) * 6},
        1.0,
        12,
    )
    contests = [Contest((proved,), 1.1), Contest((refuted,), 1.1), Contest((open_, slower), 1.1)]
    assert in_doubt(contests, found, 1000.0, NO_COST) == [open_]


def test_little_time_goes_where_most_is_at_stake() -> None:
    """Where not all rows can be proved in time, the promising ones are measured, or none."""
    small, large, hopeless = _at(1, 2, 3)
    contests = [Contest((small,), 1.05), Contest((large,), 1.8), Contest((hopeless,), 1.3)]
    found = Alternation({small: (0.05,), large: (0.6,), hopeless: (-0.1,)}, 1.0, 2)
    cost = Cost(1.0, 0.5)  # a pair takes 3 s with one instance, 4 s with two
    assert in_doubt(contests, found, 1000.0, cost) == [large, small, hopeless]
    assert in_doubt(contests, found, 16.0, cost) == [large, small]
    assert in_doubt(contests, found, 15.0, cost) == [large]
    assert in_doubt(contests, found, 11.0, cost) == []
    assert in_doubt(contests, Alternation(), 11.0, cost) == [large]


class _Clock:
    """A clock that is set by hand."""

    now_s = 1000.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """Return the clock of the alternation."""
    found = _Clock()
    monkeypatch.setattr(verify, "time", found)
    return found


NOWHERE = Path("/nowhere")
MPI = Installation("openmpi", "5.0.11", NOWHERE, NOWHERE, NOWHERE, "")
Draw = Callable[[Sequence[Instance]], Sequence[float]]


@dataclass(frozen=True)
class _ScriptedTurns(Turns):
    """Draws log ratios in place of launches, each of which takes its seconds."""

    clock: _Clock | None = None
    draw: Draw = lambda instances: [0.0] * len(instances)
    pair_s: float = 1.0

    def pair(
        self, instances: Sequence[Instance], tuned: Mapping[str, str], turn: int, ends: float
    ) -> tuple[Alternation, Cost]:
        """Return what was drawn."""
        assert self.clock is not None
        assert self.clock.now_s < ends
        self.clock.now_s = min(ends, self.clock.now_s + self.pair_s)
        logs = self.draw(instances)
        found = {i: (log,) for i, log in zip(instances, logs, strict=True) if not math.isnan(log)}
        return Alternation(found, 0.1, 2), Cost(self.pair_s / 2, 0.0)


def _turns(clock: _Clock, draw: Draw, **changed: Any) -> Turns:
    return _ScriptedTurns(NativeBackend(MPI), Shape(1, 4), clock=clock, draw=draw, **changed)


def test_verification_ends_with_its_budget(clock: _Clock) -> None:
    """Even matches are measured until no pair fits any more, and not beyond."""
    signs = iter([0.1, -0.1] * 100)
    found = alternate(
        _turns(clock, lambda _: [next(signs)]), [Contest(_at(1), 1.1)], {}, budget_s=20.0
    )
    assert clock.now_s <= 1020.0
    assert found.launches >= 8


def test_verification_ends_when_all_is_decided(clock: _Clock) -> None:
    """Five pairs that are won are enough, whatever the budget."""
    found = alternate(
        _turns(clock, lambda _: [0.1, 0.1]), [Contest(_at(1, 2), 1.1)], {}, budget_s=2000.0
    )
    assert found.launches == 10


def test_launches_that_bring_nothing_are_given_up(clock: _Clock) -> None:
    """Two pairs in a row without a time end the verification."""
    found = alternate(
        _turns(clock, lambda _: [math.nan]), [Contest(_at(1), 1.1)], {}, budget_s=2000.0
    )
    assert found.launches == 4
    assert found.gain(_at(1)) is None


def test_rows_without_an_effect_are_kept_in_a_tenth_at_most(clock: _Clock) -> None:
    """The whole procedure, with wild launches and sizes that share their noise, keeps few."""
    rng = np.random.default_rng(1)
    contests = [Contest(_at(*range(k, k + 3)), 1.2) for k in (10, 20, 30, 40)]

    def noise(instances: Sequence[Instance]) -> list[float]:
        own = 0.1 * rng.standard_t(2, len(instances))
        return [float(x) for x in own + 0.05 * rng.standard_normal()]

    kept = rows = 0
    for _ in range(150):
        found = alternate(_turns(clock, noise), contests, {}, budget_s=25.0)
        for contest in contests:
            gains = [found.gain(run) for run in found.runs(contest.instances)]
            kept += any(gain is not None and gain.is_proven for gain in gains)
            rows += 1
    assert kept / rows <= 0.1


def test_rows_with_a_clear_effect_are_proved(clock: _Clock) -> None:
    """The same procedure keeps nearly all rows that gain more than their noise."""
    rng = np.random.default_rng(2)
    contests = [Contest(_at(k), 1.2) for k in range(4)]

    def draw(instances: Sequence[Instance]) -> list[float]:
        return [float(x) for x in rng.normal(0.2, 0.1, len(instances))]

    proved = [
        gain is not None and gain.is_proven
        for _ in range(40)
        for found in [alternate(_turns(clock, draw), contests, {}, budget_s=25.0)]
        for gain in [found.gain(contest.instances) for contest in contests]
    ]
    assert np.mean(proved) >= 0.95
