"""Starts the C program that times tasks (tasks.c) and keeps what it measured, however it ends.

Its plan and its raw output are of version 1.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from colltune import process
from colltune.bench import build
from colltune.bench.backends.installed import InstalledMpi
from colltune.bench.launchers import Launcher
from colltune.domain import Configuration, RunStatus, Shape
from colltune.errors import CampaignError, DataError, OutputError, ProgramError
from colltune.files.reading import json_of
from colltune.han.tasks_file import Manner, Measured, Wanted
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY

_CUT_SHORT = "none"
_PLAN, _RAW = "colltune-han-plan 1", "colltune-han-raw 1"
TOLERANCE = 0.15
_START_S = 30.0
_SILENCE_S = 60.0
_COMPLAINT = "collbench: "
_RAW_FILE, _PLAN_FILE, _WANTED_FILE = "raw.txt", "plan.txt", "wanted.json"
_WANTED_VERSION = 1


@dataclass(frozen=True)
class RawOutput:
    """What the program told: `series` that ended, which one was under way, why it ended.

    ``in_flight`` is the index of the series that had begun but not ended, None if none had;
    ``ended`` is ``plan`` or ``budget``, or empty for a program that was killed.
    """

    series: tuple[Measured, ...]
    in_flight: int | None
    ended: str
    facts: Mapping[str, str]


def plan_text(
    launched: Shape,
    wanted: Sequence[Wanted],
    settings: Sequence[Mapping[str, int | str]],
    budget_s: float,
    owner: str = "",
) -> str:
    """Return the plan; ``settings[i]`` are the control variables of ``wanted[i]``."""
    distinct: dict[str, int] = {}
    words = [" ".join(f"{k}={v}" for k, v in sorted(s.items())) for s in settings]
    for word in words:
        distinct.setdefault(word, len(distinct))
    lines = [_PLAN, f"layout {launched.nodes} {launched.ppn}", f"budget {budget_s:.3f}"]
    lines += [f"owner {owner}"] if owner else []
    lines += [f"config {word}".rstrip() for word in distinct]
    for one, word in zip(wanted, words, strict=True):
        values = dict(one.setup.parameters)
        lines.append(
            f"series {distinct[word]} {one.setup.collective} {one.shape.nodes} {one.shape.ppn}"
            f" {values['segsize']} {values['up']} {values['low']} {one.least} {one.most}"
            f" {one.reps} {TOLERANCE:g}"
        )
    return "\n".join(lines) + "\n"


def read_raw(path: Path, wanted: Sequence[Wanted]) -> RawOutput:
    """Read raw output of a plan of `wanted`, whole or cut off by a kill."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    # what follows the last end of line was cut off
    head, *lines = text.split("\n")[:-1] or [_RAW]
    if head != _RAW:
        raise DataError(f"{path}: line 1 is {head[:80]!r}, not raw output of this colltune")
    reading = _Reading(wanted)
    for number, line in enumerate(lines, 2):
        try:
            reading.line(line.split(" "))
        except (IndexError, ValueError) as error:
            raise DataError(f"{path}: line {number} makes no sense: {line[:80]!r}") from error
    in_flight = reading.open_series
    return RawOutput(tuple(reading.series), in_flight, reading.ended, reading.facts)


@dataclass
class _Reading:
    wanted: Sequence[Wanted]
    series: list[Measured] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    problems: dict[int, tuple[RunStatus, str]] = field(default_factory=dict)
    open_series: int | None = None
    ended: str = ""
    _times: dict[int, dict[tuple[int, int], tuple[float, ...]]] = field(default_factory=dict)

    def line(self, words: Sequence[str]) -> None:
        """Take note of a line."""
        kind = words[0]
        if kind == "s":
            self.open_series = int(words[1])
            self._times = defaultdict(dict)
        elif kind == "t":
            _, _, segments, rep, leader, *seconds = words
            found = tuple(map(float, seconds))
            self._times[int(segments)][int(rep), int(leader)] = found
        elif kind == "x":
            self.problems[int(words[1])] = RunStatus(words[2]), " ".join(words[3:])
        elif kind == "e":
            self.series += self._ended(int(words[1]), words[2], float(words[3]))
            self.open_series = None
        elif kind == "f":
            self.facts[words[1]] = " ".join(words[2:])
        elif kind == "end":
            self.ended = words[1]

    def _ended(self, index: int, how: str, wall_s: float) -> Iterator[Measured]:
        wanted = self.wanted[index]
        if index in self.problems:
            yield blamed(wanted, *self.problems[index], wall_s)
            return
        if not self._times:
            return  # the budget ended before anything was timed
        longest = max(self._times)
        by_rep: dict[int, list[tuple[float, ...]]] = defaultdict(list)
        for (rep, _), seconds in sorted(self._times[longest].items()):
            by_rep[rep].append(seconds)
        times = tuple(tuple(leaders) for _, leaders in sorted(by_rep.items()))
        manner = Manner.BOUNDED if how == _CUT_SHORT else Manner(how)
        yield Measured(wanted.shape, wanted.setup, longest, manner, times, wall_s)


def blamed(wanted: Wanted, status: RunStatus, why: str, wall_s: float = 0.0) -> Measured:
    """Return what is kept of a series without times: it failed, or ended a launch."""
    exact = Manner.EXACT
    return Measured(wanted.shape, wanted.setup, wanted.least, exact, (), wall_s, status, why)


@dataclass(frozen=True)
class Ended:
    """How a launch ended: what it measured, and why it was not the plan's end.

    ``crashed`` is empty if the plan or the budget ended it, else it tells what happened.
    """

    output: RawOutput
    wall_s: float
    crashed: str = ""
    timed_out: bool = False


class TaskBench(InstalledMpi):
    """Times series of tasks with an installed Open MPI whose coll/han outranks coll/tuned."""

    def __init__(
        self,
        installation: Installation,
        cache: Path | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        if installation.library != LIBRARY:
            title = LIBRARIES[installation.library].title
            raise ProgramError(
                f"{installation.mpirun} is of {title}; HAN is a part of Open MPI: name its mpirun"
            )
        OPENMPI.han_setups(installation.release).low_modules()
        super().__init__(installation, launcher)
        self.release = installation.release
        self._cache = cache

    def run(
        self,
        launched: Shape,
        wanted: Sequence[Wanted],
        budget_s: float,
        folder: Path,
        progress: Callable[[int, float], None],
    ) -> Ended:
        self._insist_on_free_hand()
        settings = [settings_of(self.release, one.setup) for one in wanted]
        owner = f"{socket.gethostname()} {os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RAW_FILE).unlink(missing_ok=True)
        _save_wanted(folder / _WANTED_FILE, wanted)
        text = plan_text(launched, wanted, settings, budget_s, owner)
        (folder / _PLAN_FILE).write_text(text, encoding="utf-8")
        started = time.monotonic()
        program = build.native_benchmark(self.mpi, self._cache)
        words = (program, folder / _PLAN_FILE, folder / _RAW_FILE)
        command, environment = self.command(launched, words, {})
        outcome = process.run(
            command,
            timeout_s=budget_s + _START_S + _SILENCE_S,
            env=environment,
            watch=_Watcher(folder / _RAW_FILE, progress),
        )
        output = read_raw(folder / _RAW_FILE, wanted)
        wall_s = time.monotonic() - started
        if output.ended:
            return Ended(output, wall_s)
        if _COMPLAINT in outcome.stderr or output.in_flight is None:
            raise ProgramError(f"the program that times tasks failed\n{outcome.explain()}")
        return Ended(output, wall_s, outcome.explain(), outcome.timed_out)

    def _insist_on_free_hand(self) -> None:
        wanted = mca.environment({"coll_han_priority": ""})
        honoured = OPENMPI.user_overrides(wanted, os.environ)
        if honoured.reason:
            raise CampaignError(
                f"the environment decides what Open MPI runs, so that no module can be measured"
                f" under its own name: {honoured.reason}; unset it"
            )


def settings_of(release: str, setup: Configuration) -> dict[str, int | str]:
    """Return the control variables of a setup's modules: coll/han itself has no part in tasks."""
    found = OPENMPI.han_setups(release).variables(setup)
    return {name: value for name, value in found.items() if name.startswith("coll_adapt_")}


def left_behind(folder: Path) -> tuple[RawOutput, tuple[Wanted, ...]] | None:
    """Return what a launch measured that was killed together with its owner; None of none."""
    if not (folder / _WANTED_FILE).exists():
        return None
    wanted = _load_wanted(folder / _WANTED_FILE)
    return read_raw(folder / _RAW_FILE, wanted), wanted


def clear(folder: Path) -> None:
    """Remove the files of a launch, whose measurements are elsewhere."""
    with suppress(OSError):
        shutil.rmtree(folder)


def _save_wanted(path: Path, wanted: Sequence[Wanted]) -> None:
    series = [[str(w.shape), w.setup.id, w.least, w.most, w.reps] for w in wanted]
    try:
        path.write_text(
            json.dumps({"version": _WANTED_VERSION, "series": series}), encoding="utf-8"
        )
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _load_wanted(path: Path) -> tuple[Wanted, ...]:
    try:
        found = json_of(path.read_text(encoding="utf-8"))
        if found["version"] != _WANTED_VERSION:
            raise DataError(f"{path}: of another version of colltune; remove its folder")
        return tuple(
            Wanted(Shape.parse(shape), Configuration.parse(setup), *numbers)
            for shape, setup, *numbers in found["series"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: {error}; remove its folder") from error


class _Watcher:
    """Gives a launch up whose output has not grown for long; tells how many series ended."""

    def __init__(self, path: Path, progress: Callable[[int, float], None]) -> None:
        self._path, self._progress = path, progress
        self._started = self._since = time.monotonic()
        self._size, self._ended = -1, 0

    def __call__(self) -> bool:
        now = time.monotonic()
        with suppress(OSError):
            size = self._path.stat().st_size
            if size != self._size:
                self._size, self._since = size, now
                self._ended = self._path.read_bytes().count(b"\ne ")
        self._progress(self._ended, now - self._started)
        return now - self._since < _SILENCE_S
