"""What the loop on the throw-away Slurm counts."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Shape
from colltune.production.arms import Arm, ArmShares, arm_of
from colltune.production.judgement import Range
from colltune.registry import Action, Event
from figures.loop_slurm import SEEDED, STEPS, Job, _jobs_until
from figures.loop_slurm_bed import LARGEST, MACHINE, RELEASES
from figures.loop_slurm_direct import Direct

SLOT = f"openmpi-{RELEASES[-1]}"
TRIAL = Event(5, SLOT, "a" * 64, "b" * 64, Action.STEP, "2026-11-23T10:00:00+00:00", "", "", 0.2)
STOP = Event(6, SLOT, "a" * 64, "b" * 64, Action.STOP, "2026-11-23T10:01:40+00:00", "", "", 0.0)
BEGUN = 1795428000.0


def test_jobs_until_a_withdrawal_are_those_that_used_the_slow_decision() -> None:
    """Of the candidate's arm, its release, its shape and its programs, between begin and end."""
    assert SEEDED[0] is Collective.ALLREDUCE
    numbers = [str(number) for number in range(1, 400)]
    split = ArmShares(0.3, STEPS[0])
    tried = [n for n in numbers if arm_of(MACHINE, n, split) is Arm.CANDIDATE]
    job = Job(tried[0], "solver", RELEASES[-1], LARGEST, BEGUN + 50)
    others = [
        Job(tried[1], "tree", RELEASES[-1], LARGEST, BEGUN + 50),
        Job(tried[2], "solver", RELEASES[0], LARGEST, BEGUN + 50),
        Job(tried[3], "solver", RELEASES[-1], Shape(2, 1), BEGUN + 50),
        Job(tried[4], "solver", RELEASES[-1], LARGEST, BEGUN + 101),
        Job(next(n for n in numbers if n not in tried), "mixed", RELEASES[-1], LARGEST, BEGUN + 50),
    ]
    assert _jobs_until(STOP, TRIAL, [job, *others]) == 1
    assert _jobs_until(None, TRIAL, [job]) is None


@pytest.mark.parametrize(
    ("judged", "lies"),
    [
        (Range(Collective.BCAST, 4, 7, 1, 64, 127), True),
        (Range(Collective.BCAST, 4, 7, 1, 128, 255), False),
        (Range(Collective.BCAST, 4, 7, 2, 64, 127), False),
        (Range(Collective.BCAST, 2, 3, 1, 64, 127), False),
        (Range(Collective.ALLREDUCE, 4, 7, 1, 64, 127), False),
    ],
)
def test_direct_gains_belong_to_one_range(judged: Range, lies: bool) -> None:
    """Collective, nodes, processes per node and size have to fit."""
    assert Direct(SLOT, Collective.BCAST, 64, 0.1, 3).lies_in(judged) is lies
