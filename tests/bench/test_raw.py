"""The native benchmark's plan and raw output."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.backends import raw
from colltune.bench.backends.protocol import LaunchPlan
from colltune.bench.schedule import Cell, Step
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.errors import DataError

SHAPE = Shape(1, 4)
DEFAULT = Configuration.default("openmpi", Collective.BCAST)
CHAIN = Configuration("openmpi", Collective.BCAST, "chain", (("fanout", 4),))
CELLS = tuple(
    Cell(configuration, Instance(Collective.BCAST, SHAPE, msize))
    for configuration in (DEFAULT, CHAIN)
    for msize in (8, 64)
)
RAW = """colltune-raw 1
s 0
r 0 1e-06 3e-06
r 0 2e-06
s 1
x 1 wrong_result the received data are wrong
s 2
r 2 5e-06
"""


def test_plan_lists_each_setting_once() -> None:
    """Cells with the same control variables share a configuration line."""
    plan = LaunchPlan(SHAPE, CELLS, (Step(2, 10, 0.5),), 12.0)
    settings = [{}, {}, {"b": 2, "a": 1}, {"a": 1, "b": 2}]
    assert raw.plan_text(plan, settings) == (
        "colltune-plan 1\nbudget 12.000\nconfig\nconfig a=1 b=2\n"
        "cell 0 bcast 8 4\ncell 0 bcast 64 4\ncell 1 bcast 8 4\ncell 1 bcast 64 4\n"
        "step 2 10 0.500000\n"
    )


def test_raw_output_of_a_whole_run(tmp_path: Path) -> None:
    """Repetitions of all visits are put together, problems become statuses."""
    path = tmp_path / "raw.txt"
    path.write_text(RAW + "end plan 1.5 2.5\n")
    output = raw.read_raw(path)
    assert (output.ended, output.timed_s, output.wall_s) == ("plan", 1.5, 2.5)
    found = raw.measurements(output, CELLS, "l")
    assert [(m.instance.msize_bytes, m.status, m.times_s) for m in found] == [
        (8, RunStatus.OK, (1e-6, 3e-6, 2e-6)),
        (64, RunStatus.WRONG_RESULT, ()),
        (8, RunStatus.OK, (5e-6,)),
    ]


@pytest.mark.parametrize("cut", range(len(RAW)))
def test_raw_output_cut_anywhere_keeps_whole_lines(tmp_path: Path, cut: int) -> None:
    """However a killed run's output is cut, every complete line counts and no other."""
    path = tmp_path / "raw.txt"
    path.write_text(RAW[:cut])
    output = raw.read_raw(path)
    whole = [line for line in RAW[:cut].split("\n")[:-1] if line.startswith("r ")]
    assert sum(map(len, output.times_s.values())) == sum(len(line.split()) - 2 for line in whole)
    assert output.ended == ""


def test_the_blamed_cell_has_no_times(tmp_path: Path) -> None:
    """A cell that is to blame for a crash is recorded as such, whatever it had measured."""
    path = tmp_path / "raw.txt"
    path.write_text(RAW)
    output = raw.read_raw(path)
    assert output.last_step == 2
    blamed = raw.measurements(output, CELLS, "l", {2: RunStatus.CRASH})[-1]
    assert (blamed.configuration, blamed.status, blamed.times_s) == (CHAIN, RunStatus.CRASH, ())


def test_cells_are_stored_for_salvage(tmp_path: Path) -> None:
    """The stored list of cells reads back; a cut one is an error that names it."""
    path = tmp_path / "cells.json"
    raw.save_cells(path, CELLS, "launch-1")
    assert raw.load_cells(path) == (CELLS, "launch-1")
    path.write_text(path.read_text()[:30])
    with pytest.raises(DataError, match=r"cells\.json"):
        raw.load_cells(path)
