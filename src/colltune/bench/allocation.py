"""What the Slurm job that this process runs in was granted: nodes, processes, wall time.

Slurm tells it by environment variables in a notation of its own: ``2(x3),1`` stands for the numbers
2, 2, 2, 1.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from colltune import process
from colltune.domain import Shape
from colltune.errors import CampaignError, ProgramError
from colltune.provenance.job import counts

_ASK_TIMEOUT_S = 10.0
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class Allocation:
    job: str
    nodes: int
    tasks_per_node: tuple[int, ...] = ()
    ends_s: float | None = field(default=None, compare=False)

    @property
    def left_s(self) -> float | None:
        """Wall time in seconds that is left of the job, at least 0; None when unknown."""
        return None if self.ends_s is None else max(0.0, self.ends_s - time.monotonic())

    def check(self, shapes: Iterable[Shape]) -> None:
        for shape in sorted(shapes, reverse=True):
            if shape.nodes > self.nodes:
                raise CampaignError(
                    f"the campaign has the shape {shape}, but job {self.job} was granted"
                    f" {self.nodes} nodes; submit it with --nodes={shape.nodes}, or take"
                    f" {shape.nodes} out of space.nodes"
                )
            able = sum(tasks >= shape.ppn for tasks in self.tasks_per_node)
            if self.tasks_per_node and able < shape.nodes:
                raise CampaignError(
                    f"the campaign has the shape {shape}, but job {self.job} may start"
                    f" {shape.ppn} processes on {able} of its nodes; submit"
                    f" it with --ntasks-per-node={shape.ppn}, or take {shape.ppn} out of space.ppn"
                )


def allocation(environment: Mapping[str, str] | None = None) -> Allocation | None:
    """Return the Slurm job that this process runs in, or None outside of one."""
    variables = os.environ if environment is None else environment
    job = variables.get("SLURM_JOB_ID", "")
    if not job:
        return None
    tasks = _numbers(variables, "SLURM_TASKS_PER_NODE")
    nodes = _numbers(variables, "SLURM_JOB_NUM_NODES")
    return Allocation(job, nodes[0] if nodes else len(tasks) or 1, tasks, _ends_s(variables, job))


def duration_s(text: str) -> float:
    """Return the seconds of a wall time as Slurm writes it; one number alone is minutes.

    ``90``, ``1:30``, ``2:00:00``, ``1-12``, ``1-12:30``, ``1-12:30:00``, ``UNLIMITED``; a
    ValueError if it is of no such form.
    """
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not written by Slurm: {text!r}")
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _numbers(variables: Mapping[str, str], name: str) -> tuple[int, ...]:
    text = variables.get(name, "").strip()
    try:
        return counts(text) if text else ()
    except ValueError:
        raise ProgramError(
            f"environment variable {name}={text!r} is not what Slurm writes; unset it or"
            " start colltune outside of the job"
        ) from None


def _ends_s(variables: Mapping[str, str], job: str) -> float | None:
    """Return when the job ends by the monotonic clock, which no clock step moves."""
    told = variables.get("SLURM_JOB_END_TIME", "")
    if told.isdigit() and int(told) > 0:
        return time.monotonic() + int(told) - time.time()
    array, task = (variables.get(f"SLURM_ARRAY_{what}_ID", "") for what in ("JOB", "TASK"))
    # the number of one of an array's tasks is that of the array, too
    asked = f"{array}_{task}" if array and task else job
    command = ["squeue", "--noheader", f"--jobs={asked}", "--format=%L"]
    try:
        outcome = process.run(command, timeout_s=_ASK_TIMEOUT_S)
        return time.monotonic() + duration_s(outcome.stdout.strip()) if outcome.ok else None
    except (ProgramError, ValueError):
        return None
