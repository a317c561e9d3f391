"""Counting what jobs ask for."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.domain import Shape
from colltune.errors import DataError
from colltune.selector import demand
from colltune.selector.demand import Demand, DemandLog, counted_hours, read_demand
from tests.refusals import refused


def test_what_is_noted_is_read(tmp_path: Path) -> None:
    """Counts of several writers and flushes add up, the most frequent first."""
    for _ in range(2):
        log = DemandLog(tmp_path / "demand")
        for _ in range(3):
            log.note("openmpi", "4.1.4", Shape(4, 8))
        log.flush()
        log.note("openmpi", "4.1.4", Shape(4, 8))
        log.note("mpich", "4.3.2", Shape(2, 1))
        log.flush()
        log.flush()
    assert read_demand(tmp_path / "demand") == [
        Demand("openmpi", "4.1.4", 4, 8, 8),
        Demand("mpich", "4.3.2", 2, 1, 2),
    ]
    files = list((tmp_path / "demand").iterdir())
    assert len(files) == 2
    assert all(len(f.read_text().splitlines()) == 3 for f in files)


def test_threads_lose_nothing(tmp_path: Path) -> None:
    """Notes and flushes of many threads at once count each request once."""
    log = DemandLog(tmp_path)

    def ask(number: int) -> None:
        for k in range(50):
            log.note("openmpi", "4.1.4", Shape(1 + k % 3, 2))
            if number % 2 and k % 10 == 0:
                log.flush()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    log.flush()
    assert sum(d.count for d in read_demand(tmp_path)) == 400


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    """Whatever else is in a file, its good lines count."""
    log = DemandLog(tmp_path)
    log.note("openmpi", "4.1.4", Shape(4, 8))
    log.flush()
    (file,) = tmp_path.iterdir()
    good = json.loads(file.read_text())
    bad = [
        good | {"count": -1},
        good | {"count": True},
        good | {"nodes": 2**70},
        good | {"nodes": 2**62, "ppn": 2**62},
        good | {"library": 3},
        good | {"version": 2},
        good | {"release": "x" * 1000},
        {k: v for k, v in good.items() if k != "ppn"},
        [1],
    ]
    lines = [json.dumps(b).encode() for b in bad]
    lines += [b"\xff\xfe", b"[" * 50_000, file.read_bytes()[:20]]
    with file.open("ab") as stream:
        stream.write(b"\n".join(lines))
    assert read_demand(tmp_path) == [Demand("openmpi", "4.1.4", 4, 8, 1)]


def test_a_full_disk_is_one_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is disturbed, half lines are taken back, and nothing is lost when there is room."""
    log = DemandLog(tmp_path)
    log.note("openmpi", "4.1.4", Shape(4, 8))
    log.flush()
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.note("openmpi", "4.1.4", Shape(4, 8))
            log.flush()
    assert file.read_bytes() == before
    assert [r.getMessage() for r in caplog.records] == [
        f"the requests of jobs cannot be written to {tmp_path}: No space left on device"
    ]
    monkeypatch.undo()
    log.flush()
    assert read_demand(tmp_path) == [Demand("openmpi", "4.1.4", 4, 8, 4)]


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who asks for ever new shapes is not counted without end."""
    monkeypatch.setattr("colltune.selector.demand.MOST_WAITING", 10)
    log = DemandLog(tmp_path)
    for nodes in range(1, 100):
        log.note("openmpi", "4.1.4", Shape(nodes, 1))
    log.flush()
    assert len(read_demand(tmp_path)) == 10


def test_no_folder_is_said(tmp_path: Path) -> None:
    """A folder that is not there is an error, not an absence of demand."""
    with refused("no-demand", DataError):
        read_demand(tmp_path / "none")


def test_the_hours_that_were_counted(tmp_path: Path) -> None:
    """From the first hour to the end of the last, over all files; none before anybody asked."""
    assert counted_hours(tmp_path) == 0
    line = (
        '{"version": 1, "hour": "%s", "library": "openmpi", "release": "5.0.8", "nodes": 2,'
        ' "ppn": 4, "count": 1}\n'
    )
    for number, hour in enumerate(("2026-11-22T23", "2026-11-21T00", "no hour")):
        (tmp_path / f"demand-{number}.jsonl").write_text(line % hour)
    assert counted_hours(tmp_path) == 48
    assert sum(d.count for d in read_demand(tmp_path)) == 2


def test_a_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one is written anew, each hour and shape once, without its oldest hours."""
    monkeypatch.setattr(demand, "MOST_BYTES", 4096)
    log = DemandLog(tmp_path)
    for _ in range(100):
        log.note("openmpi", "4.1.4", Shape(4, 8))
        log.flush()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size <= 4096
    assert [found.count for found in read_demand(tmp_path)] == [100]
    for nodes in range(1, 300):
        log.note("openmpi", "4.1.4", Shape(nodes, 8))
        log.flush()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size <= 4096
    assert read_demand(tmp_path)
