"""What a file brings, and what its runtimes prove."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.mpi.installation import Installation
from colltune.verify.gains import Forced, Gain, Measuring, Timed, affordable_rounds, gains_of
from colltune.verify.probe_calls import Layout
from colltune.verify.rule_status import RuleStatus, by_timing
from colltune.verify.user_line import UserLine

NOWHERE = Path("/nowhere")
MPI = Installation("openmpi", "5.0.11", NOWHERE, NOWHERE, NOWHERE, "")
BCAST = Instance(Collective.BCAST, Shape(1, 4), 1024)


@pytest.mark.parametrize(
    ("budget_s", "launch_s", "rounds"),
    [(45.0, 0.5, 9), (90.0, 3.0, 7), (60.0, 3.0, 6), (12.0, 3.0, 1), (1.0, 3.0, 1)],
)
def test_rounds_fit_the_budget(budget_s: float, launch_s: float, rounds: int) -> None:
    """Six pairs give an interval; cheap launches allow more, expensive ones fewer."""
    assert affordable_rounds(budget_s, launch_s, launch_s + 0.4) == rounds


def test_too_little_time_measures_nothing_and_says_so() -> None:
    """What is left of the budget is told; nothing is started."""
    measuring = Measuring(MPI, UserLine(("mpirun",), {}), Layout((4,)), NOWHERE, 1.0)
    found = measuring.measure([BCAST], {}, Forced(), 3.0, lambda _: None)
    assert found.gains == {}
    assert found.notes == ("nothing was measured: 3 s of the budget were left",)


SHAPE = Shape(1, 4)


def _gain(ratio: float, spread: float = 1.05) -> Gain:
    return Gain(ratio, ratio / spread, ratio * spread, 7)


@pytest.mark.parametrize(
    ("file", "forced", "status"),
    [
        (_gain(1.8), _gain(1.9), RuleStatus.APPLIED),
        (_gain(0.5), _gain(0.45), RuleStatus.APPLIED),
        (_gain(1.01), _gain(1.9), RuleStatus.IGNORED),
        (_gain(1.35), _gain(1.9), RuleStatus.UNOBSERVED),
        (_gain(1.1), _gain(1.1), RuleStatus.UNOBSERVED),
        (_gain(1.9), _gain(1.9, spread=2.5), RuleStatus.UNOBSERVED),
        (_gain(1.9), Gain(1.9, math.nan, math.nan, 4), RuleStatus.UNOBSERVED),
    ],
)
def test_only_clear_differences_prove_something(
    file: Gain, forced: Gain, status: RuleStatus
) -> None:
    """Forcing must change the time clearly; then the file does so, too, or does not."""
    assessment = by_timing(Timed(file, forced))
    assert assessment.status is status
    assert assessment.why


def test_few_launches_force_many_rules() -> None:
    """One configuration per collective and launch; what does not fit, or is unknown, is left."""
    small, large = (Instance(Collective.BCAST, SHAPE, size) for size in (8, 8192))
    binomial = Configuration.parse("mpich.bcast.binomial")
    ring = Configuration.parse("mpich.bcast.scatter_ring_allgather")
    unknown = Configuration.parse("mpich.bcast.nonsense")
    wanted = [(small, binomial), (large, ring), (small, unknown)]
    forced = Forced.of("mpich", "4.0.2", wanted[:2])
    assert forced.side_of == {small: 0, large: 1}
    assert [e["MPIR_CVAR_BCAST_INTRA_ALGORITHM"] for e in forced.environments] == [
        "binomial",
        "scatter_ring_allgather",
    ]
    assert Forced.of("mpich", "4.0.2", wanted[2:]) == Forced()


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


def test_gains_are_of_what_was_measured_under_both_sides() -> None:
    """Each round gives a pair for an instance that both of its launches measured."""
    other = Instance(Collective.BCAST, Shape(1, 4), 1)
    rounds = [[{BCAST: 4.0, other: 1.0}, {BCAST: 2.0}], [{BCAST: 2.0}, {}]]
    gains = gains_of(rounds, [BCAST, other], 1)
    assert {instance: (gain.ratio, gain.pairs) for instance, gain in gains.items()} == {
        BCAST: (2.0, 1)
    }


def test_a_certain_loss_lies_below_one_as_a_whole() -> None:
    """An interval that reaches beyond 1, or no interval at all, is not certain."""
    assert Gain(0.8, 0.7, 0.9, 7).is_slower
    assert not Gain(0.8, 0.7, 1.01, 7).is_slower
    assert not Gain(0.5, math.nan, math.nan, 5).is_slower
