"""Processor, memory, clock and load as the kernel tells them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from colltune.provenance.reading import exists, numbers, text

_CONTAINER_FILES = {".dockerenv": "docker", "run/.containerenv": "podman"}
_CONTAINER_VARIABLES = {
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "singularity",
    "KUBERNETES_SERVICE_HOST": "kubernetes",
    "ENROOT_ROOTFS": "enroot",
}
_CGROUP_MARKS = ("docker", "kubepods", "libpod", "lxc")


def cpu_name(root: Path = Path("/")) -> str:
    """Return the processor's name as the kernel tells it, or the architecture."""
    return _first_processor(root).get("model name") or platform.machine()


def usable_cores() -> int:
    """Return how many logical processors this process may use."""
    return len(os.sched_getaffinity(0))


def boot_id(root: Path) -> str:
    """Return the random name that the kernel gave to this boot."""
    return text(root / "proc/sys/kernel/random/boot_id")


@lru_cache(maxsize=4)
def static_facts(root: Path) -> dict[str, str]:
    """Return what stays the same while this process lives; read once."""
    cpu = root / "sys/devices/system/cpu"
    found = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python_version": platform.python_version(),
        "cpu": cpu_name(root),
        **_topology(cpu),
        "cpu_governor": text(cpu / "cpu0/cpufreq/scaling_governor"),
        "cpu_turbo": _turbo(cpu),
        "numa_nodes": _count(numbers(text(root / "sys/devices/system/node/online"))),
        "memory_bytes": _memory_bytes(root),
        "clock_source": text(
            root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "hypervisor": _hypervisor(root),
        "container": _container(root),
    }
    return _known(found)


def momentary_facts(root: Path) -> dict[str, str]:
    """Return this process's binding and how busy the machine is right now."""
    load = text(root / "proc/loadavg").split()
    status = dict(_fields(text(root / "proc/self/status")))
    found = {
        "binding": status.get("Cpus_allowed_list", ""),
        "memory_binding": status.get("Mems_allowed_list", ""),
        "load_average": " ".join(load[:3]) if len(load) >= 4 else "",
        "running_tasks": load[3].partition("/")[0] if len(load) >= 4 else "",
    }
    return _known(found)


def _known(found: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if value}


def _count(things: frozenset[int]) -> str:
    return str(len(things)) if things else ""


def _fields(lines: str) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def _first_processor(root: Path) -> dict[str, str]:
    return dict(_fields(text(root / "proc/cpuinfo").partition("\n\n")[0]))


def _topology(cpu: Path) -> dict[str, str]:
    """Count sockets, cores and threads that are online; one file is read per core."""
    online = numbers(text(cpu / "online"))
    sockets = _groups(cpu, online, ("package_cpus_list", "core_siblings_list"))
    cores = _groups(cpu, online, ("core_cpus_list", "thread_siblings_list"))
    return {
        "cpu_sockets": str(sockets or ""),
        "cpu_cores": str(cores or ""),
        "cpu_threads": _count(online),
    }


def _groups(cpu: Path, online: frozenset[int], files: tuple[str, ...]) -> int:
    """Count the groups into which each processor's own list divides the processors."""
    left, count = set(online), 0
    while left:
        number = min(left)
        folder = cpu / f"cpu{number}/topology"
        group = next(filter(None, (numbers(text(folder / file)) for file in files)), None)
        if group is None or number not in group:
            return 0
        left -= group
        count += 1
    return count


def _turbo(cpu: Path) -> str:
    answers = {
        (cpu / "intel_pstate/no_turbo", "0"): "on",
        (cpu / "intel_pstate/no_turbo", "1"): "off",
        (cpu / "cpufreq/boost", "1"): "on",
        (cpu / "cpufreq/boost", "0"): "off",
    }
    return next((told for (file, value), told in answers.items() if text(file) == value), "")


def _memory_bytes(root: Path) -> str:
    total = dict(_fields(text(root / "proc/meminfo"))).get("MemTotal", "").split()
    is_told = len(total) == 2 and total[0].isdecimal() and total[1] == "kB"
    return str(int(total[0]) * 1024) if is_told else ""


def _hypervisor(root: Path) -> str:
    if "hypervisor" not in _first_processor(root).get("flags", "").split():
        return ""
    return text(root / "sys/class/dmi/id/sys_vendor") or "yes"


def _container(root: Path) -> str:
    by_variable = (n for v, n in _CONTAINER_VARIABLES.items() if v in os.environ)
    by_file = (n for f, n in _CONTAINER_FILES.items() if exists(root / f))
    cgroup = text(root / "proc/self/cgroup")
    by_cgroup = (mark for mark in _CGROUP_MARKS if mark in cgroup)
    return next((name for names in (by_variable, by_file, by_cgroup) for name in names), "")
