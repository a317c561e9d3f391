"""The ReproMPI backend with a stand-in for mpirun and mpibenchmark."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colltune.bench.backends import Ending, LaunchPlan, LaunchResult, mpibenchmark, reprompi
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.dataset.method import LAYOUT
from colltune.domain import Collective, Configuration, Instance, Shape, Synchronisation
from colltune.errors import CampaignError, OutputError, ProgramError
from colltune.mpi.installation import Installation
from tests.refusals import refused

SHAPE = Shape(1, 4)
CHAIN = "openmpi.bcast.chain:fanout=4,segsize=1024"
FORCED = {
    "OMPI_MCA_coll_hcoll_enable": "0",
    "OMPI_MCA_coll_han_priority": "0",
    "OMPI_MCA_coll_tuned_bcast_algorithm": "2",
    "OMPI_MCA_coll_tuned_bcast_algorithm_chain_fanout": "4",
    "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "1024",
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
}
Run = Callable[..., LaunchResult]
STAND_IN = Path(__file__).with_name("fake_mpibenchmark.py")


def _cell(msize_bytes: int, configuration: str = CHAIN, shape: Shape = SHAPE) -> Cell:
    parsed = Configuration.parse(configuration)
    return Cell(parsed, Instance(parsed.collective, shape, msize_bytes))


CELLS = (_cell(8), _cell(64))


@pytest.fixture(autouse=True)
def _no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*FORCED, "MPITS_PARAMS", "COLLTUNE_REPROMPI", "FAKE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder with a mpirun that starts one process and a mpibenchmark."""
    folder = tmp_path / "bin"
    folder.mkdir()
    mpirun = folder / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\n[ "$1" = -np ] && export FAKE_NPROCS="$2" && shift 2\n'
        'while [ "$1" = --map-by ] || [ "$1" = -x ]; do shift 2; done\n'
        '[ "$1" = --oversubscribe ] && shift\n'
        'while [ "$1" = -x ]; do shift 2; done\nexec "$@"\n'
    )
    program = folder / "mpibenchmark"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(STAND_IN)])} "$@"\n')
    for file in (mpirun, program):
        file.chmod(0o755)
    return folder


@pytest.fixture
def backend(programs: Path) -> ReproMpiBackend:
    """Return a backend of these programs, on a node of four processors."""
    return _backend(programs, str(programs / "mpibenchmark"))


def _backend(
    programs: Path,
    program: str | None,
    cores: int = 4,
    synchronisation: Sequence[Synchronisation] = (Synchronisation.BARRIER,),
) -> ReproMpiBackend:
    missing = programs / "missing"
    mpirun = programs / "mpirun"
    found = Installation("openmpi", "5.0.11", mpirun, missing, missing, "cc")
    asked = tuple(synchronisation)
    return ReproMpiBackend(found, program=program, cores=cores, synchronisation=asked)


def _run(
    backend: ReproMpiBackend,
    folder: Path,
    cells: tuple[Cell, ...] = CELLS,
    steps: tuple[ScheduleStep, ...] | None = None,
    budget_s: float = 30.0,
    synchronisation: Synchronisation = Synchronisation.BARRIER,
    patience_s: float = 15.0,
) -> LaunchResult:
    folder.mkdir(exist_ok=True)
    steps = steps or tuple(ScheduleStep(i, 3, 0.05) for i in range(len(cells)))
    shape = cells[0].instance.shape
    plan = LaunchPlan(shape, cells, steps, budget_s, synchronisation)
    plan = replace(plan, patience_s=patience_s)
    return backend.run(plan, "l", folder, lambda _: None)


@pytest.fixture
def run(backend: ReproMpiBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a launch in the folder ``l`` while mpibenchmark has a fault."""

    def launched(fault: str, **options: Any) -> LaunchResult:
        monkeypatch.setenv("FAKE", fault)
        return _run(backend, tmp_path / "l", **options)

    return launched


def _found(result: LaunchResult) -> dict[int, tuple[str, tuple[float, ...]]]:
    return {m.instance.msize_bytes: (m.status.value, m.times_s) for m in result.measurements}


GOOD = ("too_few", (1e-6, 2e-6))


def test_a_whole_launch(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """Every cell gets its warm repetitions, and the launch tells how it was synchronised."""
    result = _run(backend, tmp_path / "l")
    assert _found(result) == {8: GOOD, 64: GOOD}
    assert (result.ending, result.suspect, result.message) == (Ending.PLAN, None, "")
    assert result.timed_s >= 206e-6
    assert result.facts == {
        "synchronisation": "the library's barrier before each repetition (ReproMPI's roundtime)",
        "clock_synchronisation": "None",
        "reprompi_commit": "abc",
    }


def test_the_command_forces_the_configuration_from_outside(
    backend: ReproMpiBackend, tmp_path: Path
) -> None:
    """The whole command: the library's variables, mpirun's words, and the job file's path."""
    folder = tmp_path / "l"
    _run(backend, folder)
    wanted = {**FORCED, "MPITS_PARAMS": "--clock-sync=None"}
    assert shlex.split((folder / "command-timed.txt").read_text()) == [
        "env",
        *(f"{name}={wanted[name]}" for name in sorted(wanted)),
        str(tmp_path / "bin" / "mpirun"),
        "-np",
        "4",
        str(tmp_path / "bin" / "mpibenchmark"),
        f"--input-file={folder}/jobs-timed.txt",
        f"--output-file={folder}/output-timed.txt",
        "--datatype=MPI_BYTE",
        "--operation=MPI_BOR",
        "--proc-sync=roundtime",
        "--rt-bench-time-ms=50.000",
        "--clock-sync=None",
        "--rt-barrier-count=0",
        "--runtime-type=local",
    ]
    assert (folder / "jobs-timed.txt").read_text() == "MPI_Bcast 8 3\nMPI_Bcast 64 3\n"


def test_cells_are_visited_in_the_order_of_the_steps(
    backend: ReproMpiBackend, tmp_path: Path
) -> None:
    """A cell that is visited twice has the repetitions of both visits, each without its first."""
    steps = (ScheduleStep(0, 3, 0.05), ScheduleStep(1, 2, 0.05), ScheduleStep(0, 2, 0.01))
    result = _run(backend, tmp_path / "l", steps=steps)
    assert _found(result) == {8: ("ok", (1e-6, 2e-6, 1e-6)), 64: ("too_few", (1e-6,))}
    jobs = (tmp_path / "l" / "jobs-timed.txt").read_text()
    assert jobs == "MPI_Bcast 8 3\nMPI_Bcast 64 2\nMPI_Bcast 8 2\n"
    assert "--rt-bench-time-ms=10.000" in (tmp_path / "l" / "command-timed.txt").read_text()


def test_a_barrier_is_not_synchronised_by_itself(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """Barriers follow a dissemination barrier; how often is counted, from what is known."""
    cell = _cell(0, "openmpi.barrier.linear")
    steps = (ScheduleStep(0, 50, 1e-5),)
    first = _run(backend, tmp_path / "1", (cell,), steps)
    _run(backend, tmp_path / "2", (cell,), steps)
    assert (tmp_path / "1" / "jobs-counted.txt").read_text() == "MPI_Barrier 1 10\n"
    assert (tmp_path / "2" / "jobs-counted.txt").read_text() == "MPI_Barrier 1 2\n"
    assert len(_found(first)[0][1]) == 9


def test_a_program_without_time_bounds_counts(
    backend: ReproMpiBackend, run: Run, tmp_path: Path
) -> None:
    """Where roundtime is unknown, the number of repetitions ends a job."""
    assert _found(run("untimed")) == {8: GOOD, 64: GOOD}
    assert not backend.program().timed
    assert (tmp_path / "l" / "output-counted.txt").exists()


def test_windows_are_kept_by_synchronised_clocks(run: Run) -> None:
    """Asked for windows, repetitions start at an agreed time."""
    result = run("", synchronisation=WINDOW)
    assert _found(result) == {8: GOOD, 64: GOOD}
    assert result.facts["clock_synchronisation"] == "HCA3O"


WINDOW, BARRIER = Synchronisation.WINDOW, Synchronisation.BARRIER


def _windows(programs: Path, *, cores: int = 4, barriers: bool = False) -> ReproMpiBackend:
    asked = (WINDOW, BARRIER) if barriers else (WINDOW,)
    return _backend(programs, str(programs / "mpibenchmark"), cores, asked)


def test_the_clocks_are_told_that_keep_windows(
    backend: ReproMpiBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program whose windows are all lost has none."""
    assert backend.clocks() == "HCA3O"
    monkeypatch.setenv("FAKE", "nothing")
    assert backend.clocks() == ""


def test_windows_that_cannot_be_had_are_an_error(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks that never agree, and processes that share cores, are told with the mend."""
    monkeypatch.setenv("FAKE", "nothing")
    with refused("no-windows", ProgramError):
        _run(_windows(programs), tmp_path / "1", synchronisation=WINDOW)
    monkeypatch.setenv("FAKE", "good")
    with refused("no-windows", ProgramError):
        _run(_windows(programs, cores=2), tmp_path / "2", synchronisation=WINDOW)


def test_barriers_take_the_place_of_windows_where_they_may(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch measures, and says that it was synchronised otherwise than asked."""
    monkeypatch.setenv("FAKE", "nothing")
    result = _run(_windows(programs, barriers=True), tmp_path / "l", synchronisation=WINDOW)
    assert _found(result) == {8: GOOD, 64: GOOD}
    assert "barrier" in result.facts["synchronisation"]
    assert "barriers in place of windows on 1x4" in result.note


def test_a_launch_that_lost_its_windows_gets_wider_ones(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts again with windows, and so do later ones."""
    backend = _windows(programs)
    monkeypatch.setenv("FAKE", "narrow")
    result = _run(backend, tmp_path / "l", synchronisation=WINDOW)
    assert (_found(result), result.note) == ({8: GOOD, 64: GOOD}, "")
    assert "--bcast-mult=12" in (tmp_path / "l" / "command-clocks.txt").read_text()
    later = _run(backend, tmp_path / "2", synchronisation=WINDOW)
    assert later.facts["clock_synchronisation"] == "HCA3O"


def test_windows_that_are_lost_although_they_were_widened_are_a_status(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch tells it; barriers do not take their place, and other launches keep windows."""
    backend = _windows(programs, barriers=True)
    monkeypatch.setenv("FAKE", "lossy")
    result = _run(backend, tmp_path / "l", synchronisation=WINDOW)
    assert _found(result) == {8: ("no_window", ()), 64: ("no_window", ())}
    assert "2 cells" in result.note
    monkeypatch.setenv("FAKE", "good")
    later = _run(backend, tmp_path / "2", synchronisation=WINDOW)
    assert (later.facts["clock_synchronisation"], later.note) == ("HCA3O", "")


def test_a_job_is_never_shorter_than_some_repetitions(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the network takes counts, whatever a step grants."""
    monkeypatch.setenv("FAKE_BROADCAST_S", "0.008")
    steps = (ScheduleStep(0, 20, 0.0005), ScheduleStep(1, 20, 0.0005))
    _run(_windows(programs), tmp_path / "l", steps=steps, synchronisation=WINDOW)
    assert "--rt-bench-time-ms=480.000" in (tmp_path / "l" / "command-clocks.txt").read_text()


def test_ranks_that_do_not_fill_node_by_node_are_another_method(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReproMPI sees two ranks on one node that should be on two; the launch stores and tells it."""
    cells = (_cell(8, shape=Shape(2, 2)),)
    for fake, told in (("by node", True), ("good", False)):
        monkeypatch.setenv("FAKE", fake)
        result = _run(_windows(programs), tmp_path / fake, cells, synchronisation=WINDOW)
        assert (LAYOUT in result.facts) is told, fake
        assert ("rank 2 runs on the node of rank 0" in result.note) is told, fake


def test_a_time_below_the_possible_is_a_status(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a round trip between nodes is needed by whatever algorithm."""
    monkeypatch.setenv("COLLBENCH_NODES", "by-rank")
    monkeypatch.setenv("FAKE_ROUND_TRIP_S", "4e-3")
    cells = (_cell(8, shape=Shape(2, 2)),)
    result = _run(_windows(programs), tmp_path / "l", cells, synchronisation=WINDOW)
    assert _found(result) == {8: ("too_fast", ())}
    assert float(result.facts["round_trip_s"]) == pytest.approx(4e-3)


def test_processes_that_share_cores_follow_a_dissemination_barrier(
    programs: Path, tmp_path: Path
) -> None:
    """A rank that does not run when its time has come would make every repetition invalid."""
    shared = _backend(programs, str(programs / "mpibenchmark"), cores=2)
    result = _run(shared, tmp_path / "l")
    assert result.facts["synchronisation"].startswith("dissemination barrier")
    assert [file.name for file in (tmp_path / "l").glob("output-*")] == ["output-counted.txt"]


def test_the_cell_in_flight_is_to_blame(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured before a crash or a hang is kept."""
    monkeypatch.setattr(reprompi, "_STUCK_S", 0.1)
    for fault, ending, status in (("crash", "crash", "crash"), ("hang", "hang", "timeout")):
        result = run(fault, patience_s=0.5)
        assert _found(result) == {8: GOOD, 64: (status, ())}
        assert (result.ending, result.suspect) == (ending, CELLS[1])
        assert "mpibenchmark" in result.message


def test_a_crash_before_the_first_row_is_of_the_first_cell(run: Run) -> None:
    """The header is written when the first job begins."""
    result = run("early crash")
    assert (result.ending, result.suspect) == (Ending.CRASH, CELLS[0])


def test_the_budget_ends_a_launch_and_nobody_is_to_blame(
    backend: ReproMpiBackend, run: Run
) -> None:
    """Killed at the end of its time, a launch has what it had finished."""
    backend.program()
    result = run("hang", budget_s=1.5)
    assert _found(result) == {8: GOOD}
    assert (result.ending, result.suspect) == (Ending.BUDGET, None)


def test_a_run_that_measures_needs_no_other_start(
    backend: ReproMpiBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the program is follows from the first run; only where that fails it is asked."""
    monkeypatch.setattr(mpibenchmark, "probe", None)
    assert _found(_run(backend, tmp_path / "l")) == {8: GOOD, 64: GOOD}
    assert backend.program().timed


def test_a_cell_that_a_whole_run_left_out_is_not_applicable(run: Run) -> None:
    """mpibenchmark skips what it does not know and ends with status 0."""
    assert _found(run("partial")) == {8: GOOD, 64: ("not_applicable", ())}


def test_an_option_that_was_ignored_is_noticed(run: Run) -> None:
    """The header tells what was done; where that is not what was asked, nothing is taken."""
    with refused("not-as-asked", ProgramError, wrong="datatype is MPI_BYTE instead of MPI_INT"):
        run("deaf", cells=(_cell(8, "openmpi.allreduce.ring"),))


def test_a_program_that_does_not_begin(run: Run) -> None:
    """No cell is to blame when not even the output file is there."""
    with refused("did-not-start", ProgramError, what="mpibenchmark"):
        run("not begun")


def test_output_that_cannot_be_written(run: Run) -> None:
    """An output that is cut though all went well means a full disk."""
    for fault in ("full disk", "unwritable"):
        with refused("mpibenchmark-not-written", OutputError):
            run(fault)


def test_a_disk_that_filled_up_is_not_taken_for_a_hang(
    backend: ReproMpiBackend, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mpibenchmark goes on without writing; no cell is to blame, and what was done is kept."""
    backend.program()
    monkeypatch.setattr(reprompi, "_LEAST_FREE_BYTES", 1 << 60)
    with refused("mpibenchmark-not-written", OutputError):
        run("hang", patience_s=0.5)
    assert [m.instance.msize_bytes for m in backend.salvage(tmp_path / "l")] == [8]


def test_a_launch_folder_that_cannot_be_written(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """What a launch keeps beside its output is an output like any other."""
    (tmp_path / "l" / "command-timed.txt").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"command-timed.txt"):
        _run(backend, tmp_path / "l")


def test_a_killed_launch_is_salvaged(
    backend: ReproMpiBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs that were done when the user interrupted are all there."""
    monkeypatch.setenv("FAKE", "hang")
    folder = tmp_path / "l"
    folder.mkdir()
    plan = LaunchPlan(SHAPE, CELLS, tuple(ScheduleStep(i, 3, 0.05) for i in range(2)), 30.0)

    def interrupt(_: float) -> None:
        output = folder / "output-timed.txt"
        if output.exists() and "MPI_Bcast" in output.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backend.run(plan, "l", folder, interrupt)
    salvaged = backend.salvage(folder)
    assert [(m.instance.msize_bytes, m.times_s, m.launch) for m in salvaged] == [(8, GOOD[1], "l")]


def test_a_launch_killed_before_it_began_leaves_nothing(
    backend: ReproMpiBackend, tmp_path: Path
) -> None:
    """Without output there is nothing to salvage."""
    _run(backend, tmp_path / "l")
    (tmp_path / "l" / "output-timed.txt").write_text("#@operation=MPI_BOR\n")
    assert backend.salvage(tmp_path / "l") == ()


def test_a_missing_program_is_named(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By path, by variable or on PATH; the message says how to mend it."""
    with refused("program-missing", ProgramError, program=tmp_path / "mpibenchmark"):
        _backend(programs, str(tmp_path / "mpibenchmark"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("program-missing", ProgramError, program="mpibenchmark"):
        _backend(programs, None)
    monkeypatch.setenv("COLLTUNE_REPROMPI", str(programs / "mpibenchmark"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert _backend(programs, None).provenance()["mpibenchmark"] == str(programs / "mpibenchmark")


def test_a_program_that_does_not_answer_as_mpibenchmark(
    backend: ReproMpiBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked what it is where its first run failed, and the error says what is wrong."""
    for fault in ("stranger", "broken launcher", "no library", "singletons", "symbols"):
        monkeypatch.setenv("FAKE", fault)
        code = "built-for-another-mpi" if fault == "singletons" else "useless-benchmark"
        with refused(code, ProgramError) as raised:
            _run(backend, tmp_path / fault)
        told = raised.value.values.get("told", "")
        assert ("Unable to allocate resources" in told) == (fault == "broken launcher")


def test_groups_share_configuration_shape_and_datatype(backend: ReproMpiBackend) -> None:
    """What must be forced, started or typed differently needs a launch of its own."""
    default = _cell(8, "openmpi.bcast.default")
    others = (
        _cell(8, "openmpi.alltoall.default"),
        _cell(8, "openmpi.allreduce.default"),
        _cell(7, "openmpi.allreduce.default"),
        _cell(0, "openmpi.barrier.default"),
        _cell(8, "openmpi.bcast.default", Shape(1, 2)),
    )
    assert backend.together((*CELLS, default, *others)) == (
        CELLS,
        (default, others[0], others[2]),
        (others[1],),
        (others[3],),
        (others[4],),
    )


def test_cells_that_are_not_feasible(backend: ReproMpiBackend) -> None:
    """Neither what mpibenchmark lacks nor what the library would run as something else."""
    cells = [
        _cell(64, "openmpi.bcast.pipeline:segsize=1024"),
        _cell(4096, "openmpi.bcast.pipeline:segsize=1024"),
        _cell(8, "openmpi.alltoallv.pairwise"),
        _cell(0, "openmpi.bcast.default"),
        _cell(8, "openmpi.bcast.default"),
        _cell(0, "openmpi.barrier.linear"),
    ]
    assert [backend.feasible(cell) for cell in cells] == [False, True, False, False, True, True]


def test_a_users_own_choice_of_algorithm_is_refused(
    backend: ReproMpiBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """His variables win, so that other configurations could not be measured; ours may stand."""
    campaign = Campaign((Collective.BCAST,), (8,), ppn=(4,))
    monkeypatch.setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1")
    assert backend.portfolio(campaign, Collective.BCAST).configurations
    monkeypatch.setenv("OMPI_MCA_coll_tuned_bcast_algorithm", "3")
    with refused(
        "set-otherwise",
        CampaignError,
        name="OMPI_MCA_coll_tuned_bcast_algorithm",
        mend="Unset OMPI_MCA_coll_tuned_bcast_algorithm",
    ):
        backend.portfolio(campaign, Collective.BCAST)
    with refused(
        "decided-by-user",
        CampaignError,
        name="OMPI_MCA_coll_tuned_bcast_algorithm",
        mend="Unset OMPI_MCA_coll_tuned_bcast_algorithm",
    ):
        backend.portfolio(campaign, Collective.ALLREDUCE)


def test_steps_of_several_groups_are_a_mistake(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """One launch forces one configuration."""
    with pytest.raises(ValueError, match="one group"):
        _run(backend, tmp_path / "l", (CELLS[0], _cell(8, "openmpi.bcast.default")))
