"""The batch job in which this process runs, and what counts as one allocation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_MOST_NODES = 1 << 20


@dataclass(frozen=True)
class _BatchSystem:
    """Names of the environment variables in which a batch system tells its job."""

    name: str
    job_id: str
    array_task: str = ""
    restart: str = ""
    cluster: str = ""
    only_with: str = ""


_BATCH_SYSTEMS = (
    _BatchSystem(
        "slurm", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME"
    ),
    _BatchSystem("flux", "FLUX_JOB_ID"),
    _BatchSystem("pbs", "PBS_JOBID", "PBS_ARRAY_INDEX"),
    _BatchSystem("lsf", "LSB_JOBID", "LSB_JOBINDEX", "LSB_RESTART_COUNT"),
    _BatchSystem("pjm", "PJM_JOBID", "PJM_BULKNUM"),
    _BatchSystem("oar", "OAR_JOB_ID", "OAR_ARRAY_INDEX"),
    _BatchSystem("cobalt", "COBALT_JOBID"),
    _BatchSystem("sge", "JOB_ID", "SGE_TASK_ID", "RESTARTED", only_with="SGE_ROOT"),
)
_NO_TASK = ("", "0", "undefined")


def facts(environment: Mapping[str, str], host: str, boot_id: str, now: datetime) -> dict[str, str]:
    """Return ``job_system``, ``job_id``, ``job_array_task``, ``job_restart`` and ``allocation``."""
    system = _batch_system(environment)
    told = {"allocation": allocation(environment, host, boot_id, now)}
    if system is None:
        return told
    array_job = environment.get("SLURM_ARRAY_JOB_ID", "") if system.name == "slurm" else ""
    told |= {
        "job_system": system.name,
        "job_id": environment[system.job_id],
        "job_array": array_job,
        "job_array_task": _task(environment, system),
        "job_restart": environment.get(system.restart, ""),
    }
    return {name: value for name, value in told.items() if value}


def allocation(environment: Mapping[str, str], host: str, boot_id: str, now: datetime) -> str:
    """Return a name that is the same for all launches of one allocation.

    An allocation is a set of nodes that was held without a break. In a batch job that is the job,
    each task and each restart of it by itself: a requeued job gets other nodes and other
    neighbours. Without a batch system it is one day (UTC) of one boot of this host, since what one
    finds on another day may differ, while two runs within the hour tell little about that.
    """
    system = _batch_system(environment)
    if system is None:
        return "/".join(filter(None, ("interactive", host, boot_id, f"{now:%Y-%m-%d}")))
    task = _task(environment, system)
    # Slurm's array tasks have job ids of their own
    parts = [
        system.name,
        environment.get(system.cluster, ""),
        environment[system.job_id],
        f"task{task}" if task and system.name != "slurm" else "",
        f"restart{environment.get(system.restart) or 0}",
    ]
    return "/".join(filter(None, parts))


def _batch_system(environment: Mapping[str, str]) -> _BatchSystem | None:
    for system in _BATCH_SYSTEMS:
        is_there = not system.only_with or system.only_with in environment
        if is_there and environment.get(system.job_id):
            return system
    return None


def _task(environment: Mapping[str, str], system: _BatchSystem) -> str:
    task = environment.get(system.array_task, "")
    return task if system.name == "slurm" or task not in _NO_TASK else ""


def counts(text: str) -> tuple[int, ...]:
    """Return the numbers of Slurm's ``2(x3),1``; a ValueError if it is not of that form."""
    numbers: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        repeated = int(match[2] or 1) if match else 0
        if match is None or not 1 <= repeated <= _MOST_NODES - len(numbers):
            raise ValueError(f"not written by Slurm: {text!r}")
        numbers += [int(match[1])] * repeated
    return tuple(numbers)
