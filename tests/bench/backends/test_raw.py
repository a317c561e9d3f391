"""The native benchmark's plan and raw output."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from colltune.bench.backends import raw
from colltune.bench.backends.protocol import LaunchPlan
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape, Synchronisation
from colltune.errors import DataError
from tests.refusals import refused

SHAPE = Shape(1, 4)
DEFAULT = Configuration.default("openmpi", Collective.BCAST)
CHAIN = Configuration("openmpi", Collective.BCAST, "chain", (("fanout", 4),))
CELLS = tuple(
    Cell(configuration, Instance(Collective.BCAST, SHAPE, msize))
    for configuration in (DEFAULT, CHAIN)
    for msize in (8, 64)
)
RAW = """colltune-raw 2
f node.0 n0, 4 processes
s 0
r 0 0 1e-06 3e-06
r 0 1 2e-06
e 0
s 1
x 1 wrong_result the received data are wrong
e 1
s 3
r 3 2 9e-06
x 3 abandoned slower than another one
e 3
s 2
r 2 3 5e-06
"""
RAW_1 = """colltune-raw 1
s 0
r 0 1e-06 3e-06
r 0 2e-06
s 1
x 1 wrong_result the received data are wrong
s 2
r 2 5e-06
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a raw file."""
    found = tmp_path / "raw.txt"
    found.write_text(RAW)
    return found


def _live(number: int, cell: int, *times_s: float) -> bytes:
    room = (0.0,) * 4
    return struct.pack(
        f"=8sQQq{len(times_s)}d4d", b"ctlive2\n", len(times_s), number, cell, *times_s, *room
    )


def test_plan_lists_each_setting_once() -> None:
    """Cells with the same control variables share a configuration line; the default is kept."""
    plan = LaunchPlan(Shape(2, 8), CELLS, (ScheduleStep(2, 10, 0.5),), 12.0)
    settings: list[dict[str, int | str]] = [{}, {}, {"b": 2, "a": "ring"}, {"a": "ring", "b": 2}]
    assert raw.plan_text(plan, settings) == (
        "colltune-plan 2\nlayout 2 8\nbudget 12.000\nsync barrier\nconfig\nconfig a=ring b=2\n"
        "cell 0 bcast 8 1 4 keep\ncell 0 bcast 64 1 4 keep\n"
        "cell 1 bcast 8 1 4\ncell 1 bcast 64 1 4\nstep 2 10 0.500000\n"
    )


def test_plan_tells_how_to_measure() -> None:
    """Synchronisation, barriers, side by side and the owner are lines of the plan."""
    plan = LaunchPlan(SHAPE, (), (), 1.0, Synchronisation.WINDOW, side_by_side=True)
    assert raw.plan_text(plan, [], "host 12") == (
        "colltune-plan 2\nlayout 1 4\nbudget 1.000\nsync window\nside_by_side 1\nowner host 12\n"
    )
    assert raw.plan_text(LaunchPlan(SHAPE, (), (), 1.0, barriers=2), []) == (
        "colltune-plan 2\nlayout 1 4\nbudget 1.000\nsync barrier\nbarriers 2\n"
    )


def test_raw_output_of_a_whole_run(path: Path) -> None:
    """In both versions, repetitions of all visits are put together and problems are statuses."""
    for text in (RAW_1, RAW.replace("f node.0 n0, 4 processes\n", "")):
        path.write_text(text + "end plan 1.5 2.5\n")
        output = raw.read_raw(path)
        assert (output.ended, output.timed_s, output.wall_s) == ("plan", 1.5, 2.5)
        assert output.in_flight == ()
        found = raw.measurements(output, CELLS, "l")
        assert [(m.instance.msize_bytes, m.status, m.times_s) for m in found[:3]] == [
            (8, RunStatus.OK, (1e-6, 3e-6, 2e-6)),
            (64, RunStatus.WRONG_RESULT, ()),
            (8, RunStatus.OK, (5e-6,)),
        ]


def test_an_abandoned_cell_keeps_its_times(path: Path) -> None:
    """What was proved too slow is a status of its own, with the repetitions that prove it."""
    last = raw.measurements(raw.read_raw(path), CELLS, "l")[-1]
    assert (last.status, last.times_s) == (RunStatus.ABANDONED, (9e-6,))


def test_facts_are_read(path: Path) -> None:
    """What the program tells about the launch is kept as it was told."""
    assert raw.read_raw(path).facts == {"node.0": "n0, 4 processes"}


def test_raw_output_cut_anywhere_keeps_whole_lines(path: Path) -> None:
    """However a killed run's output is cut, every complete line counts and no other."""
    for cut in range(len(RAW)):
        path.write_text(RAW[:cut])
        output = raw.read_raw(path)
        whole = [line for line in RAW[:cut].split("\n")[:-1] if line.startswith("r ")]
        n_times = sum(map(len, output.times_s.values()))
        assert n_times == sum(len(line.split()) - 3 for line in whole), cut
        assert output.ended == ""


def test_the_step_under_way_is_read_from_the_live_file(path: Path) -> None:
    """Repetitions that only the live file has are added; the text's are not doubled."""
    for number, times_s in ((4, (5e-6, 7e-6, 8e-6)), (3, (5e-6,))):
        raw.live_of(path).write_bytes(_live(number, 2, 7e-6, 8e-6))
        assert raw.read_raw(path).times_s[2] == times_s


def test_a_damaged_live_file_is_passed_over(path: Path) -> None:
    """A live file that is empty, cut or of something else adds nothing."""
    for content in (b"", b"ctlive2\n\xff", b"\xff" * 64, _live(9, 2, 1.0)[:36]):
        raw.live_of(path).write_bytes(content)
        assert raw.read_raw(path).times_s[2] == (5e-6,), content


def test_other_sets_of_nodes_are_put_together(path: Path, tmp_path: Path) -> None:
    """Side by side, the files of all sets count, and every cell under way is told."""
    (tmp_path / "raw.txt.2").write_text("colltune-raw 2\ns 1\nr 1 0 4e-06\ne 1\ns 3\n")
    (tmp_path / "raw.txt.2.live").write_bytes(_live(1, 3, 6e-6))
    output = raw.read_raw(path)
    assert output.in_flight == (2, 3)
    assert output.times_s == {0: (1e-6, 3e-6, 2e-6), 1: (4e-6,), 2: (5e-6,), 3: (9e-6, 6e-6)}


def test_an_unknown_version_is_an_error(path: Path) -> None:
    """Raw output of a later colltune is refused by file and line."""
    path.write_text("colltune-raw 3\ns 0\n")
    with refused("not-raw", DataError, line_1="colltune-raw 3"):
        raw.read_raw(path)


def test_the_blamed_cell_has_no_times(path: Path) -> None:
    """A cell that is to blame for a crash is recorded as such, whatever it had measured."""
    output = raw.read_raw(path)
    assert output.in_flight == (2,)
    blamed = raw.measurements(output, CELLS, "l", {2: RunStatus.CRASH})[2]
    assert (blamed.configuration, blamed.status, blamed.times_s) == (CHAIN, RunStatus.CRASH, ())


def test_cells_are_stored_for_salvage(tmp_path: Path) -> None:
    """The stored list of cells reads back; a cut one is an error that names it."""
    path = tmp_path / "cells.json"
    raw.save_cells(path, CELLS, "launch-1")
    assert raw.load_cells(path) == (CELLS, "launch-1")
    path.write_text(path.read_text()[:30])
    with refused("not-cells", DataError):
        raw.load_cells(path)
