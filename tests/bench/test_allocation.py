"""What a Slurm job was granted, told by its environment."""

from __future__ import annotations

import math
import time
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.bench.slurm import Allocation, allocation, duration_s
from colltune.domain import Shape
from colltune.errors import CampaignError, ProgramError
from colltune.provenance.job import counts
from tests.refusals import refused

NUMBERS = st.lists(st.integers(0, 300), min_size=1, max_size=30)


def as_slurm_counts(numbers: list[int]) -> str:
    """Write numbers as Slurm does: runs of equal ones once, with how often."""
    runs = [(value, len(list(run))) for value, run in groupby(numbers)]
    return ",".join(f"{value}(x{n})" if n > 1 else str(value) for value, n in runs)


@given(NUMBERS)
def test_counts_are_what_was_written(numbers: list[int]) -> None:
    """Any list of numbers survives Slurm's way of writing it."""
    assert list(counts(as_slurm_counts(numbers))) == numbers


def test_other_counts_are_refused() -> None:
    """Nothing is guessed, and no absurd number of nodes is written out."""
    for text in ("", "2(x", "2(x0)", "x", "2(x3)1", "2,,1", "-1", "1(x99999999)"):
        with pytest.raises(ValueError, match="not written by Slurm"):
            counts(text)


def test_wall_times() -> None:
    """Every form that sbatch reads and squeue writes, and nothing else."""
    wanted_s = {
        "90": 5400,
        "1:30": 90,
        "2:00:01": 7201,
        "1-12": 129600,
        "1-12:30": 131400,
        "1-12:30:09": 131409,
        "0:00": 0,
        "UNLIMITED": math.inf,
    }
    assert {text: duration_s(text) for text in wanted_s} == wanted_s
    for text in ("", "INVALID", "1h", "1:2:3:4", "-1"):
        with pytest.raises(ValueError, match="not written by Slurm"):
            duration_s(text)


def test_outside_of_a_job_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job, no allocation, whatever else is set."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert allocation() is None
    assert allocation({"SLURM_JOB_ID": "", "SLURM_CONF": "/etc/slurm.conf"}) is None


def test_the_environment_tells_all() -> None:
    """Nodes, processes and the end come from the job's variables."""
    granted = allocation(
        {
            "SLURM_JOB_ID": "17",
            "SLURM_JOB_NUM_NODES": "4",
            "SLURM_TASKS_PER_NODE": "2(x3),1",
            "SLURM_JOB_END_TIME": str(int(time.time()) + 100_000),
        }
    )
    assert granted == Allocation("17", 4, (2, 2, 2, 1))
    assert granted.left_s is not None
    assert 90_000 < granted.left_s <= 100_000


ANSWERS: tuple[tuple[dict[str, str], str, str, float | None], ...] = (
    # a task whose number is that of the array is asked for by its place in the array
    ({"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}, "17_3", "1:00:00", 3600.0),
    ({}, "17", "1-00:00:00", 86400.0),
    ({}, "17", "UNLIMITED", math.inf),
    ({}, "17", "INVALID", None),
)


def test_squeue_is_asked_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the environment does not tell when the job ends, squeue does, or nobody."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for array, asked, answer, wanted_s in ANSWERS:
        (tmp_path / "squeue").write_text(f'#!/bin/sh\n[ "$2" = --jobs={asked} ] && echo {answer}\n')
        (tmp_path / "squeue").chmod(0o755)
        granted = allocation({"SLURM_JOB_ID": "17", **array})
        assert granted is not None
        left_s = granted.left_s
        assert left_s == wanted_s or (left_s and wanted_s and wanted_s / 2 < left_s <= wanted_s)


def test_without_squeue_the_end_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose end nobody tells is no error."""
    monkeypatch.setenv("PATH", "/nonexistent")
    granted = allocation({"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2"})
    assert granted == Allocation("17", 2)
    assert granted.left_s is None


def test_a_job_that_is_over_has_nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time left never becomes negative."""
    granted = allocation({"SLURM_JOB_ID": "17", "SLURM_JOB_END_TIME": "1000"})
    assert granted is not None
    assert granted.left_s == 0.0


def test_a_variable_that_is_nonsense_is_named() -> None:
    """The message has the variable, its value and the mend."""
    with refused("not-slurms", ProgramError, name="SLURM_TASKS_PER_NODE", text="2(y3)"):
        allocation({"SLURM_JOB_ID": "17", "SLURM_TASKS_PER_NODE": "2(y3)"})


def test_shapes_that_fit_pass() -> None:
    """Smaller shapes are welcome, also where a node has fewer processes than others."""
    granted = Allocation("17", 3, tasks_per_node=(8, 8, 1))
    granted.check([Shape(1, 1), Shape(2, 8), Shape(3, 1)])
    Allocation("17", 3).check([Shape(3, 64)])


def test_a_shape_that_does_not_fit_is_refused() -> None:
    """The message has the shape, what was granted and what to ask for."""
    granted = Allocation("17", 3, tasks_per_node=(8, 8, 1))
    for shape, message in (
        (Shape(4, 1), "granted-too-little shape=4x1 job=17"),
        (Shape(3, 8), "granted-too-little shape=3x8 job=17"),
    ):
        with refused(message, CampaignError):
            granted.check([Shape(1, 1), shape])
