"""Watches a launch of the native benchmark from outside: progress, silence, and the budget."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from colltune import process
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import LaunchPlan

_SILENCE_S = 15.0
_LEAST_STUCK_S = 0.5
_HEAD_BYTES = 32
_TAIL_BYTES = 4096
_STEPS_OF_PATIENCE = 3
_BEGINS = re.compile(rb"^s (\d+)$", re.MULTILINE)


class Stop(StrEnum):
    """Why a launch was given up."""

    SILENT = "silent"
    OVERDUE = "overdue"


@dataclass
class _Seen:
    """What a raw file and its live file looked like when they last changed, and when that was."""

    state: tuple[int, bytes]
    since: float
    in_flight: bool


class Watcher:
    """Reports progress; gives a launch up when it is silent for too long, or past its budget.

    ``begun`` are the cells whose visits have begun, by index, the latest last. Every repetition is
    a sign of life. ``stop`` tells why the launch was given up, None if it was not; `stuck` then
    tells whether a single repetition took longer than any visit is granted. `around_s` is what the
    launch takes beside its plan's budget.
    """

    def __init__(
        self,
        path: Path,
        plan: LaunchPlan,
        progress: Callable[[float], None],
        around_s: float,
    ) -> None:
        self.stop: Stop | None = None
        self.begun: tuple[int, ...] = ()
        self._path = path
        self._progress = progress
        self._started = time.monotonic()
        longest_step_s = max((step.max_seconds for step in plan.steps), default=0.0)
        self._patience_s = _SILENCE_S + _STEPS_OF_PATIENCE * longest_step_s
        self._stuck_s = max(_LEAST_STUCK_S, _STEPS_OF_PATIENCE * longest_step_s)
        allowed_s = plan.budget_s + around_s + _grace_s(plan.budget_s)
        self._deadline = min(self._started + allowed_s, process.latest())
        self._seen: dict[Path, _Seen] = {}
        self._read_bytes: dict[Path, int] = {}

    def __call__(self) -> bool:
        """Return whether the launch may go on; called several times a second."""
        now = time.monotonic()
        self._look(now)
        self._progress(now - self._started)
        if self._silent_s(now) >= self._patience_s:
            self.stop = Stop.SILENT
        elif now >= self._deadline:
            self.stop = Stop.OVERDUE
        return self.stop is None

    def stuck(self) -> bool:
        """Tell whether what was under way at the end had been so for suspiciously long."""
        return self._silent_s(time.monotonic()) >= self._stuck_s

    def _look(self, now: float) -> None:
        for part in raw.parts(self._path):
            state = (_size(part), _start(raw.live_of(part), _HEAD_BYTES))
            if part not in self._seen or self._seen[part].state != state:
                self._seen[part] = _Seen(state, now, _in_flight(part))
                self._follow(part)

    def _follow(self, part: Path) -> None:
        """Read on, to the last whole line, which visits have begun."""
        start = self._read_bytes.get(part, 0)
        try:
            with part.open("rb") as stream:
                stream.seek(start)
                text, _, _ = stream.read().rpartition(b"\n")
        except OSError:
            return
        self._read_bytes[part] = start + len(text)
        # a cell that is visited again goes to the end
        latest = [int(index) for index in reversed(_BEGINS.findall(text))]
        self.begun = tuple(dict.fromkeys([*latest, *reversed(self.begun)]))[::-1]

    def _silent_s(self, now: float) -> float:
        """Return for how long a step has shown no sign of life; where none is open, the launch."""
        if not self._seen:
            return now - self._started
        latest = min(now - seen.since for seen in self._seen.values())
        return max((now - s.since for s in self._seen.values() if s.in_flight), default=latest)


def _grace_s(budget_s: float) -> float:
    """Return how long past its budget a launch may take to end itself before it is killed."""
    return min(5.0, 0.5 + 0.1 * budget_s)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _start(file: Path, length: int) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(length)
    except OSError:
        return b""


def _in_flight(part: Path) -> bool:
    """Tell whether the last step that began has not ended yet."""
    try:
        with part.open("rb") as stream:
            stream.seek(max(0, _size(part) - _TAIL_BYTES))
            lines = stream.read().splitlines()
    except OSError:
        return False
    kinds = [line[:2] for line in lines if line[:2] in (b"s ", b"e ") or line[:4] == b"end "]
    # a step's own repetitions may be more than what was read; its end comes right behind them
    return kinds[-1] == b"s " if kinds else _size(part) > _TAIL_BYTES
