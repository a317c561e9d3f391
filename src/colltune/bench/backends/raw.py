"""The native benchmark's files: its plan, written, and its raw output, read and watched.

Version 2 of both since launches hold smaller shapes; raw output of version 1 is still read.
"""

from __future__ import annotations

import json
import math
import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from colltune import process
from colltune.bench.backends.protocol import LaunchPlan
from colltune.bench.schedule import Cell
from colltune.dataset.noise.measured import possible
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.errors import say
from colltune.files.reading import json_of

_SALVAGE_VERSION = 1
_HEADS = {"colltune-raw 1": 1, "colltune-raw 2": 2}
_LIVE = struct.Struct("=8sQQq")
_LIVE_MAGIC = b"ctlive2\n"
_LEAST_STUCK_S = 0.5
_HEAD_BYTES = 32
_TAIL_BYTES = 4096
_STEPS_OF_PATIENCE = 3
_BEGINS = re.compile(rb"^s (\d+)$", re.MULTILINE)


@dataclass
class RawOutput:
    """Raw output as read: times and problems by cell index."""

    times_s: dict[int, tuple[float, ...]] = field(default_factory=dict)
    problems: dict[int, tuple[RunStatus, str]] = field(default_factory=dict)
    # cells whose steps had begun but not ended; whether any step had begun
    in_flight: tuple[int, ...] = ()
    began: bool = False
    # the reason of the "end" line, empty if it is missing
    ended: str = ""
    timed_s: float = math.nan
    wall_s: float = math.nan
    facts: dict[str, str] = field(default_factory=dict)

    def add(self, other: RawOutput) -> None:
        """Add times and problems of other cells."""
        self.times_s |= other.times_s
        self.problems |= other.problems


def plan_text(
    plan: LaunchPlan, settings: Sequence[Mapping[str, int | str]], owner: str = ""
) -> str:
    """Return the plan file; ``settings[i]`` are the control variables of ``plan.cells[i]``."""
    distinct: dict[str, int] = {}
    words = [" ".join(f"{k}={v}" for k, v in sorted(s.items())) for s in settings]
    for word in words:
        distinct.setdefault(word, len(distinct))
    lines = [
        "colltune-plan 2",
        f"layout {plan.shape.nodes} {plan.shape.ppn}",
        f"budget {plan.budget_s:.3f}",
        f"sync {plan.synchronisation}",
    ]
    lines += [f"barriers {plan.barriers}"] * (plan.barriers > 1)
    lines += ["side_by_side 1"] * plan.side_by_side
    lines += [f"owner {owner}"] if owner else []
    lines += [f"config {word}".rstrip() for word in distinct]
    for cell, word in zip(plan.cells, words, strict=True):
        instance = cell.instance
        keep = " keep" if cell.configuration.is_default else ""
        lines.append(
            f"cell {distinct[word]} {instance.collective} {instance.msize_bytes}"
            f" {instance.shape.nodes} {instance.shape.ppn}{keep}"
        )
    lines += [f"step {s.cell} {s.max_reps} {s.max_seconds:.6f}" for s in plan.steps]
    return "\n".join(lines) + "\n"


def parts(path: Path) -> tuple[Path, ...]:
    """Return the raw files of a launch: `path`, and beside it those of other sets of nodes."""
    others = (f for f in path.parent.glob(f"{path.name}.*") if f.suffix[1:].isdecimal())
    return (path, *sorted(others, key=lambda file: int(file.suffix[1:])))


def live_of(part: Path) -> Path:
    """Return the file that holds the repetitions of the step under way in `part`."""
    return part.with_name(f"{part.name}.live")


def read_raw(path: Path) -> RawOutput:
    found = RawOutput()
    read = [_Part(file, found) for file in parts(path)]
    found.in_flight = tuple(part.open_step for part in read if part.open_step is not None)
    first = read[0]
    found.ended, found.wall_s, found.facts = first.ended, first.wall_s, first.facts
    found.timed_s = max((part.timed_s for part in read if part.ended), default=math.nan)
    return found


class _Part:
    """One raw file of a launch, whose times and problems are added to those of `found`."""

    def __init__(self, path: Path, found: RawOutput) -> None:
        self._found = found
        self._numbers: set[int] = set()  # of the groups of repetitions that the text has
        self.facts: dict[str, str] = {}
        self.open_step: int | None = None
        self.ended, self.timed_s, self.wall_s = "", math.nan, math.nan
        head, *lines = _read(path, 0).decode(errors="replace").split("\n")
        if lines and head not in _HEADS:
            raise say("not-raw", path=path, line_1=head[:80])
        # what stands behind the last line break is not whole
        for line in lines[:-1]:
            self._take(line, _HEADS[head])
        self._take_live(_read(live_of(path), 0))

    def _take(self, line: str, version: int) -> None:
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind == "s":
            self.open_step, self._found.began = int(words[0]), True
        elif kind == "e":
            self.open_step = None
        elif kind == "r":
            if version > 1:
                self._numbers.add(int(words.pop(1)))
            self._add(int(words[0]), tuple(float(word) for word in words[1:]))
        elif kind == "x":
            self._found.problems[int(words[0])] = (RunStatus(words[1]), " ".join(words[2:]))
        elif kind == "f":
            self.facts[words[0]] = " ".join(words[1:])
        elif kind == "end":
            self.ended, self.timed_s, self.wall_s = words[0], float(words[1]), float(words[2])
            self.open_step = None

    def _take_live(self, content: bytes) -> None:
        """Take the repetitions of the step under way, unless the text has them already."""
        if len(content) < _LIVE.size:
            return
        magic, count, number, cell = _LIVE.unpack_from(content)
        fits = _LIVE.size + 8 * count <= len(content)
        if magic == _LIVE_MAGIC and fits and number not in self._numbers and count:
            self._add(cell, struct.unpack_from(f"={count}d", content, _LIVE.size))

    def _add(self, cell: int, seconds: tuple[float, ...]) -> None:
        self._found.times_s[cell] = self._found.times_s.get(cell, ()) + seconds


def measurements(
    raw: RawOutput,
    cells: Sequence[Cell],
    launch: str,
    blamed: Mapping[int, RunStatus] | None = None,
) -> tuple[Measurement, ...]:
    """Return one measurement per cell that was timed, too fast, refused, wrong, or `blamed`."""
    found = []
    for index, cell in enumerate(cells):
        status = (blamed or {}).get(index) or raw.problems.get(index, (RunStatus.OK, ""))[0]
        times = raw.times_s.get(index, ()) if status.is_timed else ()
        if times or not status.is_timed:
            found.append(Measurement(cell.instance, cell.configuration, launch, status, times))
    round_trip_s = raw.facts.get("round_trip_s")
    return possible(found, float(round_trip_s) if round_trip_s else None)


def save_cells(path: Path, cells: Sequence[Cell], launch: str) -> None:
    """Store which cells a launch measures, so that a killed one can be salvaged."""
    rows = [
        [c.configuration.id, c.instance.shape.nodes, c.instance.shape.ppn, c.instance.msize_bytes]
        for c in cells
    ]
    path.write_text(json.dumps({"version": _SALVAGE_VERSION, "launch": launch, "cells": rows}))


def load_cells(path: Path) -> tuple[tuple[Cell, ...], str]:
    try:
        stored = json_of(path.read_text())
        if (version := stored["version"]) != _SALVAGE_VERSION:
            raise say("format-version", place=path, version=version, known=_SALVAGE_VERSION)
        cells = tuple(_cell(*row) for row in stored["cells"])
        return cells, str(stored["launch"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise say("not-cells", path=path, why=error) from error


def _cell(configuration_id: str, nodes: int, ppn: int, msize_bytes: int) -> Cell:
    configuration = Configuration.parse(configuration_id)
    collective = Collective(configuration.collective)
    return Cell(configuration, Instance(collective, Shape(nodes, ppn), msize_bytes))


class Stop(StrEnum):
    SILENT = "silent"
    OVERDUE = "overdue"


@dataclass
class _LastChange:
    """What a raw file and its live file looked like when they last changed, and when that was."""

    state: tuple[int, bytes] = (-2, b"")
    since: float = 0.0
    in_flight: bool = False
    read_bytes: int = 0


class LaunchWatcher:
    """Reports progress; gives a launch up when it is silent for too long, or past its budget."""

    def __init__(
        self, path: Path, plan: LaunchPlan, progress: Callable[[float], None], around_s: float
    ) -> None:
        self.stop: Stop | None = None
        self.begun: tuple[int, ...] = ()
        self.first_step: float | None = None
        self._path = path
        self._progress = progress
        self._started = time.monotonic()
        longest_step_s = max((step.max_seconds for step in plan.steps), default=0.0)
        steps_s = _STEPS_OF_PATIENCE * longest_step_s
        self._patience_s, self._start_s = plan.patience_s + steps_s, plan.start_s + steps_s
        self._stuck_s = max(_LEAST_STUCK_S, _STEPS_OF_PATIENCE * longest_step_s)
        # it may take so long past its budget to end itself before it is killed
        grace_s = min(5.0, 0.5 + 0.1 * plan.budget_s)
        self._steps_s = plan.budget_s + around_s + grace_s
        allowed_s = max(self._steps_s, plan.latest_s + grace_s)
        self._deadline = min(self._started + allowed_s, process.latest())
        self._seen: dict[Path, _LastChange] = {}

    def __call__(self) -> bool:
        """Return whether the launch may go on; called several times a second."""
        now = time.monotonic()
        for part in parts(self._path):
            self._look(part, self._seen.setdefault(part, _LastChange()), now)
        self._progress(now - self._started)
        # how long processes take to start is no sign of what they measure
        if self._silent_s(now) >= (self._patience_s if self.begun else self._start_s):
            self.stop = Stop.SILENT
        elif now >= self._deadline:
            self.stop = Stop.OVERDUE
        return self.stop is None

    def stuck(self) -> bool:
        """Tell whether what was under way at the end had been so for suspiciously long."""
        return self._silent_s(time.monotonic()) >= self._stuck_s

    def _look(self, part: Path, seen: _LastChange, now: float) -> None:
        size = _size(part)
        state = size, _read(live_of(part), 0, _HEAD_BYTES)
        if state == seen.state:
            return
        tail = _read(part, max(0, size - _TAIL_BYTES))
        seen.state, seen.since, seen.in_flight = state, now, _in_flight(tail, size)
        # read on, to the last whole line, which visits have begun
        text, _, _ = _read(part, seen.read_bytes).rpartition(b"\n")
        seen.read_bytes += len(text)
        # a cell that is visited again goes to the end
        latest = [int(index) for index in reversed(_BEGINS.findall(text))]
        self.begun = tuple(dict.fromkeys([*latest, *reversed(self.begun)]))[::-1]
        if self.begun and self.first_step is None:
            self.first_step = now
            self._deadline = min(self._deadline, now + self._steps_s)

    def _silent_s(self, now: float) -> float:
        """Return for how long a step has shown no sign of life; where none is open, the launch."""
        if not self._seen:
            return now - self._started
        latest = min(now - seen.since for seen in self._seen.values())
        return max((now - s.since for s in self._seen.values() if s.in_flight), default=latest)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _read(file: Path, start: int, length: int = -1) -> bytes:
    try:
        with file.open("rb") as stream:
            stream.seek(start)
            return stream.read(length)
    except OSError:
        return b""


def _in_flight(tail: bytes, size: int) -> bool:
    """Tell whether the last step that began has not ended yet."""
    lines = tail.splitlines()
    kinds = [line[:2] for line in lines if line[:2] in (b"s ", b"e ") or line[:4] == b"end "]
    # a step's own repetitions may be more than what was read; its end comes right behind them
    return kinds[-1] == b"s " if kinds else size > _TAIL_BYTES
