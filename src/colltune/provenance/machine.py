"""Processor, memory, clock, load and interconnects as the kernel tells them.

Sources of interconnects, read from ``/sys/class/{infiniband,cxi,net}``: the kernel's
``Documentation/ABI/stable/sysfs-class-infiniband`` and ``sysfs-class-net``; the Slingshot drivers'
``device/port``. Files of ``/proc`` and ``/sys`` may be missing, empty or unreadable.
"""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_MOST_BYTES = 65536
_MOST_CORES = float(1 << 20)
_CORE_FILES = ("core_cpus_list", "thread_siblings_list")
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_CONTAINER_FILES = {".dockerenv": "docker", "run/.containerenv": "podman"}
_CONTAINER_VARIABLES = {
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "singularity",
    "KUBERNETES_SERVICE_HOST": "kubernetes",
    "ENROOT_ROOTFS": "enroot",
}
_CGROUP_MARKS = ("docker", "kubepods", "libpod", "lxc")
_ETHERNET_TYPE = "1"
_NODE_TYPE_IWARP = "4"


def text(path: Path, most_bytes: int = _MOST_BYTES) -> str:
    """Return the beginning of a file, stripped; empty where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(most_bytes).decode(errors="replace").strip()
    except OSError:
        # some files of /sys exist and cannot be read, such as the speed of a link that is down
        return ""


def entries(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def exists(path: Path) -> bool:
    """Tell whether something is there; what cannot be looked at is not."""
    try:
        return path.exists()
    except OSError:
        return False


def link_name(path: Path) -> str:
    """Return the last part of where a symbolic link points to; empty where there is none."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def numbers(listed: str) -> frozenset[int]:
    """Return the numbers of a kernel list such as ``0-3,8``; none where it is malformed."""
    found: set[int] = set()
    for part in listed.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return frozenset()
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def cpu_name(root: Path = Path("/")) -> str:
    """Return the processor's name as the kernel tells it, or the architecture."""
    return _first_processor(root).get("model name") or platform.machine()


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many physical cores this process may keep busy, at least 1.

    Binding, a batch system's set of processors and time limits of control groups count.
    """
    threads = frozenset(os.sched_getaffinity(0))
    cores = _groups(root / "sys/devices/system/cpu", threads, _CORE_FILES) or len(threads)
    return max(1, min(cores, math.floor(_cpu_quota(root))))


def _cpu_quota(root: Path) -> float:
    """Return how many processors' time the control groups of this process grant together."""
    groups = [line.split(":", 2) for line in text(root / "proc/self/cgroup").splitlines()]
    paths = {
        kind: Path(path)
        for _, controllers, path in (group for group in groups if len(group) == 3)
        for kind in (["cgroup2"] if not controllers else controllers.split(","))
    }
    granted = [_MOST_CORES]
    for line in text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        words, kinds = before.split(), after.split()
        kind = _quota_kind(kinds)
        if kind in paths and len(words) > 4:
            top, mounted = (Path(_unescaped(word)) for word in words[3:5])
            # a container may see its own group as the top one
            inside = paths[kind].relative_to(top) if paths[kind].is_relative_to(top) else Path()
            folder = root / mounted.relative_to("/")
            granted += [_quota(folder / part) for part in (inside, *inside.parents)]
    return min(granted)


def _quota_kind(mount: list[str]) -> str:
    """Return as what ``/proc/self/cgroup`` names the hierarchy of a mount; empty without quota."""
    if not mount:
        return ""
    if mount[0] == "cgroup" and "cpu" in mount[-1].split(","):
        return "cpu"
    return "cgroup2" if mount[0] == "cgroup2" else ""


def _quota(group: Path) -> float:
    """Return the processors' time that one control group grants, of either version."""
    told = text(group / "cpu.max").split() or [
        text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")
    ]
    if len(told) != 2 or not all(word.isdecimal() and int(word) for word in told):
        return _MOST_CORES
    return int(told[0]) / int(told[1])


def _unescaped(path: str) -> str:
    """Return a path of ``/proc/self/mountinfo``, where blanks are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def boot_id(root: Path) -> str:
    return text(root / "proc/sys/kernel/random/boot_id")


@lru_cache(maxsize=4)
def static_facts(root: Path) -> dict[str, str]:
    """Return what stays the same while this process lives; read once."""
    cpu = root / "sys/devices/system/cpu"
    facts = {
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
    return known(facts)


def momentary_facts(root: Path) -> dict[str, str]:
    """Return this process's binding and how busy the machine is right now."""
    load = text(root / "proc/loadavg").split()
    status = dict(_fields(text(root / "proc/self/status")))
    is_told = len(load) >= 4
    return known(
        {
            "binding": status.get("Cpus_allowed_list", ""),
            "memory_binding": status.get("Mems_allowed_list", ""),
            "load_average": " ".join(load[:3]) if is_told else "",
            "running_tasks": load[3].partition("/")[0] if is_told else "",
        }
    )


def known(facts: dict[str, str]) -> dict[str, str]:
    """Return the facts that could be read."""
    return {name: value for name, value in facts.items() if value}


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
    cores = _groups(cpu, online, _CORE_FILES)
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


@dataclass(frozen=True)
class Port:
    """One port of a network adapter; ``gbit_per_s`` is 0 where the rate is not told."""

    device: str
    kind: str
    gbit_per_s: float
    is_active: bool

    def __str__(self) -> str:
        rate = f" {self.gbit_per_s:g} Gb/s" if self.gbit_per_s else ""
        return f"{self.device} {self.kind}{rate}{'' if self.is_active else ' (down)'}"


def fabric_facts(root: Path) -> dict[str, str]:
    """Return ``interconnect`` (all ports) and ``fabric``, where there are any."""
    found = (*_slingshot(root), *_verbs(root), *_ethernet(root))
    return known({"interconnect": "; ".join(map(str, found)), "fabric": fabric_name(found)})


def fabric_name(ports: tuple[Port, ...]) -> str:
    """Return the active ports that MPI would use, in short: ``2 x InfiniBand 200 Gb/s``."""
    active = [port for port in ports if port.is_active]
    # which MPI prefers to plain Ethernet
    candidates = [port for port in active if port.kind != "Ethernet"] or active
    if not candidates:
        return ""
    best = max(candidates, key=lambda port: port.gbit_per_s)
    rails = sum((p.kind, p.gbit_per_s) == (best.kind, best.gbit_per_s) for p in candidates)
    rate = f" {best.gbit_per_s:g} Gb/s" if best.gbit_per_s else ""
    return f"{f'{rails} x ' if rails > 1 else ''}{best.kind}{rate}"


def _verbs(root: Path) -> Iterator[Port]:
    for device in entries(root / "sys/class/infiniband"):
        for port in entries(device / "ports"):
            state = text(port / "state")
            yield Port(
                f"{device.name}:{port.name}",
                _verbs_kind(device, text(port / "link_layer")),
                _gbit_per_s(text(port / "rate")),
                "ACTIVE" in state.split(),
            )


def _verbs_kind(device: Path, link_layer: str) -> str:
    driver = link_name(device / "device/driver")
    if device.name.startswith("hfi1") or driver == "hfi1":
        return "Omni-Path"
    if device.name.startswith("efa") or driver == "efa":
        return "EFA"
    if link_layer == "Ethernet":
        return "iWARP" if text(device / "node_type").startswith(_NODE_TYPE_IWARP) else "RoCE"
    return link_layer if link_layer == "InfiniBand" else "RDMA"


def _gbit_per_s(rate: str) -> float:
    """Return the number of ``200 Gb/sec (4X HDR)``."""
    match = re.match(r"(\d+(?:\.\d+)?)\s*Gb/s", rate)
    return float(match[1]) if match else 0.0


def _slingshot(root: Path) -> Iterator[Port]:
    """Yield Cassini adapters; a speed is ``BS_200G`` in ``port``, ``ck400G`` in ``port/0/link``."""
    for device in entries(root / "sys/class/cxi"):
        port = device / "device/port"
        speed = text(port / "speed") or text(port / "0/link/speed")
        state = text(port / "link") or text(port / "0/link/state")
        match = re.search(r"(\d+)G", speed)
        yield Port(
            device.name, "Slingshot", float(match[1]) if match else 0.0, state.lower() != "down"
        )


def _ethernet(root: Path) -> Iterator[Port]:
    for interface in entries(root / "sys/class/net"):
        # bridges, tunnels, loopback and the like have no device behind them
        is_physical = exists(interface / "device")
        if not is_physical or text(interface / "type") != _ETHERNET_TYPE:
            continue
        speed = text(interface / "speed")
        mbit_per_s = int(speed) if re.fullmatch(r"[0-9]{1,9}", speed) else 0
        is_up = text(interface / "operstate") in ("up", "unknown")
        yield Port(interface.name, "Ethernet", mbit_per_s / 1000, is_up)
