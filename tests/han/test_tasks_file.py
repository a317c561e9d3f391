"""The file of task times: written, read again, cut off by a kill, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.domain import Configuration, Context, RunStatus, Shape
from colltune.errors import DataError
from colltune.han import tasks_file
from colltune.han.tasks_file import Manner, TimedSeries
from tests.refusals import refused

CONTEXT = Context("bed", "openmpi", "5.0.11")
SETUP = Configuration.parse("openmpi.bcast.han_intra:low=sm,segsize=1024,up=libnbc")
TIMES = (((0.001, 0.002, 0.003), (0.001, 0.002, 0.0015)),)
SERIES = TimedSeries(Shape(2, 2), SETUP, 2, Manner.BOUNDED, TIMES, 0.25)
FAILED = replace(SERIES, times_s=(), status=RunStatus.CRASH, message="ended its launch")


def test_series_come_back_as_they_were(tmp_path: Path) -> None:
    """What is appended, failures included, is read again; a second begin finds it."""
    path = tmp_path / "tasks.jsonl"
    assert tasks_file.begin(path, CONTEXT).series == ()
    tasks_file.append(path, [SERIES, FAILED])
    assert tasks_file.read(path).series == (SERIES, FAILED)
    assert tasks_file.begin(path, CONTEXT).wall_s == 0.5


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    """After a kill within a write the file is read without it, and goes on in a new line."""
    path = tmp_path / "tasks.jsonl"
    tasks_file.begin(path, CONTEXT)
    tasks_file.append(path, [SERIES])
    whole = path.read_text()
    path.write_text(whole + whole.splitlines()[1][:40])
    assert tasks_file.read(path).series == (SERIES,)
    tasks_file.begin(path, CONTEXT)
    tasks_file.append(path, [FAILED])
    assert tasks_file.read(path).series == (SERIES, FAILED)


def test_what_was_asked_for_is_told_once_for_each_campaign(tmp_path: Path) -> None:
    """Words of options are kept in order; a campaign that goes on adds nothing."""
    path = tmp_path / "tasks.jsonl"
    first, second = {"msize": ("4096", "65536")}, {"msize": ("4096", "8"), "up": ("libnbc",)}
    for asked in (first, first, second):
        tasks_file.begin(path, CONTEXT, asked)
        tasks_file.append(path, [SERIES])
    found = tasks_file.read(path)
    assert found.asked == (first, second)
    assert found.words("msize") == ("4096", "65536", "8")
    assert found.words("low") == ()
    assert found.series == (SERIES,) * 3


def test_a_file_of_version_1_is_read_and_goes_on(tmp_path: Path) -> None:
    """It does not tell what was asked for; from the next campaign on it does."""
    path = tmp_path / "tasks.jsonl"
    tasks_file.begin(path, CONTEXT)
    tasks_file.append(path, [SERIES])
    old = path.read_text().replace('"version": 2', '"version": 1')
    path.write_text(old)
    assert tasks_file.read(path).asked == ()
    assert path.read_text() == old
    found = tasks_file.begin(path, CONTEXT, {"msize": ("8",)})
    assert found == tasks_file.read(path)
    assert (found.series, found.words("msize")) == ((SERIES,), ("8",))
    assert '"version": 2' in path.read_text()


def test_another_context_is_refused(tmp_path: Path) -> None:
    """Task times of two machines are never joined."""
    path = tmp_path / "tasks.jsonl"
    tasks_file.begin(path, CONTEXT)
    with refused("tasks-of-another-context", DataError, its_context="bed, openmpi 5.0.11"):
        tasks_file.begin(path, replace(CONTEXT, machine="other"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "not-task-times"),
        (
            {"version": 9},
            "format-version version=9 known=2",
        ),
        ({"context": {}}, "tasks-context-lacks"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """A file of another kind or version is told by its first line."""
    path = tmp_path / "tasks.jsonl"
    tasks_file.begin(path, CONTEXT)
    path.write_text(json.dumps(json.loads(path.read_text()) | change) + "\n")
    with refused(message, DataError):
        tasks_file.read(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("manner", "odd", "tasks-line-wrong number=2"),
        ("times_s", [[[1.0]]], "tasks-line-wrong number=2"),
        ("shape", "2", "tasks-line-wrong number=2"),
        ("setup", "x", "tasks-line-wrong number=2"),
        ("segments", None, "tasks-line-wrong number=2"),
        ("asked", ["4096"], "tasks-not-words number=2"),
    ],
)
def test_a_bad_series_is_told_by_its_line(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    """Whatever is wrong with a series, the message names file and line."""
    path = tmp_path / "tasks.jsonl"
    tasks_file.begin(path, CONTEXT)
    tasks_file.append(path, [SERIES])
    head, line = path.read_text().splitlines()
    path.write_text(f"{head}\n{json.dumps(json.loads(line) | {key: value})}\n")
    with refused(message, DataError):
        tasks_file.read(path)


def test_repetitions_of_two_visits_count_together(tmp_path: Path) -> None:
    """Series of the same tasks and length are one, those of another length are kept apart."""
    path = tmp_path / "tasks.jsonl"
    tasks_file.begin(path, CONTEXT)
    longer = replace(SERIES, segments=3, times_s=((((1.0,) * 4),) * 2,))
    tasks_file.append(path, [SERIES, longer, SERIES, FAILED])
    tasks = tasks_file.read(path)
    found = tasks.of(SERIES.shape, SETUP, 2)
    assert found is not None
    assert (found.segments, len(found.times_s)) == (3, 1)
    assert tasks.of(Shape(4, 4), SETUP, 2) is None
