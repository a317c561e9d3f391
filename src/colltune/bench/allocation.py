"""What the Slurm job that this process runs in was granted: nodes, processes, wall time.

Slurm tells it by environment variables, in a grammar of its own: ``2(x3),1`` stands for the numbers
2, 2, 2, 1, and ``n[08-10],gpu1`` for the nodes n08, n09, n10 and gpu1.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from colltune import process
from colltune.domain import Shape
from colltune.errors import CampaignError, ProgramError

_ASK_TIMEOUT_S = 10.0
_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_MOST_NODES = 1 << 20
_T = TypeVar("_T")


@dataclass(frozen=True)
class Allocation:
    """What a job was granted.

    Attributes
    ----------
    job
        The job's number; a task of a job array has one of its own.
    nodes
        Number of nodes; ``hosts`` are their names, empty where Slurm does not tell.
    tasks_per_node, cpus_per_node
        Processes and processors of each node, in the order of the nodes; empty where Slurm does
        not tell.
    ends_s
        When the job's time is up, by this process's monotonic clock; infinite for a job without
        limit, None where it cannot be found out.
    """

    job: str
    nodes: int
    hosts: tuple[str, ...] = ()
    tasks_per_node: tuple[int, ...] = ()
    cpus_per_node: tuple[int, ...] = ()
    ends_s: float | None = field(default=None, compare=False)

    @property
    def left_s(self) -> float | None:
        """Wall time in seconds that is left of the job, at least 0; None when unknown."""
        return None if self.ends_s is None else max(0.0, self.ends_s - time.monotonic())

    def check(self, shapes: Iterable[Shape]) -> None:
        """Insist that every shape fits into the job."""
        for shape in sorted(shapes, reverse=True):
            if shape.nodes > self.nodes:
                raise CampaignError(
                    f"the campaign has the shape {shape}, but job {self.job} was granted"
                    f" {self.nodes} nodes; submit it with --nodes={shape.nodes}, or take"
                    f" {shape.nodes} out of space.nodes"
                )
            if self._nodes_for(shape.ppn) < shape.nodes:
                raise CampaignError(
                    f"the campaign has the shape {shape}, but job {self.job} may start"
                    f" {shape.ppn} processes on {self._nodes_for(shape.ppn)} of its nodes; submit"
                    f" it with --ntasks-per-node={shape.ppn}, or take {shape.ppn} out of space.ppn"
                )

    def _nodes_for(self, ppn: int) -> int:
        if not self.tasks_per_node:
            return self.nodes
        return sum(tasks >= ppn for tasks in self.tasks_per_node)


def allocation(environment: Mapping[str, str] | None = None) -> Allocation | None:
    """Return the Slurm job that this process runs in, or None outside of one.

    Where the environment does not tell when the job ends, squeue is asked.
    """
    variables = os.environ if environment is None else environment
    job = variables.get("SLURM_JOB_ID", "")
    if not job:
        return None
    tasks = _parsed(variables, "SLURM_TASKS_PER_NODE", counts)
    cpus = _parsed(variables, "SLURM_JOB_CPUS_PER_NODE", counts)
    hosts = _parsed(variables, "SLURM_JOB_NODELIST", host_names)
    nodes = _parsed(variables, "SLURM_JOB_NUM_NODES", counts)
    known = [*nodes[:1], *(len(each) for each in (hosts, tasks, cpus) if each), 1]
    return Allocation(job, known[0], hosts, tasks, cpus, _ends_s(variables, job))


def counts(text: str) -> tuple[int, ...]:
    """Return the numbers of ``2(x3),1``."""
    numbers: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        repeated = int(match[2] or 1) if match else 0
        if match is None or not 1 <= repeated <= _MOST_NODES - len(numbers):
            raise _not_slurms(text)
        numbers += [int(match[1])] * repeated
    return tuple(numbers)


def host_names(text: str) -> tuple[str, ...]:
    """Return the names of ``n[08-10,12],gpu1``; a name may have several brackets."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+|[,\[\]]", text):
        if part == ",":
            continue
        names += _expanded(part, _MOST_NODES - len(names))
    if not names or text.count("[") != text.count("]"):
        raise _not_slurms(text)
    return tuple(names)


def _expanded(pattern: str, most: int) -> list[str]:
    names = [""]
    for piece in re.split(r"(\[[^\[\]]*\])", pattern):
        endings = _numbers(piece[1:-1]) if piece.startswith("[") else [piece]
        if "]" in endings[0] or "[" in endings[0] or len(names) * len(endings) > most:
            raise _not_slurms(pattern)
        names = [name + ending for name in names for ending in endings]
    return names


def _numbers(text: str) -> list[str]:
    """Return the numbers of ``08-10,12``, with their leading zeros."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _not_slurms(text)
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + _MOST_NODES:
            raise _not_slurms(text)
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers


def duration_s(text: str) -> float:
    """Return the seconds of a wall time as Slurm writes it; one number alone is minutes.

    ``90``, ``1:30``, ``2:00:00``, ``1-12``, ``1-12:30``, ``1-12:30:00``, ``UNLIMITED``.
    """
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    match = _DURATION.fullmatch(text)
    if match is None:
        raise _not_slurms(text)
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _not_slurms(text: str) -> ValueError:
    return ValueError(f"not written by Slurm: {text!r}")


def _parsed(
    variables: Mapping[str, str], name: str, parse: Callable[[str], tuple[_T, ...]]
) -> tuple[_T, ...]:
    text = variables.get(name, "").strip()
    try:
        return parse(text) if text else ()
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
    left_s = _asked_left_s(f"{array}_{task}" if array and task else job)
    return None if left_s is None else time.monotonic() + left_s


def _asked_left_s(job: str) -> float | None:
    command = ["squeue", "--noheader", f"--jobs={job}", "--format=%L"]
    try:
        outcome = process.run(command, timeout_s=_ASK_TIMEOUT_S)
        return duration_s(outcome.stdout.strip()) if outcome.ok else None
    except (ProgramError, ValueError):
        return None
