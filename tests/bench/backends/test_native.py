"""What the native backend asks of library and launcher, without a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from colltune import process
from colltune.bench.backends import Ending, LaunchPlan, LaunchResult
from colltune.bench.backends.native import NativeBackend
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.errors import CampaignError, OutputError, ProgramError
from colltune.mpi.installation import Installation
from tests.refusals import refused

MPIRUN = Path("/opt/mpi/bin/mpirun")
SHAPE = Shape(1, 4)
HEAD = "colltune-raw 2\nf node.0 n0, 4 processes\n"


def _cell(configuration_id: str, shape: Shape = SHAPE, msize: int = 1024) -> Cell:
    configuration = Configuration.parse(configuration_id)
    return Cell(configuration, Instance(configuration.collective, shape, msize))


RING = _cell("openmpi.allgatherv.ring")
DEFAULT = _cell("openmpi.allgatherv.default")
BINOMIAL = _cell("openmpi.bcast.binomial:segsize=0")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> NativeBackend:
    """Return a backend of an Open MPI that is not there."""
    found = NativeBackend(
        Installation("openmpi", "5.0.11", MPIRUN, MPIRUN, MPIRUN, "cc"),
    )
    monkeypatch.setattr(found, "program", lambda: Path("/cache/collbench"))
    return found


class _Runs:
    """Stands for `process.run`: leaves raw output behind and remembers the environment."""

    def __init__(
        self, raw: Mapping[str, str], returncode: int | None = 0, stderr: str = ""
    ) -> None:
        self._raw, self._returncode, self._stderr = raw, returncode, stderr
        self.environment: Mapping[str, str] = {}
        self.plan = ""

    def __call__(
        self, command: Any, *, timeout_s: float, env: Any, watch: Any, mark: str
    ) -> process.ProcessResult:
        self.environment = env
        folder = Path(command[-1]).parent
        self.plan = (folder / "plan.txt").read_text()
        for name, text in self._raw.items():
            (folder / name).write_text(text)
        return process.ProcessResult(
            tuple(map(str, command)), self._returncode, "", self._stderr, 2.0
        )


@pytest.fixture
def launched(
    backend: NativeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LaunchResult]:
    """Return a function that launches cells and gets the given raw output back."""

    def launch(runs: _Runs, *cells: Cell, shape: Shape = SHAPE) -> LaunchResult:
        monkeypatch.setattr(process, "run", runs)
        steps = tuple(ScheduleStep(i, 5, 1.0) for i in range(len(cells)))
        plan = LaunchPlan(shape, cells, steps, 20.0)
        return backend.run(plan, "l", tmp_path, lambda _: None)

    return launch


def test_what_cannot_be_switched_gets_launches_of_its_own(backend: NativeBackend) -> None:
    """One group for all that MPI_T can choose, and one for each other configuration."""
    bruck, other_size = _cell("openmpi.allgatherv.bruck"), _cell("openmpi.allgatherv.ring", msize=8)
    cells = (DEFAULT, RING, BINOMIAL, bruck, other_size)
    assert backend.together(cells) == ((DEFAULT, BINOMIAL), (RING, other_size), (bruck,))


def test_a_forced_launch_has_its_configuration_in_the_environment(
    launched: Callable[..., LaunchResult],
) -> None:
    """Where MPI_T cannot choose it, the environment does, and no control variable is written."""
    runs = _Runs({"raw.txt": HEAD + "s 0\nr 0 0 1e-6\ne 0\nend plan 1 2\n"})
    result = launched(runs, RING)
    assert runs.environment["OMPI_MCA_coll_tuned_allgatherv_algorithm"] == "3"
    assert "config\n" in runs.plan
    assert [m.configuration for m in result.measurements] == [RING.configuration]
    assert result.facts == {"node.0": "n0, 4 processes"}


def test_the_user_and_the_measuring_do_not_mix(
    backend: NativeBackend,
    launched: Callable[..., LaunchResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What his environment or files decide is not measured under another name, but told."""
    monkeypatch.setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "0")
    with refused("set-otherwise", CampaignError, name="OMPI_MCA_coll_tuned_use_dynamic_rules"):
        backend.feasible(BINOMIAL)
    with refused(
        "set-otherwise",
        CampaignError,
        name="OMPI_MCA_coll_tuned_use_dynamic_rules",
        mend="Unset OMPI_MCA_coll_tuned_use_dynamic_rules",
    ):
        launched(_Runs({}), BINOMIAL)
    monkeypatch.setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1")
    monkeypatch.setenv("OMPI_MCA_coll", "basic,self")
    with refused("decided-by-user", CampaignError, value="basic,self", source="the environment"):
        backend.feasible(BINOMIAL)
    monkeypatch.delenv("OMPI_MCA_coll")
    (tmp_path / ".openmpi").mkdir()
    file = tmp_path / ".openmpi" / "mca-params.conf"
    file.write_text("pml = ob1\ncoll_tuned_priority = 0\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with refused("decided-by-user", CampaignError):
        backend.feasible(BINOMIAL)


def test_buffers_beyond_the_range_of_an_int_are_not_feasible(backend: NativeBackend) -> None:
    """Counts and displacements are ints."""
    assert backend.feasible(_cell("openmpi.alltoallv.pairwise", Shape(2, 512), (1 << 21) - 1))
    assert not backend.feasible(_cell("openmpi.alltoallv.pairwise", Shape(2, 512), 1 << 21))


def test_only_cells_with_a_step_are_in_the_plan(
    backend: NativeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign's other cells, of whatever shape, are no part of a launch."""
    runs = _Runs({"raw.txt": HEAD + "s 0\nr 0 0 1e-6\ne 0\nend plan 1 2\n"})
    monkeypatch.setattr(process, "run", runs)
    cells = (_cell("openmpi.bcast.default", Shape(9, 9)), BINOMIAL)
    plan = LaunchPlan(SHAPE, cells, (ScheduleStep(1, 5, 1.0),), 20.0)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert runs.plan.count("\ncell ") == 1
    assert [m.configuration for m in result.measurements] == [BINOMIAL.configuration]
    assert [m.configuration for m in backend.salvage(tmp_path)] == [BINOMIAL.configuration]


def test_the_cell_in_flight_is_to_blame(launched: Callable[..., LaunchResult]) -> None:
    """A crash is the fault of the one cell whose step had not ended."""
    runs = _Runs({"raw.txt": HEAD + "s 1\nr 1 0 1e-6\ne 1\ns 0\n"}, 139)
    result = launched(runs, BINOMIAL, DEFAULT)
    assert (result.ending, result.suspect) == (Ending.CRASH, BINOMIAL)
    assert [m.status for m in result.measurements] == [RunStatus.CRASH, RunStatus.TOO_FEW]


def test_a_crash_between_two_steps_is_nobodys_fault(launched: Callable[..., LaunchResult]) -> None:
    """When no step is under way, no cell is blamed, and the message tells what happened."""
    runs = _Runs({"raw.txt": HEAD + "s 1\nr 1 0 1e-6\ne 1\n"}, 1, "node n7 is gone")
    result = launched(runs, BINOMIAL, DEFAULT)
    assert (result.ending, result.suspect, result.in_flight) == (Ending.CRASH, None, ())
    assert "node n7 is gone" in result.message
    assert [m.status for m in result.measurements] == [RunStatus.TOO_FEW]


def test_no_output_is_an_error(launched: Callable[..., LaunchResult]) -> None:
    """A program that never began a step did not start; a full disk is told as such."""
    with refused("did-not-start", ProgramError):
        launched(_Runs({}, 1), BINOMIAL)
    with refused("raw-not-written", OutputError):
        launched(_Runs({}, 3, "collbench: cannot write /x"), BINOMIAL)


def test_a_forced_configuration_may_crash_in_the_start_itself(
    launched: Callable[..., LaunchResult],
) -> None:
    """MPI_Init may call what the environment forces: then the configuration is to blame."""
    result = launched(_Runs({"raw.txt": HEAD}, 139, "segmentation fault in MPI_Init"), RING)
    assert (result.ending, result.suspect) == (Ending.CRASH, RING)
    assert [m.status for m in result.measurements] == [RunStatus.CRASH]
    with pytest.raises(ProgramError, match="wrong layout"):
        launched(_Runs({"raw.txt": HEAD}, 3, "collbench: wrong layout: 1 node"), RING)


def test_collectives_have_one_default_group(backend: NativeBackend) -> None:
    """The library's own decisions of all collectives share a launch."""
    cells = tuple(_cell(f"openmpi.{collective}.default") for collective in Collective)
    assert backend.together(cells) == (cells,)
