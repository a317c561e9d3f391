"""Programs that go wrong, or use MPI at its edges: the same with and without libcolltune."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from colltune import process
from tests.integration import real_interposed
from tests.integration.real_interposed import Interposed

pytestmark = pytest.mark.mpi
FORCED = ";".join(
    (
        "colltune.bcast.hierarchical:groups=2",
        "colltune.allgather.hierarchical:leaders=2,chunk=500",
        "colltune.allreduce.ring:leaders=2,chunk=500",
        "colltune.alltoallv.adaptive:every=2,start=0,tests=1",
    )
)
SETTINGS = {"COLLTUNE_FORCE": FORCED, "COLLTUNE_NODES": "by-rank:2"}
HANGS_S = 4.0


@pytest.fixture(scope="module")
def mpi(tmp_path_factory: pytest.TempPathFactory) -> Interposed:
    """Return the MPI under test with the library."""
    return real_interposed.prepare(tmp_path_factory.mktemp("interposed"))


def _both(mpi: Interposed, case: str) -> tuple[process.Outcome, process.Outcome]:
    """Return what becomes of a case without the library and with it."""
    command: list[str | Path] = [mpi.program("faults.c"), case]
    return mpi.run(3, command, preload=False), mpi.run(3, command, SETTINGS)


def _said(outcome: process.Outcome) -> list[str]:
    """Return what the program itself printed, in an order that does not depend on processes."""
    words = ("alltoallv: ", "handled: ", "no MPI")
    lines = outcome.stdout.splitlines()
    return sorted(line for line in lines if line.startswith(words) or line.endswith(" handled"))


def test_an_abort_within_an_operation_ends_the_job_alike(mpi: Interposed) -> None:
    """MPI_Abort in an operation's function gives the job its status."""
    without, ours = _both(mpi, "abort")
    assert without.returncode == ours.returncode == 7


def test_a_process_that_never_comes_is_waited_for(mpi: Interposed) -> None:
    """The others wait, until the job is killed, as MPI has it."""
    ours = mpi.run(3, [mpi.program("faults.c"), "absent"], SETTINGS, timeout_s=HANGS_S)
    assert ours.timed_out, ours.explain()
    assert "came through" not in ours.stdout


def test_errors_are_those_of_the_mpi_library(mpi: Interposed) -> None:
    """Messages that are too long, and arguments that MPI refuses: the same, and told once."""
    without, ours = _both(mpi, "errors")
    if not without.ok:
        pytest.skip("this MPI crashes by itself where arguments are wrong")
    assert ours.ok, ours.explain()
    assert len(_said(ours)) == 1 + 15
    assert _said(ours) == _said(without)


def test_eight_threads_use_eight_communicators(mpi: Interposed) -> None:
    """With MPI_THREAD_MULTIPLE, while communicators are made and freed, all data are right."""
    ours = mpi.run(3, [mpi.program("faults.c"), "threads"], SETTINGS)
    assert ours.ok, ours.explain()
    if "no threads" in ours.stdout:
        pytest.skip("this MPI has no MPI_THREAD_MULTIPLE")
    assert "threads held" in ours.stdout


def test_communicators_come_and_go_under_two_preloaded_libraries(
    mpi: Interposed, tmp_path: Path
) -> None:
    """Two hundred are made and freed; a second copy of the library does no harm."""
    second = Path(shutil.copy(mpi.library, tmp_path / "second.so"))
    preloaded = SETTINGS | {"LD_PRELOAD": f"{mpi.library}:{second}"}
    ours = mpi.run(3, [mpi.program("faults.c"), "freed"], preloaded)
    assert ours.ok, ours.explain()
    assert "communicators held" in ours.stdout


def test_a_program_without_mpi_init_is_left_alone(mpi: Interposed) -> None:
    """Nothing is done, nothing is said."""
    program = mpi.program("faults.c")
    variables = SETTINGS | {"LD_PRELOAD": str(mpi.library)}
    outcome = process.run([program, "never"], timeout_s=30, env=variables)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "no MPI\n", "")


@pytest.mark.parametrize("first_has_it", [True, False])
def test_a_job_of_which_a_part_lacks_the_library_runs_without_it(
    mpi: Interposed, first_has_it: bool
) -> None:
    """A launcher that does not hand LD_PRELOAD on everywhere costs a line, no result."""
    command: list[str | Path] = [mpi.program("faults.c"), "freed"]
    ours = {**SETTINGS, "COLLTUNE_ROLL_S": "0.5", "LD_PRELOAD": str(mpi.library)}
    words = [f"{name}={value}" for name, value in ours.items()]
    one: dict[str, str] = ours if first_has_it else {}
    two = [] if first_has_it else words
    both = [*command, ":", "-np", "2", "env", *two, *command]
    outcome = mpi.run(1, both, one, preload=False)
    process.check(outcome, "a job that is preloaded in part")
    assert "libcolltune (mpirun: -x LD_PRELOAD)" in outcome.stderr
    assert ("only 1 of 3" in outcome.stderr) is first_has_it
