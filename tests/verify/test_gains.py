"""What a file brings, and what its runtimes prove."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.evidence.launches import Noise, Sums
from colltune.mpi.installation import Installation
from colltune.verify.gains import (
    ForcedEnvironments,
    Gain,
    Measuring,
    Timed,
    affordable_rounds,
    gains_of,
    regressions,
)
from colltune.verify.probe_calls import JobLayout
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
    """Six pairs are usual; cheap launches allow more, expensive ones fewer."""
    assert affordable_rounds(budget_s, launch_s, launch_s + 0.4) == rounds


def test_too_little_time_measures_nothing_and_says_so() -> None:
    """What is left of the budget is told; nothing is started."""
    measuring = Measuring(MPI, UserLine(("mpirun",), {}), JobLayout((4,)), NOWHERE, 1.0)
    found = measuring.measure([BCAST], {}, ForcedEnvironments(), 3.0, lambda _: None)
    assert found.gains == {}
    assert found.notes == ("nothing was measured: 3 s of the budget were left",)


SHAPE = Shape(1, 4)


def _gain(ratio: float, sd: float = 0.02, pairs: int = 7) -> Gain:
    """Return a gain over pairs whose logarithms have this standard deviation."""
    sums = Sums(pairs, math.log(ratio), sd**2 * (pairs - 1), math.nan)
    return Gain(sums, Noise(sd, 4.0))


@pytest.mark.parametrize(
    ("file", "forced", "status"),
    [
        (_gain(1.8), _gain(1.9), RuleStatus.APPLIED),
        (_gain(0.5), _gain(0.45), RuleStatus.APPLIED),
        (_gain(1.01), _gain(1.9), RuleStatus.IGNORED),
        (_gain(1.01, sd=0.4), _gain(1.9), RuleStatus.UNOBSERVED),
        (_gain(1.25), _gain(1.9), RuleStatus.UNOBSERVED),
        (_gain(1.35), _gain(1.9), RuleStatus.UNOBSERVED),
        (_gain(1.1), _gain(1.1), RuleStatus.UNOBSERVED),
        (_gain(1.9), _gain(1.9, sd=0.9), RuleStatus.UNOBSERVED),
        (_gain(1.9), _gain(1.9, pairs=1), RuleStatus.UNOBSERVED),
        (_gain(1.0, pairs=1), _gain(1.9), RuleStatus.UNOBSERVED),
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
    forced = ForcedEnvironments.of("mpich", "4.0.2", wanted[:2])
    assert forced.side_of == {small: 0, large: 1}
    assert [e["MPIR_CVAR_BCAST_INTRA_ALGORITHM"] for e in forced.environments] == [
        "binomial",
        "scatter_ring_allgather",
    ]
    assert ForcedEnvironments.of("mpich", "4.0.2", wanted[2:]) == ForcedEnvironments()


def test_gains_are_of_what_was_measured_under_both_sides() -> None:
    """Each round gives a pair for an instance that both of its launches measured."""
    other = Instance(Collective.BCAST, Shape(1, 4), 1)
    rounds = [
        [{BCAST: [4.0, 4.0, 9.0], other: [1.0]}, {BCAST: [2.0]}],
        [{BCAST: [2.0]}, {}],
    ]
    gains = gains_of(rounds, [BCAST, other], 1)
    assert set(gains) == {BCAST}
    assert gains[BCAST].ratio == pytest.approx(2.0)
    assert (gains[BCAST].pairs, gains[BCAST].interval()) == (1, None)


CELLS = tuple(Instance(Collective.BCAST, SHAPE, 2**k) for k in range(24))


def _runs(count: int, pairs: int, slower: float, kind: str) -> Iterator[frozenset[Instance]]:
    """Yield what runs tell to be slower, of 24 cells of which three are `slower` with the file."""
    rng = np.random.default_rng(2)
    for _ in range(count):
        noise = 0.1 * rng.normal(size=(pairs, 24))
        if kind == "t3":
            noise = 0.1 * rng.standard_t(3, (pairs, 24)) / math.sqrt(3)
        if kind == "alike":
            noise = math.sqrt(0.5) * (noise + 0.1 * rng.normal(size=(pairs, 1)))
        noise[:, :3] += math.log(slower)
        default = {at: [0.001] for at in CELLS}
        rounds = [
            [default, {at: [0.001 * math.exp(n)] for at, n in zip(CELLS, row, strict=True)}]
            for row in noise
        ]
        yield regressions(gains_of(rounds, CELLS, 1))


@pytest.mark.parametrize(("pairs", "kind"), [(3, "normal"), (6, "alike"), (9, "t3")])
def test_the_same_against_the_same_is_seldom_slower(pairs: int, kind: str) -> None:
    """Of runs without a difference, at most 2 % tell that any of 24 cells is slower."""
    told = [bool(found) for found in _runs(60, pairs, 1.0, kind)]
    assert np.mean(told) <= 0.02


def test_what_is_slower_is_found() -> None:
    """Nine pairs tell 1.2x in at least nine of ten cells."""
    found = [len(run & set(CELLS[:3])) / 3 for run in _runs(50, 9, 1.2, "normal")]
    assert np.mean(found) >= 0.9


def test_a_single_pair_proves_nothing() -> None:
    """However slow a cell was in one pair of launches, it is not told to be slower."""
    (found,) = _runs(1, 1, 10.0, "normal")
    assert not found
