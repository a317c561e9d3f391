"""Times the tasks of a search space by the C program (tasks.c); what is in the file is kept.

The program's plan and its raw output are of version 1.

`overlaps` tells how far the tasks of a pipeline overlap, by the series that were measured. Levels
overlap, but not perfectly, so that a task that does two things takes longer than the longer
of both (Luo et al., CLUSTER 2020, sec. III-A.2 and III-B.1, figures 2, 3 and 6).
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

import numpy as np
from numpy.typing import NDArray

from colltune.bench import build
from colltune.bench.backends.installed import InstalledMpi
from colltune.bench.launchers import Launcher
from colltune.domain import Collective, Configuration, Context, RunStatus, Shape
from colltune.errors import say
from colltune.files import writing
from colltune.files.reading import json_of
from colltune.han import tasks_file
from colltune.han.choosing import steady
from colltune.han.space import TuningRequest, needed
from colltune.han.tasks_file import Manner, TaskSeries, TaskTimes, TimedSeries, depth
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.text import UNPRINTED, computed

_CUT_SHORT = "none"
_PLAN, _RAW = "colltune-han-plan 1", "colltune-han-raw 1"
TOLERANCE = 0.15
_START_S = 30.0
_SILENCE_S = 60.0
_COMPLAINT = "collbench: "
_RAW_FILE, _PLAN_FILE, _WANTED_FILE = "raw.txt", "plan.txt", "wanted.json"
_WANTED_VERSION = 1
_LEAST_LAUNCH_S = 1.0
_MOST_LAUNCHES_WITHOUT_PROGRESS = 3


@dataclass(frozen=True)
class TaskProgress:
    """How far measuring is: series done of those known to be needed, seconds of the budget."""

    done: int
    series: int
    spent_s: float
    budget_s: float


@dataclass(frozen=True)
class Done:
    """What `han measure` prints."""

    tasks: TaskTimes = field(metadata=UNPRINTED)
    path: Path
    """file of task times"""
    complete: bool
    """whether everything is measured"""
    spent_s: float
    """wall time"""
    launches: int

    @computed
    def series(self) -> int:
        """Series of tasks in the file."""
        return len(self.tasks.series)


def measure(
    bench: TaskBench,
    context: Context,
    request: TuningRequest,
    path: Path,
    budget_s: float,
    progress: Callable[[TaskProgress], None] = lambda _: None,
) -> Done:
    """Measure what `request` needs and the file `path` lacks; append it there."""
    folder = path.with_name(f"{path.name}.launch")
    tasks = tasks_file.begin(path, context, request.asked())
    started, launches, idle = time.monotonic(), 0, 0

    def keep(found: Sequence[TimedSeries]) -> TaskTimes:
        tasks_file.append(path, found)
        with suppress(OSError):
            shutil.rmtree(folder)
        return tasks.with_series(found)

    if (folder / _WANTED_FILE).exists():  # a launch that was killed together with its owner
        left = read_raw(folder / _RAW_FILE, _load_wanted(folder / _WANTED_FILE))
        tasks = keep(left.series)
    wanted = needed(request, bench.release)
    while lacking := [w for w in wanted if not tasks.covers(w.shape, w.setup, w.most)]:
        left_s = budget_s - (time.monotonic() - started)
        if left_s < _LEAST_LAUNCH_S or idle >= _MOST_LAUNCHES_WITHOUT_PROGRESS:
            break
        known = len(wanted) - len(lacking)

        def tell(ended: int, known: int = known) -> None:
            spent_s = time.monotonic() - started
            progress(TaskProgress(known + ended, len(wanted), spent_s, budget_s))

        found = bench.run(request.inputs.launched, lacking, left_s, folder, tell).series
        launches, idle = launches + 1, 0 if found else idle + 1
        tasks = keep(found)
    if not tasks.series:
        raise say("budget-ended", budget_s=budget_s, what="a series of tasks")
    return Done(tasks, path, not lacking, time.monotonic() - started, launches)


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
            raise say("not-of-open-mpi", mpirun=installation.mpirun, title=title)
        OPENMPI.han_setups(installation.release).low_modules()
        super().__init__(installation, launcher)
        self.release = installation.release
        self._cache = cache

    def run(
        self,
        launched: Shape,
        wanted: Sequence[TaskSeries],
        budget_s: float,
        folder: Path,
        progress: Callable[[int], None],
    ) -> TaskOutput:
        """Start the program once; a series that ended it is blamed in what is returned."""
        self.refuse_settings(OPENMPI, mca.environment({"coll_han_priority": ""}))
        raw, plan = folder / _RAW_FILE, folder / _PLAN_FILE
        folder.mkdir(parents=True, exist_ok=True)
        raw.unlink(missing_ok=True)
        _save_wanted(folder / _WANTED_FILE, wanted)
        settings = [settings_of(self.release, one.setup) for one in wanted]
        owner = f"{socket.gethostname()} {os.getpid()}"
        plan.write_text(plan_text(launched, wanted, settings, budget_s, owner), encoding="utf-8")
        program = build.native_benchmark(self.mpi, self._cache)
        command, environment = self.command(launched, (program, plan, raw), {})
        limit_s = budget_s + _START_S + _SILENCE_S
        outcome = self.start(launched, command, environment, limit_s, _Watcher(raw, progress))
        output = read_raw(raw, wanted)
        if output.ended:
            return output
        if _COMPLAINT in outcome.stderr or output.in_flight is None:
            what = "the program that times tasks"
            raise say("program-failed", what=what, told=outcome.explain())
        status = RunStatus.TIMEOUT if outcome.timed_out else RunStatus.CRASH
        guilty = _failed(wanted[output.in_flight], status, "ended its launch")
        return TaskOutput((*output.series, guilty), output.in_flight, "")


def settings_of(release: str, setup: Configuration) -> dict[str, int | str]:
    """Return the control variables of a setup's modules: coll/han itself has no part in tasks."""
    found = OPENMPI.han_setups(release).variables(setup)
    return {name: value for name, value in found.items() if name.startswith("coll_adapt_")}


def plan_text(
    launched: Shape,
    wanted: Sequence[TaskSeries],
    settings: Sequence[Mapping[str, int | str]],
    budget_s: float,
    owner: str,
) -> str:
    """Return the plan; ``settings[i]`` are the control variables of ``wanted[i]``."""
    words = [" ".join(f"{k}={v}" for k, v in sorted(s.items())) for s in settings]
    distinct = {word: number for number, word in enumerate(dict.fromkeys(words))}
    lines = [_PLAN, f"layout {launched.nodes} {launched.ppn}", f"budget {budget_s:.3f}"]
    lines += [f"owner {owner}", *(f"config {word}".rstrip() for word in distinct)]
    for one, word in zip(wanted, words, strict=True):
        values = dict(one.setup.parameters)
        lines.append(
            f"series {distinct[word]} {one.setup.collective} {one.shape.nodes} {one.shape.ppn}"
            f" {values['segsize']} {values['up']} {values['low']} {one.least} {one.most}"
            f" {one.reps} {TOLERANCE:g}"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class TaskOutput:
    """What the program told: `series` that ended, which one was under way, why it ended.

    ``in_flight`` is the index of the series that had begun but not ended, None if none had;
    ``ended`` is ``plan`` or ``budget``, or empty for a program that was killed.
    """

    series: tuple[TimedSeries, ...]
    in_flight: int | None
    ended: str


def read_raw(path: Path, wanted: Sequence[TaskSeries]) -> TaskOutput:
    """Read raw output of a plan of `wanted`, whole or cut off by a kill."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    # what follows the last end of line was cut off
    head, *lines = text.split("\n")[:-1] or [_RAW]
    if head != _RAW:
        raise say("not-raw-tasks", path=path, line_1=head[:80])
    reading = _Reading(wanted)
    for number, line in enumerate(lines, 2):
        try:
            reading.line(line.split(" "))
        except (IndexError, ValueError) as error:
            raise say("tasks-line-unreadable", path=path, number=number, text=line[:80]) from error
    return TaskOutput(tuple(reading.series), reading.open_series, reading.ended)


@dataclass
class _Reading:
    wanted: Sequence[TaskSeries]
    series: list[TimedSeries] = field(default_factory=list)
    problems: dict[int, tuple[RunStatus, str]] = field(default_factory=dict)
    open_series: int | None = None
    ended: str = ""
    _times: dict[int, dict[tuple[int, int], tuple[float, ...]]] = field(default_factory=dict)

    def line(self, words: Sequence[str]) -> None:
        kind = words[0]
        if kind == "s":
            self.open_series = int(words[1])
            self._times = defaultdict(dict)
        elif kind == "t":
            _, _, segments, rep, leader, *seconds = words
            self._times[int(segments)][int(rep), int(leader)] = tuple(map(float, seconds))
        elif kind == "x":
            self.problems[int(words[1])] = RunStatus(words[2]), " ".join(words[3:])
        elif kind == "e":
            self.series += self._ended(int(words[1]), words[2], float(words[3]))
            self.open_series = None
        elif kind == "end":
            self.ended = words[1]

    def _ended(self, index: int, how: str, wall_s: float) -> Iterator[TimedSeries]:
        wanted = self.wanted[index]
        if index in self.problems:
            yield _failed(wanted, *self.problems[index], wall_s)
            return
        if not self._times:
            return  # the budget ended before anything was timed
        longest = max(self._times)
        by_rep: dict[int, list[tuple[float, ...]]] = defaultdict(list)
        for (rep, _), seconds in sorted(self._times[longest].items()):
            by_rep[rep].append(seconds)
        times = tuple(tuple(leaders) for _, leaders in sorted(by_rep.items()))
        manner = Manner.BOUNDED if how == _CUT_SHORT else Manner(how)
        yield TimedSeries(wanted.shape, wanted.setup, longest, manner, times, wall_s)


def _failed(wanted: TaskSeries, status: RunStatus, why: str, wall_s: float = 0.0) -> TimedSeries:
    """Return what is kept of a series without times: it failed, or ended a launch."""
    exact = Manner.EXACT
    return TimedSeries(wanted.shape, wanted.setup, wanted.least, exact, (), wall_s, status, why)


def _save_wanted(path: Path, wanted: Sequence[TaskSeries]) -> None:
    series = [[str(w.shape), w.setup.id, w.least, w.most, w.reps] for w in wanted]
    with writing(path):
        path.write_text(
            json.dumps({"version": _WANTED_VERSION, "series": series}), encoding="utf-8"
        )


def _load_wanted(path: Path) -> tuple[TaskSeries, ...]:
    try:
        found = json_of(path.read_text(encoding="utf-8"))
        if found["version"] != _WANTED_VERSION:
            raise say("folder-of-another-version", path=path)
        return tuple(
            TaskSeries(Shape.parse(shape), Configuration.parse(setup), *numbers)
            for shape, setup, *numbers in found["series"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise say("tasks-folder-wrong", path=path, why=error) from error


class _Watcher:
    """Gives a launch up whose output has not grown for long; tells how many series ended."""

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        self._path, self._progress = path, progress
        self._since = time.monotonic()
        self._size, self._ended = -1, 0

    def __call__(self) -> bool:
        now = time.monotonic()
        with suppress(OSError):
            size = self._path.stat().st_size
            if size != self._size:
                self._size, self._since = size, now
                self._ended = self._path.read_bytes().count(b"\ne ")
        self._progress(self._ended)
        return now - self._since < _SILENCE_S


Numbers = NDArray[np.float64]
_LEAST_SEGMENTS = {Collective.BCAST: 2, Collective.ALLREDUCE: 4}
_OF_ALLREDUCE_ALONE = ("iralg", "irs")


@dataclass(frozen=True)
class Overlap:
    """Two tasks, and the task that does both at once, in one setup."""

    setup: Configuration
    """id of the setup"""
    shape: Shape
    tasks: tuple[str, str, str]
    """two tasks, and the one that does both at once"""
    times_s: tuple[float, float, float]
    """their times on the leader where each takes longest, medians over repetitions"""

    @classmethod
    def of(cls, series: TimedSeries, tasks: tuple[str, str, str], *times: Numbers) -> Overlap:
        """Return the overlap of three tasks by their `times` on each leader, in seconds."""
        first_s, second_s, both_s = (float(each.max()) for each in times)
        return cls(series.setup, series.shape, tasks, (first_s, second_s, both_s))

    @computed
    def over_longer(self) -> float:
        """Both at once over the longer of the two; 1: perfect overlap."""
        first_s, second_s, both_s = self.times_s
        return both_s / max(first_s, second_s)

    @computed
    def over_sum(self) -> float:
        """Both at once over one after the other; 1: no overlap."""
        first_s, second_s, both_s = self.times_s
        return both_s / (first_s + second_s)


def overlaps(tasks: TaskTimes, shape: Shape, segsize_bytes: int | None = None) -> list[Overlap]:
    """Return the overlap in each setup of a segment size: of a broadcast, then of an allreduce.

    A broadcast tells ib, sb and the steady sbib. An allreduce tells irsr and ibirsr; ib is that of
    the broadcast in the same setup. Without `segsize_bytes` it is the one that most setups have,
    of several such the largest.
    """
    series = {c: _longest(tasks, shape, c) for c in _LEAST_SEGMENTS}
    sizes = [s.setup.numbers["segsize"] for found in series.values() for s in found.values()]
    if segsize_bytes is None:
        segsize_bytes = max(sizes, key=lambda size: (sizes.count(size), size), default=None)
    found = [
        one
        for one in (*_of_bcast(series), *_of_allreduce(series))
        if one.setup.numbers["segsize"] == segsize_bytes
    ]
    if not found:
        known = ", ".join(map(str, sorted(set(sizes)))) or "none"
        raise say("no-long-series", shape=shape, segsize_bytes=segsize_bytes, known=known)
    return found


_Series = dict[Configuration, TimedSeries]


def _longest(tasks: TaskTimes, shape: Shape, collective: Collective) -> _Series:
    """Return the longest series of each setup that has enough segments."""
    lengths: dict[Configuration, int] = {}
    for one in tasks.series:
        if one.shape == shape and one.setup.collective is collective and one.times_s:
            lengths[one.setup] = max(lengths.get(one.setup, 0), one.segments)
    found = {
        setup: tasks.of(shape, setup, length)
        for setup, length in lengths.items()
        if length >= _LEAST_SEGMENTS[collective]
    }
    return {setup: series for setup, series in found.items() if series is not None}


def _of_bcast(series: dict[Collective, _Series]) -> Iterator[Overlap]:
    for one in series[Collective.BCAST].values():
        times = np.median(one.array, axis=0)
        both_s = steady(times[:, depth(Collective.BCAST) : one.segments])
        yield Overlap.of(one, ("ib", "sb", "sbib"), times[:, 0], times[:, -1], both_s)


def _of_allreduce(series: dict[Collective, _Series]) -> Iterator[Overlap]:
    for setup, one in series[Collective.ALLREDUCE].items():
        values = {k: v for k, v in setup.parameters if k not in _OF_ALLREDUCE_ALONE}
        ib = series[Collective.BCAST].get(han_setups.setup(Collective.BCAST, values))
        if ib is not None:
            times = np.median(one.array, axis=0)
            first_s = np.median(ib.array, axis=0)[:, 0]
            yield Overlap.of(one, ("ib", "irsr", "ibirsr"), first_s, times[:, 1], times[:, 2])
