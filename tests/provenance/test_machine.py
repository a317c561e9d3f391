"""Processor, memory, clock and load."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.provenance import machine as hardware
from colltune.provenance.machine import numbers
from tests.provenance import machine


def test_processors_are_counted(tmp_path: Path) -> None:
    """Sockets, cores and threads are told apart; the clock, memory and frequencies are named."""
    machine.two_sockets(tmp_path)
    facts = hardware.static_facts(tmp_path)
    expected = {
        "cpu": "Fast 9000",
        "cpu_sockets": "2",
        "cpu_cores": "4",
        "cpu_threads": "8",
        "cpu_governor": "performance",
        "cpu_turbo": "off",
        "numa_nodes": "4",
        "memory_bytes": str(2 << 20),
        "clock_source": "hpet",
    }
    assert {name: facts.get(name) for name in expected} == expected
    assert "hypervisor" not in facts


def test_processors_that_are_offline_do_not_count(tmp_path: Path) -> None:
    """With the second threads switched off there are as many threads as cores."""
    machine.two_sockets(tmp_path)
    cpu = tmp_path / "sys/devices/system/cpu"
    (cpu / "online").write_text("0-3\n")
    for number in range(4):
        (cpu / f"cpu{number}/topology/core_cpus_list").write_text(f"{number}\n")
    facts = hardware.static_facts(tmp_path)
    assert (facts["cpu_sockets"], facts["cpu_cores"], facts["cpu_threads"]) == ("2", "4", "4")


def test_load_and_binding_are_of_the_moment(tmp_path: Path) -> None:
    """A machine that gets busy between two launches is seen to."""
    machine.two_sockets(tmp_path)
    assert hardware.momentary_facts(tmp_path) == {
        "binding": "2-3",
        "memory_binding": "1",
        "load_average": "12.50 3.00 1.00",
        "running_tasks": "17",
    }
    (tmp_path / "proc/loadavg").write_text("0.00 0.00 0.00 1/900 4243\n")
    assert hardware.momentary_facts(tmp_path)["running_tasks"] == "1"


@pytest.mark.parametrize(
    ("files", "name", "value"),
    [
        ({"sys/devices/system/cpu/cpufreq/boost": "1"}, "cpu_turbo", "on"),
        ({"sys/devices/system/cpu/intel_pstate/no_turbo": "0"}, "cpu_turbo", "on"),
        (
            {"proc/cpuinfo": "flags : fpu hypervisor", "sys/class/dmi/id/sys_vendor": "QEMU"},
            "hypervisor",
            "QEMU",
        ),
        ({"proc/self/cgroup": "0::/kubepods/pod1"}, "container", "kubepods"),
        ({"run/.containerenv": ""}, "container", "podman"),
    ],
)
def test_hints_are_read(
    tmp_path: Path,
    files: dict[str, str],
    name: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Turbo, virtual machines and containers are told from their usual traces."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    machine.write(tmp_path, files)
    assert hardware.static_facts(tmp_path)[name] == value


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("0-2,8", {0, 1, 2, 8}),
        ("5", {5}),
        ("", set()),
        ("0-", set()),
        ("a", set()),
        ("²", set()),
        ("0-99999999999", set()),
    ],
)
def test_kernel_lists(listed: str, found: set[int]) -> None:
    """A list of ranges is read; a malformed one holds nothing."""
    assert numbers(listed) == found


_V2 = "30 1 0:26 {top} /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
_V1 = "33 1 0:30 {top} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
_V1_FOLDER = "sys/fs/cgroup/cpu,cpuacct"


def _usable(
    root: Path, monkeypatch: pytest.MonkeyPatch, threads: set[int], files: dict[str, str]
) -> int:
    machine.two_sockets(root)
    machine.write(root, files)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: threads)
    return hardware.usable_cores(root)


@pytest.mark.parametrize(
    ("threads", "files", "cores"),
    [
        (set(range(8)), {}, 4),
        # two threads of one core, and one of another
        ({0, 4, 1}, {}, 2),
        ({3}, {}, 1),
        (
            set(range(8)),
            {
                "proc/self/cgroup": "0::/user/job",
                "proc/self/mountinfo": _V2.format(top="/"),
                "sys/fs/cgroup/user/cpu.max": "250000 100000",
                "sys/fs/cgroup/user/job/cpu.max": "max 100000",
            },
            2,
        ),
        # a container sees its own group as the top one
        (
            set(range(8)),
            {
                "proc/self/cgroup": "0::/",
                "proc/self/mountinfo": _V2.format(top="/"),
                "sys/fs/cgroup/cpu.max": "300000 100000",
            },
            3,
        ),
        (
            set(range(8)),
            {
                "proc/self/cgroup": "5:devices:/\n4:cpu,cpuacct:/docker/one/in",
                "proc/self/mountinfo": _V1.format(top="/docker/one"),
                f"{_V1_FOLDER}/cpu.cfs_quota_us": "300000",
                f"{_V1_FOLDER}/cpu.cfs_period_us": "100000",
                f"{_V1_FOLDER}/in/cpu.cfs_quota_us": "50000",
                f"{_V1_FOLDER}/in/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        (
            set(range(8)),
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/",
                "proc/self/mountinfo": _V1.format(top="/"),
                f"{_V1_FOLDER}/cpu.cfs_quota_us": "-1",
                f"{_V1_FOLDER}/cpu.cfs_period_us": "100000",
            },
            4,
        ),
    ],
    ids=["threads", "binding", "one", "nested", "container", "version 1", "no quota"],
)
def test_the_tightest_limit_of_cores_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads: set[int],
    files: dict[str, str],
    cores: int,
) -> None:
    """Physical cores count, as far as binding and all control groups above allow them."""
    assert _usable(tmp_path, monkeypatch, threads, files) == cores
