"""Series of tasks, and their times in a file: composing can be done again without measuring.

Version 2: text, one JSON object a line. The first names format, version and context; each further
one is a series, appended when it was measured, or has the key ``asked``: what was to be measured,
by the names of options. A last line that a kill cut off is left out. Version 1 does not tell what
was asked for; its files are made version 2 when something is added.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, Context, RunStatus, Shape
from colltune.errors import DataError, say
from colltune.files import whole, writing
from colltune.files.reading import json_of, text_of
from colltune.text import counted

STEADY_AT_FIRST, MOST_STEADY = 4, 64
"""Tasks of the steady kind in a series: it begins with so many and is doubled up to the last."""
_DEPTHS = {Collective.BCAST: 1, Collective.ALLREDUCE: 3}
FORMAT, VERSION = "colltune-han-tasks", 2
_READ = (1, VERSION)
_ASKED = "asked"
Asked = Mapping[str, tuple[str, ...]]
"""Words of each option of `colltune han measure`."""
_KEYS = ("shape", "setup", "segments", "manner", "status", "message", "wall_s", "times_s")


class Manner(StrEnum):
    """How the length of a series came about.

    ``steady``: its tasks cost the same at the end; ``bounded``: they do not, but it was long
    enough; ``exact``: so many segments were asked for.
    """

    STEADY = "steady"
    BOUNDED = "bounded"
    EXACT = "exact"


def depth(collective: Collective) -> int:
    """Return how many tasks fill the pipeline before the steady ones; as many empty it."""
    return _DEPTHS[collective]


@dataclass(frozen=True)
class TaskSeries:
    """Tasks in a row, from ``least`` to ``most`` segments: as many as it takes to be steady.

    ``setup.segsize`` is the segment that really runs.
    """

    shape: Shape
    setup: Configuration
    least: int
    most: int
    reps: int


@dataclass(frozen=True)
class TimedSeries:
    """Repetitions of a series of tasks.

    ``times_s`` has the shape (repetitions, leaders, tasks): for each node's leader the seconds of
    each task in a row, the first from a common start on. It is empty where `status` is not ok.
    ``wall_s`` is what measuring took in all.
    """

    shape: Shape
    setup: Configuration
    segments: int
    manner: Manner
    times_s: tuple[tuple[tuple[float, ...], ...], ...]
    wall_s: float
    status: RunStatus = RunStatus.OK
    message: str = ""

    def __post_init__(self) -> None:
        times = self.array
        tasks = self.segments + depth(self.setup.collective)
        right = times.ndim == 3 and times.shape[1:] == (self.shape.nodes, tasks)
        if self.status is RunStatus.OK and not (right and times.size and (times > 0).all()):
            raise say(
                "tasks-need-times",
                configuration=self.setup.id,
                shape=self.shape,
                segments=counted(self.segments, "segment"),
                tasks=counted(tasks, "task"),
                leaders=counted(self.shape.nodes, "leader"),
            )

    @property
    def array(self) -> NDArray[np.float64]:
        return np.asarray(self.times_s, np.float64)

    def covers(self, segments: int) -> bool:
        """Tell whether the time of so many segments can be told from it."""
        if self.status is not RunStatus.OK:
            return True
        if segments < depth(self.setup.collective):
            return self.segments == segments
        longer = self.segments > depth(self.setup.collective) and self.manner is not Manner.EXACT
        return self.segments >= max(segments, depth(self.setup.collective)) or longer


def wanted_for(
    shape: Shape, setup: Configuration, segments: Iterable[int], reps: int
) -> tuple[TaskSeries, ...]:
    """Return the series from which the times of messages of so many `segments` can be told."""
    fill = depth(setup.collective)
    short = sorted({u for u in segments if u < fill})
    found = [TaskSeries(shape, setup, u, u, reps) for u in short]
    longest = max(segments, default=0)
    if longest < fill:
        return tuple(found)
    first, last = fill + STEADY_AT_FIRST, fill + MOST_STEADY
    if longest <= first:
        return (*found, TaskSeries(shape, setup, longest, longest, reps))
    return (*found, TaskSeries(shape, setup, first, min(longest, last), reps))


def together(series: Sequence[TimedSeries]) -> TimedSeries | None:
    """Return all repetitions of `series`, which are of one setup and length; None of none."""
    if not series:
        return None
    first = series[0]
    times = tuple(rep for s in series for rep in s.times_s)
    manner = min((s.manner for s in series), key=list(Manner).index)
    wall_s = sum(s.wall_s for s in series)
    return replace(first, manner=manner, times_s=times, wall_s=wall_s)


@dataclass(frozen=True)
class TaskTimes:
    """All series of one machine, in the order in which they were measured.

    ``asked`` is what they were measured for, one for each campaign.
    """

    context: Context
    series: tuple[TimedSeries, ...] = ()
    asked: tuple[Asked, ...] = ()
    _index: dict[tuple[Shape, Configuration], list[TimedSeries]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for one in self.series:
            self._index.setdefault((one.shape, one.setup), []).append(one)

    def covers(self, shape: Shape, setup: Configuration, segments: int) -> bool:
        """Tell whether nothing is to be measured for so many segments."""
        return any(s.covers(segments) for s in self._index.get((shape, setup), ()))

    def of(self, shape: Shape, setup: Configuration, segments: int) -> TimedSeries | None:
        found = self._index.get((shape, setup), ())
        fine = [s for s in found if s.times_s]
        longest = max((s.segments for s in fine if s.covers(segments)), default=None)
        return together([s for s in fine if s.segments == longest])

    def with_series(self, series: Iterable[TimedSeries]) -> TaskTimes:
        return TaskTimes(self.context, (*self.series, *series), self.asked)

    def words(self, option: str) -> tuple[str, ...]:
        """Return what was measured of an option of `colltune han measure`, in order."""
        return tuple(dict.fromkeys(w for asked in self.asked for w in asked.get(option, ())))

    @property
    def wall_s(self) -> float:
        return sum(one.wall_s for one in self.series)


def read(path: Path) -> TaskTimes:
    text = text_of(path, DataError, "name a file of task times")
    # what follows the last end of line was cut off by a kill
    lines = text.split("\n")[:-1]
    if not lines:
        raise say("tasks-empty", path=path)
    context = _context(path, _object(path, 1, lines[0]))
    objects = [(n, _object(path, n, line)) for n, line in enumerate(lines[1:], 2)]
    series = tuple(_series(path, n, line) for n, line in objects if _ASKED not in line)
    asked = tuple(_asked(path, n, line[_ASKED]) for n, line in objects if _ASKED in line)
    return TaskTimes(context, series, asked)


def begin(path: Path, context: Context, asked: Asked | None = None) -> TaskTimes:
    """Return what is in the file, which is made if there is none, with what is `asked` for now."""
    head = json.dumps({"format": FORMAT, "version": VERSION, "context": context.as_json()}) + "\n"
    if not path.exists():
        with whole(path) as temporary:
            temporary.write_text(head, encoding="utf-8")
    found = read(path)
    if found.context != context:
        raise say("tasks-of-another-context", path=path, its_context=found.context, context=context)
    data = path.read_bytes()
    # without what a kill left of a line, so that the next one begins on its own
    _, newline, lines = data.rpartition(b"\n")[0].partition(b"\n")
    whole_lines = head.encode() + lines + newline
    if data != whole_lines:
        with whole(path) as temporary:
            temporary.write_bytes(whole_lines)
    if asked is None or asked in found.asked:
        return found
    _append(path, [{_ASKED: asked}])
    return replace(found, asked=(*found.asked, asked))


def append(path: Path, series: Iterable[TimedSeries]) -> None:
    """Append series, each safe on disk when this returns."""
    _append(path, map(_as_dict, series))


def _append(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    with writing(path), path.open("a", encoding="utf-8") as stream:
        for line in lines:
            stream.write(json.dumps(line) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _as_dict(series: TimedSeries) -> dict[str, Any]:
    return {
        "shape": str(series.shape),
        "setup": series.setup.id,
        "segments": series.segments,
        "manner": series.manner.value,
        "status": series.status.value,
        "message": series.message,
        "wall_s": round(series.wall_s, 6),
        "times_s": series.times_s,
    }


def _object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        found = json_of(line)
    except ValueError as error:
        raise say("tasks-line-not-json", path=path, number=number, why=error) from error
    if not isinstance(found, dict):
        raise say("tasks-line-not-object", path=path, number=number)
    return found


def _context(path: Path, head: Mapping[str, Any]) -> Context:
    if head.get("format") != FORMAT:
        raise say("not-task-times", path=path, format=FORMAT)
    if head.get("version") not in _READ:
        raise say("format-version", place=path, version=head.get("version"), known=VERSION)
    found = head.get("context")
    if not isinstance(found, dict) or not {"machine", "library", "library_version"} <= set(found):
        raise say("tasks-context-lacks", path=path)
    return Context(**{name: str(value) for name, value in found.items()})


def _asked(path: Path, number: int, found: object) -> Asked:
    if not isinstance(found, dict) or not all(isinstance(w, list) for w in found.values()):
        raise say("tasks-not-words", path=path, number=number)
    return {str(option): tuple(map(str, words)) for option, words in found.items()}


def _series(path: Path, number: int, line: Mapping[str, Any]) -> TimedSeries:
    missing = [key for key in _KEYS if key not in line]
    if missing:
        raise say("tasks-key-missing", path=path, number=number, key=missing[0])
    try:
        return TimedSeries(
            Shape.parse(str(line["shape"])),
            Configuration.parse(str(line["setup"])),
            int(line["segments"]),
            Manner(line["manner"]),
            tuple(tuple(tuple(map(float, leader)) for leader in rep) for rep in line["times_s"]),
            float(line["wall_s"]),
            RunStatus(line["status"]),
            str(line["message"]),
        )
    except (DataError, TypeError, ValueError) as error:
        raise say("tasks-line-wrong", path=path, number=number, why=error) from error
