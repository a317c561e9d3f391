"""Where a number comes from: machine, interconnect, job, versions, environment, time.

Everything is read from files under ``/proc`` and ``/sys`` and from the environment; no program is
started. A fact that cannot be read is absent. ``collect`` lists the keys.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from colltune import __version__
from colltune.provenance import job, machine
from colltune.provenance.machine import cpu_name, usable_cores

__all__ = ["collect", "cpu_name", "usable_cores"]
_ROOT = Path("/")


def collect(extra: Mapping[str, str] | None = None, root: Path = _ROOT) -> dict[str, str]:
    """Return flat, printable facts about this machine and run; `extra` is added on top.

    Keys: ``host``, ``colltune_version``, ``colltune_commit``, ``python_version``, ``time_utc``;
    ``system``, ``cpu``, ``cores`` (usable by this process), ``cpu_sockets``, ``cpu_cores``,
    ``cpu_threads``, ``cpu_governor``, ``cpu_turbo``, ``numa_nodes``, ``memory_bytes``,
    ``clock_source``, ``hypervisor``, ``container``; ``interconnect`` (every port) and ``fabric``
    (the fastest in short); ``binding`` and ``memory_binding`` of this process; ``load_average`` and
    ``running_tasks`` at this moment; ``job_system``, ``job_id``, ``job_array``, ``job_array_task``,
    ``job_restart`` and ``allocation`` (see `job.allocation`); ``env.NAME`` for each relevant
    environment variable. Secrets and user names are left out.
    """
    now = datetime.now(UTC)
    facts = {
        "colltune_version": __version__,
        "host": socket.gethostname(),
        "time_utc": now.isoformat(timespec="seconds"),
        "cores": str(usable_cores()),
        **job.checkout_facts(Path(__file__).parent),
        **machine.static_facts(root),
        **machine.momentary_facts(root),
        **machine.fabric_facts(root),
        **job.job_facts(os.environ, socket.gethostname(), machine.boot_id(root), now),
        **job.environment_facts(os.environ, os.environ.get("HOME", "")),
    }
    return facts | dict(extra or {})
