"""The native benchmark with a real MPI."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from colltune.bench import runner
from colltune.bench.backends import Ending, LaunchPlan, raw
from colltune.bench.backends.native import NativeBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Placed, launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.dataset import read_parquet
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.errors import OutputError
from colltune.mpi import LIBRARIES, installation
from tests.integration.real import native_backend

pytestmark = pytest.mark.mpi
SHAPE = Shape(1, 4)


@pytest.mark.parametrize(
    ("library", "nprocs", "msizes"), [("openmpi", 4, (1, 8, 1003, 40000)), ("mpich", 2, (8, 4000))]
)
def test_every_collective_and_algorithm_delivers_right_data(
    library: str, nprocs: int, msizes: tuple[int, ...], tmp_path: Path
) -> None:
    """Every configuration that one launch can switch to passes the check of its result."""
    backend, shape = native_backend(library), Shape(1, nprocs)
    release = backend.context("m").library_version
    cells = tuple(
        cell
        for collective in Collective
        for configuration in LIBRARIES[library].at(release).portfolio(collective).configurations
        for msize in ((0,) if collective is Collective.BARRIER else msizes)
        for cell in [Cell(configuration, Instance(collective, shape, msize))]
        if backend.feasible(cell)
    )
    inside = max(backend.together(cells), key=len)
    assert len({cell.instance.collective for cell in inside}) == len(Collective)
    steps = tuple(ScheduleStep(i, 0, 600.0) for i in range(len(inside)))
    result = backend.run(LaunchPlan(shape, inside, steps, 600.0), "l", tmp_path, lambda _: None)
    assert result.ending is Ending.PLAN, result.message
    assert [(m.configuration.id, m.status) for m in result.measurements] == []


@pytest.fixture(scope="module")
def corrupt(backend: NativeBackend, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that spoils collectives' results, compiled for this MPI."""
    return _preloadable("corrupt.c", tmp_path_factory.mktemp("corrupt"))


def _preloadable(source: str, folder: Path) -> Path:
    library = folder / "preloaded.so"
    mpicc = installation.find().mpicc
    path = Path(__file__).with_name(source)
    subprocess.run([mpicc, "-shared", "-fPIC", "-o", library, path], check=True)
    return library


def test_each_visit_has_its_buffers_elsewhere(backend: NativeBackend, tmp_path: Path) -> None:
    """So that no address, which a processor may copy from slowly, bends all times of a cell."""
    library = _preloadable("addresses.c", tmp_path)
    steps = (ScheduleStep(0, 3, 600.0),) * 8
    plan = LaunchPlan(SHAPE, (_default_cell(Collective.ALLTOALL, 64),), steps, 600.0)
    options = ["-x", f"LD_PRELOAD={library}"]
    outcome = backend.launch(plan, [{}], "l", tmp_path, {}, options=options)
    told = re.findall(r"PLACE (\d+) (\d+)", outcome.stderr)
    assert len(told) == 3 * len(steps) + 1
    places = {(int(send), int(recv)) for send, recv in told}
    assert len(places) == len(steps)
    assert len({(recv - send) % 4096 for send, recv in places}) >= len(steps) - 1
    assert {send % 16 for send, _ in places} == {0}


def _default_cell(collective: Collective, msize: int) -> Cell:
    default = Configuration.default("openmpi", collective)
    return Cell(
        default, Instance(collective, SHAPE, 0 if collective is Collective.BARRIER else msize)
    )


def _receives(collective: Collective, rank: int) -> bool:
    if collective in (Collective.GATHER, Collective.REDUCE):
        return rank == 0
    return rank > 0 or collective is not Collective.EXSCAN


@pytest.mark.parametrize("rank", range(SHAPE.nprocs))
def test_a_wrong_result_is_noticed(
    backend: NativeBackend, corrupt: Path, tmp_path: Path, rank: int
) -> None:
    """One wrong bit on any rank that gets a result makes the cell `wrong_result`, in every one."""
    cells = tuple(_default_cell(c, msize) for c in Collective for msize in (64, 4096))
    steps = tuple(ScheduleStep(i, 3, 600.0) for i in range(len(cells)))
    options = ["-x", f"LD_PRELOAD={corrupt}", "-x", f"COLLTUNE_CORRUPT={rank}"]
    plan = LaunchPlan(SHAPE, cells, steps, 600.0)
    backend.launch(plan, [{}] * len(cells), "l", tmp_path, {}, options=options)
    found = {Cell(m.configuration, m.instance): m.status for m in backend.salvage(tmp_path)}
    wrong = {
        cell
        for cell in cells
        if cell.instance.msize_bytes != 64 and _receives(cell.instance.collective, rank)
    }
    assert {cell for cell, status in found.items() if status is RunStatus.WRONG_RESULT} == wrong
    assert {cell for cell, status in found.items() if status is RunStatus.OK} == {*cells} - wrong


def test_an_undelivered_result_is_noticed(
    backend: NativeBackend, corrupt: Path, tmp_path: Path
) -> None:
    """A right result of an earlier call that is still in the buffer passes for no other cell's."""
    wanted = [c for c in Collective if c is not Collective.BARRIER]
    cells = tuple(_default_cell(c, 4096) for c in wanted for _ in range(2))
    steps = tuple(ScheduleStep(i, 0, 600.0) for i in range(len(cells)))
    options = ["-x", f"LD_PRELOAD={corrupt}", "-x", "COLLTUNE_CORRUPT=0", "-x", "COLLTUNE_STALE=1"]
    plan = LaunchPlan(SHAPE, cells, steps, 600.0)
    backend.launch(plan, [{}] * len(cells), "l", tmp_path, {}, options=options)
    found = [m.instance.collective for m in backend.salvage(tmp_path)]
    # the root of a broadcast has its data already, and rank 0 gets nothing from exscan; a cell's
    # own second call is one of numbers, in reductions alone
    received = (c for c in wanted if c not in (Collective.BCAST, Collective.EXSCAN))
    assert found == [c for c in received for _ in range(1 + c.reduces)]


REDUCTIONS = tuple(c for c in Collective if c.reduces)


@pytest.fixture(scope="module")
def perturb(backend: NativeBackend, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that spoils sums of one type of numbers, compiled for this MPI."""
    return _preloadable("perturb.c", tmp_path_factory.mktemp("perturb"))


def _problems(
    backend: NativeBackend, folder: Path, cells: tuple[Cell, ...], preloaded: Path, *words: str
) -> dict[int, tuple[RunStatus, str]]:
    """Return status and text of the cells that are not timed where `words` are set."""
    steps = tuple(ScheduleStep(i, 3, 600.0) for i in range(len(cells)))
    set_for_all = (f"LD_PRELOAD={preloaded}", *words)
    options = [option for word in set_for_all for option in ("-x", word)]
    plan = LaunchPlan(SHAPE, cells, steps, 600.0)
    backend.launch(plan, [{}] * len(cells), "l", folder, {}, options=options)
    found = raw.read_raw(folder / "raw.txt")
    assert found.ended == Ending.PLAN
    assert found.times_s.keys() | found.problems.keys() == {*range(len(cells))}
    return dict(found.problems)


@pytest.mark.parametrize("number", ["double", "float", "complex", "long"])
def test_ranks_that_hold_other_bits_of_a_sum_are_noticed(
    backend: NativeBackend, perturb: Path, tmp_path: Path, number: str
) -> None:
    """The last bit on one rank makes an allreduce `wrong_result`, and no other reduction."""
    cells = tuple(_default_cell(c, msize) for c in REDUCTIONS for msize in (16, 4096))
    words = (f"COLLTUNE_PERTURB={number}", "COLLTUNE_PERTURBED=2")
    found = _problems(backend, tmp_path, cells, perturb, *words)
    wrong = {i for i, c in enumerate(cells) if c.instance.collective is Collective.ALLREDUCE}
    assert {i: status for i, (status, _) in found.items()} == dict.fromkeys(
        wrong, RunStatus.WRONG_RESULT
    )


def test_a_wrong_sum_of_doubles_is_noticed(
    backend: NativeBackend, perturb: Path, tmp_path: Path
) -> None:
    """In every reduction, also where all ranks hold the same; it is told from what they do not."""
    cells = tuple(_default_cell(c, msize) for c in REDUCTIONS for msize in (8, 4096))
    alike, apart = "COLLTUNE_PERTURB=double", "COLLTUNE_PERTURBED=1"
    (tmp_path / "alike").mkdir()
    (tmp_path / "apart").mkdir()
    found = _problems(backend, tmp_path / "alike", cells, perturb, alike)
    assert [found[i][0] for i in range(len(cells))] == [RunStatus.WRONG_RESULT] * len(cells)
    others = _problems(backend, tmp_path / "apart", cells, perturb, alike, apart)
    assert {text for _, text in found.values()}.isdisjoint(text for _, text in others.values())


def test_so_many_barriers_as_are_asked_for(backend: NativeBackend, tmp_path: Path) -> None:
    """With more than one before each repetition each time is there, and the launch tells."""
    steps = (ScheduleStep(0, 5, 600.0),)
    plan = LaunchPlan(SHAPE, (_default_cell(Collective.BCAST, 64),), steps, 600.0, barriers=3)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert [len(m.times_s) for m in result.measurements] == [5]
    assert result.facts["barriers"] == "3"


def test_an_unknown_variable_is_a_status(backend: NativeBackend, tmp_path: Path) -> None:
    """A control variable that cannot be written makes its cell not applicable, and no other."""
    default = Configuration.default("openmpi", Collective.BCAST)
    cells = tuple(Cell(default, Instance(Collective.BCAST, SHAPE, msize)) for msize in (8, 16))
    plan = LaunchPlan(SHAPE, cells, (ScheduleStep(0, 5, 600.0), ScheduleStep(1, 5, 600.0)), 600.0)
    backend.launch(plan, [{"no_such_variable": 1}, {}], "l", tmp_path, {})
    found = {m.instance.msize_bytes: m.status for m in backend.salvage(tmp_path)}
    assert found == {8: RunStatus.NOT_APPLICABLE, 16: RunStatus.OK}


@pytest.mark.parametrize(
    ("trouble", "ending", "status"),
    [("crash", Ending.CRASH, RunStatus.CRASH), ("hang", Ending.HANG, RunStatus.TIMEOUT)],
)
def test_a_bad_algorithm_costs_only_its_cell(
    corrupt: Path,
    tmp_path: Path,
    trouble: str,
    ending: Ending,
    status: RunStatus,
) -> None:
    """A rank that dies in a call, or never comes back, is a status of the cell that was called."""
    found = installation.find()
    variables = (f"LD_PRELOAD={corrupt}", "COLLTUNE_CORRUPT=3", f"COLLTUNE_TROUBLE={trouble}")
    options = tuple(word for variable in variables for word in ("-x", variable))
    backend = NativeBackend(found, launcher=Placed(launcher_of(found), options=options))
    cells = tuple(_default_cell(Collective.ALLTOALL, msize) for msize in (64, 4096, 512))
    plan = LaunchPlan(SHAPE, cells, tuple(ScheduleStep(i, 4, 0.1) for i in range(3)), 60.0)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert (result.ending, result.suspect) == (ending, cells[1])
    assert {m.instance.msize_bytes: m.status for m in result.measurements} == {
        64: RunStatus.OK,
        4096: status,
    }


@pytest.mark.root
def test_a_full_disk_keeps_what_fitted(backend: NativeBackend, tmp_path: Path) -> None:
    """When the disk fills up, measuring ends with an error, and earlier launches are readable."""
    campaign = Campaign(
        (Collective.BARRIER,), (0,), ppn=(2,), only=("*.linear",), total_s=60.0, max_reps=10**6
    ).changed(cell_s=1.0)
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        with pytest.raises(OutputError, match=r"disk full|No space left"):
            runner.run_campaign(campaign, backend, small / "d")
        assert len(read_parquet(small / "d")) > 0
    finally:
        subprocess.run(["umount", small], check=True)
