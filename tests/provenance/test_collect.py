"""Facts about a run, put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colltune import provenance
from tests.provenance import machine


def test_secrets_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the MPI library are recorded, secrets among them are not."""
    monkeypatch.setenv("OMPI_MCA_btl", "self")
    monkeypatch.setenv("SLURM_JOB_TOKEN", "hush")
    facts = provenance.collect({"backend": "native"})
    assert facts["env.OMPI_MCA_btl"] == "self"
    assert facts["backend"] == "native"
    assert "hush" not in facts.values()
    assert int(facts["cores"]) >= 1


def test_facts_are_read_from_the_machine(tmp_path: Path) -> None:
    """The facts of every reader are there, flat and fit for JSON."""
    machine.two_sockets(tmp_path)
    facts = provenance.collect({"shape": "2x4"}, root=tmp_path)
    assert (facts["cpu"], facts["cpu_sockets"], facts["running_tasks"]) == ("Fast 9000", "2", "17")
    assert "b007" in facts["allocation"]
    assert facts["shape"] == "2x4"
    assert json.loads(json.dumps(facts)) == facts
    assert all(isinstance(value, str) and value for value in facts.values())


def test_a_machine_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    """Without /proc and /sys there are fewer facts, and the essential ones are still there."""
    facts = provenance.collect(root=tmp_path)
    assert {"host", "cpu", "cores", "system", "time_utc", "allocation"} <= facts.keys()
    assert facts.keys().isdisjoint({"cpu_sockets", "memory_bytes", "fabric", "load_average"})


def test_odd_files_give_no_fact(tmp_path: Path) -> None:
    """Folders, garbage and cut lines where numbers are expected give no key and no error."""
    machine.two_sockets(tmp_path)
    for name in ("proc/meminfo", "proc/loadavg", "sys/devices/system/cpu/online"):
        (tmp_path / name).write_bytes(b"\xff\xfe?? -1 \x00")
    (tmp_path / "proc/cpuinfo").unlink()
    (tmp_path / "proc/cpuinfo").mkdir()
    (tmp_path / "sys/class").mkdir()
    (tmp_path / "sys/class/net").write_text("a file")
    facts = provenance.collect(root=tmp_path)
    absent = {"memory_bytes", "load_average", "running_tasks", "cpu_threads", "cpu_sockets"}
    assert facts.keys().isdisjoint({*absent, "interconnect"})


def test_what_the_caller_knows_comes_last(tmp_path: Path) -> None:
    """`extra` wins over what was read."""
    assert provenance.collect({"host": "n7"}, root=tmp_path)["host"] == "n7"
