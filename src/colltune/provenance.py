"""Where a number comes from: host, processor, versions, relevant environment, time."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from colltune import __version__

_RELEVANT_PREFIXES = ("OMPI_MCA_", "PRTE_MCA_", "I_MPI_", "MPIR_CVAR_", "UCX_", "FI_", "SLURM_JOB_")
_SECRET_MARKS = ("TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL")


def collect(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return flat, printable facts about this machine and run; `extra` is added on top.

    Environment variables that look like secrets are left out.
    """
    facts = {
        "colltune_version": __version__,
        "host": socket.gethostname(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": str(usable_cores()),
        "python_version": platform.python_version(),
        "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    facts |= {
        f"env.{name}": value
        for name, value in sorted(os.environ.items())
        if name.startswith(_RELEVANT_PREFIXES) and not any(m in name for m in _SECRET_MARKS)
    }
    return facts | dict(extra or {})


def cpu_name() -> str:
    """Return the processor's name as the kernel tells it, or the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def usable_cores() -> int:
    """Return how many logical processors this process may use."""
    return len(os.sched_getaffinity(0))
