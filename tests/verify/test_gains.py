"""Which rounds fit, and what counts as slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Instance, Shape
from colltune.mpi.installation import Installation
from colltune.verify.gains import Forced, Measuring, affordable_rounds
from colltune.verify.probe_calls import Layout
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
