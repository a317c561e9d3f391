"""What a file brings, and what its runtimes prove."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.mpi.installation import Installation
from colltune.verify.alternating import Gain
from colltune.verify.gains import Forced, Measuring, Timed, affordable_rounds, assessed
from colltune.verify.probe_calls import Layout
from colltune.verify.rule_status import RuleStatus
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
    measuring = Measuring(MPI, UserLine(("mpirun",), {}, {}), Layout((4,)), NOWHERE, 1.0)
    found = measuring.measure([BCAST], {}, Forced(), 3.0, lambda _: None)
    assert (found.gains, found.launches) == ({}, 0)
    assert found.notes == ("nothing was measured: of the budget 3 s were left",)


SHAPE = Shape(1, 4)


def _gain(ratio: float, spread: float = 1.05) -> Gain:
    return Gain(ratio, ratio / spread, ratio * spread, 7, 7 if ratio > 1 else 0)


@pytest.mark.parametrize(
    ("file", "forced", "status"),
    [
        (_gain(1.8), _gain(1.9), RuleStatus.APPLIED),
        (_gain(0.5), _gain(0.45), RuleStatus.APPLIED),
        (_gain(1.01), _gain(1.9), RuleStatus.IGNORED),
        (_gain(1.35), _gain(1.9), RuleStatus.UNOBSERVED),
        (_gain(1.1), _gain(1.1), RuleStatus.UNOBSERVED),
        (_gain(1.9), _gain(1.9, spread=2.5), RuleStatus.UNOBSERVED),
        (_gain(1.9), Gain(1.9, math.nan, math.nan, 4, 4), RuleStatus.UNOBSERVED),
    ],
)
def test_only_clear_differences_prove_something(
    file: Gain, forced: Gain, status: RuleStatus
) -> None:
    """Forcing must change the time clearly; then the file does so, too, or does not."""
    assessment = assessed(Timed(file, forced))
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
