"""Folders that look like the ``/proc`` and ``/sys`` of a machine."""

from __future__ import annotations

from pathlib import Path

_CPU = "sys/devices/system/cpu"


def write(root: Path, files: dict[str, str]) -> None:
    """Write each file below `root`; those under ``sys/class/*/NAME/device/driver`` as links."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/driver"):
            path.symlink_to(Path("../../bus/pci/drivers") / content)
        else:
            path.write_text(content + "\n")


def two_sockets(root: Path) -> None:
    """Write a node of two sockets with two cores of two threads each, in four NUMA nodes."""
    topology = {}
    for number in range(8):
        core = number % 4
        package = "0-1,4-5" if core < 2 else "2-3,6-7"
        topology[f"{_CPU}/cpu{number}/topology/package_cpus_list"] = package
        topology[f"{_CPU}/cpu{number}/topology/core_cpus_list"] = f"{core},{core + 4}"
    write(
        root,
        topology
        | {
            f"{_CPU}/online": "0-7",
            f"{_CPU}/cpu0/cpufreq/scaling_governor": "performance",
            f"{_CPU}/intel_pstate/no_turbo": "1",
            "sys/devices/system/node/online": "0-3",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet",
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Fast 9000\nflags\t\t: fpu sse\n\n"
            "processor\t: 1\nmodel name\t: Slow 1\n",
            "proc/meminfo": "MemTotal:       2048 kB\nMemFree:        1024 kB",
            "proc/loadavg": "12.50 3.00 1.00 17/900 4242",
            "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t1",
            "proc/sys/kernel/random/boot_id": "b007",
        },
    )
