"""The native benchmark on several nodes, laid over this host by rank, with a real MPI."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from colltune.bench.backends import Ending, LaunchPlan, LaunchResult, raw
from colltune.bench.backends.native import NativeBackend
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import (
    Collective,
    Configuration,
    Instance,
    RunStatus,
    Shape,
    Synchronisation,
)
from colltune.errors import ProgramError

pytestmark = pytest.mark.mpi
LAUNCHED = Shape(2, 2)
SHAPES = (Shape(1, 1), Shape(1, 2), Shape(2, 1), Shape(2, 2))
BCAST = Configuration.default("openmpi", Collective.BCAST)
CHAIN = Configuration("openmpi", Collective.BCAST, "chain", (("fanout", 2), ("segsize", 0)))


@pytest.fixture(autouse=True)
def virtual_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks r and r + 1 be on one node, the next two on another one."""
    monkeypatch.setenv("COLLBENCH_NODES", "by-rank")


def _cell(shape: Shape, msize: int = 1024, configuration: Configuration = BCAST) -> Cell:
    return Cell(configuration, Instance(configuration.collective, shape, msize))


def _run(
    backend: NativeBackend,
    plan: LaunchPlan,
    folder: Path,
    progress: Callable[[float], None] = lambda _: None,
) -> LaunchResult:
    return backend.run(plan, "l", folder, progress)


@pytest.mark.parametrize("sync", Synchronisation)
def test_a_launch_measures_what_its_steps_say(
    backend: NativeBackend, tmp_path: Path, sync: Synchronisation
) -> None:
    """Every shape that fits into it, as often as asked for; cells without a step need not fit."""
    collectives = (Collective.BCAST, Collective.ALLGATHER, Collective.BARRIER)
    cells = tuple(
        _cell(shape, 0 if c is Collective.BARRIER else 64, Configuration.default("openmpi", c))
        for shape in (*SHAPES, Shape(64, 64))
        for c in collectives
    )
    order = [*range(12), *range(0, 12, 2)]
    steps = tuple(ScheduleStep(i, 7 + i, 600.0) for i in order)
    result = _run(backend, LaunchPlan(LAUNCHED, cells, steps, 600.0, sync), tmp_path)
    assert result.ending is Ending.PLAN
    # a busy machine can make a time look shorter than a message takes: then it does not count
    found = {i: len(times) for i, times in raw.read_raw(tmp_path / "raw.txt").times_s.items()}
    assert found == {i: (7 + i) * order.count(i) for i in range(12)}
    assert {m.instance for m in result.measurements} == {cell.instance for cell in cells[:12]}
    assert result.facts["sync"].startswith(sync.value)


def test_a_launch_without_steps_ends_at_once(backend: NativeBackend, tmp_path: Path) -> None:
    """An empty plan tells that the processes start and end, and what they run on."""
    result = _run(backend, LaunchPlan(LAUNCHED, (), (), 600.0), tmp_path)
    assert (result.ending, result.measurements) == (Ending.PLAN, ())
    assert {"node.0", "node.1", "binding.0", "mpi_library", "clock", "sync"} <= set(result.facts)


def test_a_wrong_layout_is_refused(
    backend: NativeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the launcher gives other nodes than the plan needs, nothing is measured."""
    monkeypatch.delenv("COLLBENCH_NODES")
    plan = LaunchPlan(Shape(2, 2), (_cell(LAUNCHED),), (ScheduleStep(0, 1, 600.0),), 600.0)
    options = ["--map-by", ":OVERSUBSCRIBE", "--host", "localhost:4"]
    monkeypatch.setattr("colltune.bench.backends.installed.started_shape", lambda _: Shape(1, 4))
    backend.launch(plan, [{}], "l", tmp_path, {}, options=options)
    with pytest.raises(ProgramError, match="needs 2 nodes with 2 processes each, but the launcher"):
        _run(backend, plan, tmp_path)


def test_window_synchronisation_removes_offset_and_drift(
    backend: NativeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks 1000 s and 100 ppm apart give the runtimes of good clocks, not those of bad ones."""
    cells = (_cell(LAUNCHED, 8),)
    steps = tuple(ScheduleStep(0, 100, 600.0) for _ in range(5))
    plan = LaunchPlan(LAUNCHED, cells, steps, 600.0, Synchronisation.WINDOW)
    medians = []
    for number, clock in enumerate(("0:0", "1000:1e-4")):
        monkeypatch.setenv("COLLBENCH_TEST_CLOCK", clock)
        (tmp_path / str(number)).mkdir()
        result = _run(backend, plan, tmp_path / str(number))
        assert float(result.facts["sync_error_s"]) < 10.0
        medians.append(statistics.median(result.measurements[0].times_s))
    assert medians[1] < 10.0
    assert medians[1] > 0


def test_a_hopeless_configuration_is_abandoned(backend: NativeBackend, tmp_path: Path) -> None:
    """What is proved many times slower is given up early and is not the default's fate."""
    slow = Configuration("openmpi", Collective.BCAST, "pipeline", (("segsize", 1),))
    fast = Configuration("openmpi", Collective.BCAST, "binomial", (("segsize", 0),))
    shape, msize = Shape(1, 2), 1 << 14
    cells = tuple(_cell(shape, msize, c) for c in (fast, slow, BCAST))
    steps = tuple(ScheduleStep(i, 40, 600.0) for _ in range(2) for i in range(3))
    settings: list[dict[str, int | str]] = [
        {"coll_tuned_bcast_algorithm": 6},
        {"coll_tuned_bcast_algorithm": 3, "coll_tuned_bcast_algorithm_segmentsize": 1},
        {"coll_tuned_bcast_algorithm": 3, "coll_tuned_bcast_algorithm_segmentsize": 1},
    ]
    wanted = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
    plan = LaunchPlan(shape, cells, steps, 600.0)
    backend.launch(plan, settings, "l", tmp_path, wanted)
    found = {m.configuration: (m.status, len(m.times_s)) for m in backend.salvage(tmp_path)}
    assert found[fast] == (RunStatus.OK, 80)
    assert found[BCAST] == (RunStatus.OK, 80)
    status, count = found[slow]
    assert status is RunStatus.ABANDONED
    assert 0 < count < 40


def test_idle_processes_leave_the_cores_alone(backend: NativeBackend, tmp_path: Path) -> None:
    """While a smaller shape is measured, the processes that are not in it use next to no time."""
    cells = (_cell(Shape(1, 1), 1 << 20, Configuration.default("openmpi", Collective.ALLREDUCE)),)
    plan = LaunchPlan(LAUNCHED, cells, (ScheduleStep(0, 10**7, 2.0),), 60.0)
    path = tmp_path / "raw.txt"
    samples: list[dict[int, float]] = []

    def look(_: float) -> None:
        if path.exists() and "\ns 0" in (text := path.read_text()) and "\ne 0" not in text:
            samples.append({pid: _cpu_s(pid) for pid in ranks_of(tmp_path)})

    _run(backend, plan, tmp_path, look)
    used = sorted(samples[-1][pid] - samples[0][pid] for pid in samples[0])
    assert len(used) == 4
    assert used[2] < 0.2 * used[3]


def test_side_by_side_measures_all(backend: NativeBackend, tmp_path: Path) -> None:
    """Disjoint sets of nodes share the instances, each writes its own file, and nothing is lost."""
    cells = tuple(
        _cell(shape, msize, configuration)
        for shape in (Shape(1, 2), Shape(2, 2), Shape(1, 1))
        for configuration in (BCAST, CHAIN)
        for msize in (8, 64, 512)
    )
    steps = tuple(ScheduleStep(i, 5, 600.0) for _ in range(2) for i in range(len(cells)))
    plan = LaunchPlan(LAUNCHED, cells, steps, 600.0, side_by_side=True)
    result = _run(backend, plan, tmp_path)
    assert {(len(m.times_s), m.status) for m in result.measurements} == {(10, RunStatus.OK)}
    assert len(result.measurements) == len(cells)
    first, second = (file.read_text() for file in raw.parts(tmp_path / "raw.txt"))
    for number, cell in enumerate(cells):
        own = cell.instance.shape.nodes == 1 and cell.instance.msize_bytes == 64
        assert (f"\nr {number} " in second) == own
        assert (f"\nr {number} " in first) != own


def test_a_crash_side_by_side_has_no_single_culprit(backend: NativeBackend, tmp_path: Path) -> None:
    """When several cells are under way, none is blamed, and all of them are told."""
    cells = (_cell(Shape(1, 2), 1 << 20), _cell(Shape(1, 2), 1 << 21))
    steps = (ScheduleStep(0, 10**6, 600.0), ScheduleStep(1, 10**6, 600.0))
    plan = LaunchPlan(LAUNCHED, cells, steps, 600.0, side_by_side=True)

    def kill_one_rank(_: float) -> None:
        path = tmp_path / "raw.txt"
        if path.exists() and len(raw.read_raw(path).times_s) == len(cells):
            kill(ranks_of(tmp_path)[:1])

    result = _run(backend, plan, tmp_path, kill_one_rank)
    assert (result.ending, result.suspect) == (Ending.CRASH, None)
    assert set(result.in_flight) == set(cells)
    assert {m.instance for m in result.measurements} == {cell.instance for cell in cells}
    assert all(m.status.is_timed and m.times_s for m in result.measurements)


def test_a_sudden_death_loses_only_what_is_in_flight(
    backend: NativeBackend, tmp_path: Path
) -> None:
    """After SIGKILL of all processes within a long step, its repetitions are found."""
    cells = (_cell(LAUNCHED, 1 << 16),)
    plan = LaunchPlan(LAUNCHED, cells, (ScheduleStep(0, 10**6, 600.0),), 600.0)
    live = raw.live_of(tmp_path / "raw.txt")
    seen = []

    def kill_all(_: float) -> None:
        if live.exists() and (count := int.from_bytes(live.read_bytes()[8:16], "little")) > 5:
            seen.append(count)
            kill(ranks_of(tmp_path))

    _run(backend, plan, tmp_path, kill_all)
    (kept,) = backend.salvage(tmp_path)
    assert kept.status is RunStatus.OK
    assert len(kept.times_s) >= seen[0]


def test_one_slow_repetition_past_the_budget_is_the_last(
    backend: NativeBackend, tmp_path: Path
) -> None:
    """The launch ends with the repetition under way at its budget, in the middle of a step."""
    budget_s = 4.0
    cells = (_cell(Shape(1, 2), 1 << 22),)
    plan = LaunchPlan(LAUNCHED, cells, (ScheduleStep(0, 10**6, 1000.0),), budget_s)
    backend.launch(plan, [{}], "l", tmp_path, {})
    output = raw.read_raw(tmp_path / "raw.txt")
    assert output.ended == "budget"
    *before, _ = output.times_s[0]
    assert sum(before) < budget_s


def test_without_its_owner_a_launch_ends(backend: NativeBackend, tmp_path: Path) -> None:
    """The program ends itself when the process that wants its results is gone."""
    cells = tuple(_cell(Shape(1, 2), 8 << i) for i in range(3))
    steps = tuple(ScheduleStep(i % 3, 1000, 0.01) for i in range(100_000))
    plan = LaunchPlan(LAUNCHED, cells, steps, 1200.0)
    folder = tmp_path / "f"
    folder.mkdir()
    child = os.fork()
    if child == 0:
        try:
            backend.launch(plan, [{}] * 3, "l", folder, {})
        finally:
            os._exit(0)
    for _ in range(3000):
        time.sleep(0.1)
        if (folder / "raw.txt").exists() and "\nr " in (folder / "raw.txt").read_text():
            break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(3000):
        time.sleep(0.1)
        if not ranks_of(folder):
            break
    assert ranks_of(folder) == []
    assert raw.read_raw(folder / "raw.txt").ended == "budget"


def kill(pids: Iterable[int]) -> None:
    """Kill processes, some of which may have ended meanwhile."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ranks_of(folder: Path) -> list[int]:
    """Return the processes of the benchmark that write into `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            program = (process / "exe").readlink().name
        except OSError:
            continue
        if str(folder).encode() in words and program.startswith("collbench"):
            found.append(int(process.name))
    return sorted(found)
