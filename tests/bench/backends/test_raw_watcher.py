"""When a launch is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import process
from colltune.bench.backends import LaunchPlan, raw
from colltune.bench.backends.raw import LaunchWatcher, Stop
from colltune.bench.schedule import ScheduleStep
from colltune.domain import Shape


class _Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """Return the watcher's clock."""
    found = _Clock()
    monkeypatch.setattr(raw, "time", found)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a raw file in which a step has begun."""
    found = tmp_path / "raw.txt"
    found.write_text("colltune-raw 2\ns 0\n")
    return found


def _watcher(path: Path, budget_s: float = 1000.0, step_s: float = 1.0) -> LaunchWatcher:
    plan = LaunchPlan(Shape(1, 4), (), (ScheduleStep(0, 10, step_s),), budget_s)
    return LaunchWatcher(path, plan, lambda _: None, around_s=2.0)


def test_a_silent_step_is_given_up(clock: _Clock, path: Path) -> None:
    """After 15 s and three times the longest visit without a repetition, it is."""
    watcher = _watcher(path)
    assert watcher()
    clock.now_s += 17.9
    assert watcher()
    clock.now_s += 0.2
    assert not watcher()
    assert watcher.stop is Stop.SILENT
    assert watcher.stuck()


def test_every_repetition_is_a_sign_of_life(clock: _Clock, path: Path) -> None:
    """A step that lasts for long goes on as long as its repetitions end."""
    watcher = _watcher(path)
    for number in range(20):
        raw.live_of(path).write_bytes(bytes([number] * 32))
        assert watcher()
        clock.now_s += 15.0
    assert watcher.stop is None


def test_one_silent_set_of_nodes_is_enough(clock: _Clock, path: Path) -> None:
    """Side by side, progress elsewhere does not hide a step that hangs."""
    watcher = _watcher(path)
    other = path.with_name("raw.txt.1")
    for number in range(3):
        other.write_text("colltune-raw 2\ns 1\n" + "r 1 0 1.0\n" * number)
        going_on = watcher()
        clock.now_s += 10.0
    assert not going_on


def test_a_set_that_has_ended_its_steps_may_wait(clock: _Clock, path: Path) -> None:
    """Nodes that wait for others are silent for good reason."""
    path.write_text("colltune-raw 2\ns 0\ne 0\n")
    watcher = _watcher(path)
    other = path.with_name("raw.txt.1")
    for number in range(5):
        other.write_text("colltune-raw 2\ns 1\n" + "r 1 0 1.0\n" * number)
        assert watcher()
        clock.now_s += 10.0


@pytest.mark.parametrize(("step_s", "stuck"), [(0.01, True), (10.0, False)])
def test_past_its_budget_a_launch_is_given_up(
    clock: _Clock, path: Path, step_s: float, stuck: bool
) -> None:
    """It is stopped then; to blame is a repetition that took longer than visits may take."""
    watcher = _watcher(path, budget_s=10.0, step_s=step_s)
    assert watcher()
    clock.now_s += 13.4
    assert watcher()
    clock.now_s += 0.2
    assert not watcher()
    assert watcher.stop is Stop.OVERDUE
    assert watcher.stuck() == stuck


def test_past_the_moment_for_all_programs_a_launch_is_given_up(clock: _Clock, path: Path) -> None:
    """A launch that is stopped since all programs have to end is no fault of its cell."""
    with process.ending_by(clock.now_s + 5.0):
        watcher = _watcher(path, budget_s=1000.0, step_s=10.0)
    clock.now_s += 4.9
    assert watcher()
    clock.now_s += 0.2
    assert not watcher()
    assert watcher.stop is Stop.OVERDUE
    assert not watcher.stuck()


def test_a_step_of_many_repetitions_is_still_under_way(clock: _Clock, path: Path) -> None:
    """Repetitions that fill the end of the file do not hide that their step has not ended."""
    path.write_text("colltune-raw 2\ns 0\nr 0 0" + " 1.0" * 5000 + "\n")
    path.with_name("raw.txt.1").write_text("colltune-raw 2\ns 1\ne 1\n")
    watcher = _watcher(path)
    assert watcher()
    clock.now_s += 18.1
    path.with_name("raw.txt.1").write_text("colltune-raw 2\ns 1\ne 1\ns 2\n")
    assert not watcher()


def test_it_is_known_which_visits_have_begun(path: Path) -> None:
    """The latest last, of all sets of nodes; a line that is not whole yet is waited for."""
    watcher = _watcher(path)
    path.write_text("colltune-raw 2\ns 0\nr 0 0 1.0\ne 0\ns 2\ne 2\ns")
    watcher()
    assert list(watcher.begun) == [0, 2]
    with path.open("a") as stream:
        stream.write(" 0\ne 0\n")
    path.with_name("raw.txt.1").write_text("colltune-raw 2\ns 1")
    watcher()
    assert list(watcher.begun) == [2, 0]
    path.with_name("raw.txt.1").write_text("colltune-raw 2\ns 1\n")
    watcher()
    assert list(watcher.begun) == [2, 0, 1]


def test_a_hang_costs_what_the_plan_says(clock: _Clock, path: Path) -> None:
    """A step that is silent is given up by the plan's patience; a start has all that there is."""
    plan = LaunchPlan(Shape(1, 4), (), (ScheduleStep(0, 10, 0.1),), 1000.0, patience_s=3.0)
    watcher = LaunchWatcher(path, plan, lambda _: None, around_s=2.0)
    starting = LaunchWatcher(path.with_name("none.txt"), plan, lambda _: None, around_s=2.0)
    assert watcher()
    assert starting()
    clock.now_s += 3.4
    assert not watcher()
    assert watcher.stop is Stop.SILENT
    assert starting()
    clock.now_s += 12.0
    assert not starting()
