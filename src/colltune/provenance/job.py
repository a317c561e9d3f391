"""The batch job and environment of this process, and the commit of colltune itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from colltune.provenance.machine import exists, known, text

_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_MOST_NODES = 1 << 20
_NO_TASK = ("", "0", "undefined")
_PREFIXES = (
    *("OMPI_", "PMIX_MCA_", "PRTE_", "MPICH_", "MPIR_", "I_MPI_", "HYDRA_", "MV2_", "MVP_"),
    *("UCX_", "UCC_", "HCOLL_", "SHARP_", "FI_", "PSM2_", "PSM3_", "HFI_"),
    *("OMP_", "KMP_", "GOMP_", "SLURM_", "PALS_", "MALLOC_"),
)
_NAMES = frozenset({"LD_PRELOAD", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HUGETLB_MORECORE"})
_SECRET_MARKS = (
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "KEY", "CREDENTIAL", "COOKIE"),
    *("JWT", "AUTH"),
)
_PERSONAL_WORDS = frozenset(
    {"ACCOUNT", "COMMENT", "DIR", "GID", "GROUP", "HOME", "MAIL", "SUBMIT", "UID", "USER"}
    | {"USERNAME", "WCKEY"}
)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class _BatchSystem(NamedTuple):
    """Names of the environment variables in which a batch system tells its job."""

    name: str
    job_id: str
    array_task: str = ""
    restart: str = ""
    cluster: str = ""
    only_with: str = ""


_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME")
_BATCH_SYSTEMS = (
    _BatchSystem("slurm", "SLURM_JOB_ID", *_SLURM),
    _BatchSystem("flux", "FLUX_JOB_ID"),
    _BatchSystem("pbs", "PBS_JOBID", "PBS_ARRAY_INDEX"),
    _BatchSystem("lsf", "LSB_JOBID", "LSB_JOBINDEX", "LSB_RESTART_COUNT"),
    _BatchSystem("pjm", "PJM_JOBID", "PJM_BULKNUM"),
    _BatchSystem("oar", "OAR_JOB_ID", "OAR_ARRAY_INDEX"),
    _BatchSystem("cobalt", "COBALT_JOBID"),
    _BatchSystem("sge", "JOB_ID", "SGE_TASK_ID", "RESTARTED", only_with="SGE_ROOT"),
)


def job_facts(
    environment: Mapping[str, str], host: str, boot_id: str, now: datetime
) -> dict[str, str]:
    """Return ``job_system``, ``job_id``, ``job_array_task``, ``job_restart`` and ``allocation``."""
    system = _batch_system(environment)
    told = {"allocation": allocation(environment, host, boot_id, now)}
    if system is not None:
        is_slurm = system.name == "slurm"
        told |= {
            "job_system": system.name,
            "job_id": environment[system.job_id],
            "job_array": environment.get("SLURM_ARRAY_JOB_ID", "") if is_slurm else "",
            "job_array_task": _task(environment, system),
            "job_restart": environment.get(system.restart, ""),
        }
    return known(told)


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
    found = (
        system
        for system in _BATCH_SYSTEMS
        if environment.get(system.job_id)
        and (not system.only_with or system.only_with in environment)
    )
    return next(found, None)


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


def environment_facts(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return ``env.NAME`` for each relevant variable; `home` is written as ``~``."""
    return {
        f"env.{name}": _without_home(value, home)
        for name, value in sorted(environment.items())
        if (name.startswith(_PREFIXES) or name in _NAMES)
        and not _is_private(name)
        and not _holds_secret(value)
    }


def _is_private(name: str) -> bool:
    upper = name.upper()
    is_secret = any(mark in upper for mark in _SECRET_MARKS)
    return is_secret or not _PERSONAL_WORDS.isdisjoint(upper.split("_"))


def _holds_secret(value: str) -> bool:
    assigned = (word.rpartition("=")[0].upper() for word in re.split(r"[\s;,]", value))
    by_name = any(mark in name for name in assigned for mark in _SECRET_MARKS)
    return by_name or bool(_URL_WITH_PASSWORD.search(value))


def _without_home(value: str, home: str) -> str:
    if not home.strip("/"):
        return value
    return re.sub(rf"{re.escape(home.rstrip('/'))}(?![^/:;,\s])", "~", value)


@lru_cache(maxsize=4)
def checkout_facts(package: Path) -> dict[str, str]:
    """Return ``colltune_commit`` of the checkout that holds the folder `package`, where known."""
    return known({"colltune_commit": commit(package) or _installed_commit()})


def commit(folder: Path) -> str:
    """Return the commit of the checkout of colltune around `folder`, or an empty text."""
    for parent in folder.resolve().parents:
        if exists(parent / ".git"):
            is_ours = folder.resolve().is_relative_to(parent / "src" / "colltune")
            return _head(_git_folder(parent / ".git")) if is_ours else ""
    return ""


def _git_folder(path: Path) -> Path:
    """Return the folder that ``.git`` is, or names if it is the file of a work tree."""
    pointer = text(path).removeprefix("gitdir:").strip() if path.is_file() else ""
    return path.parent / pointer if pointer else path


def _head(git: Path) -> str:
    head = text(git / "HEAD")
    if head.startswith("ref:"):
        reference = head.removeprefix("ref:").strip()
        common = git / (text(git / "commondir") or ".")
        head = text(git / reference) or text(common / reference) or _packed(common, reference)
    return head if _COMMIT.fullmatch(head) else ""


def _packed(common: Path, reference: str) -> str:
    lines = text(common / "packed-refs", most_bytes=1 << 30).splitlines()
    pairs = (line.partition(" ") for line in lines)
    return next((sha for sha, _, name in pairs if name.strip() == reference), "")


def _installed_commit() -> str:
    """Return what the installer recorded when it took a repository (PEP 610)."""
    try:
        recorded = json.loads(metadata.distribution("colltune").read_text("direct_url.json") or "")
        found = recorded["vcs_info"]["commit_id"]
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) and _COMMIT.fullmatch(found) else ""
