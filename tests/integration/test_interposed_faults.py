"""Programs that go wrong, or use MPI at its edges: the same with and without libcolltune."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from colltune import process
from tests.integration.real import Real, with_libcolltune

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
_BCAST = "colltune.bcast.hierarchical:groups"
_FLAT = ("flat", "chain", "pipeline,segsize=64", "binary", "binomial", "scatter_ring_allgather")
_OVER_NODES = (
    "exchange=ring,leaders=1",
    "exchange=recursive_doubling,leaders=2,overlap=no",
    "exchange=ring,leaders=2,chunk=3000",
)
OURS = (
    tuple(f"{_BCAST}=1,inner={word}" for word in _FLAT),
    (
        f"{_BCAST}=2,inner=pipeline,outer=binomial,segsize=1000",
        f"{_BCAST}=2,inner=binomial,outer=pipeline,segsize=100",
        f"{_BCAST}=2,inner=scatter_ring_allgather,outer=pipeline,segsize=100",
        f"{_BCAST}=2,inner=pipeline,outer=scatter_ring_allgather",
        f"{_BCAST}=3,inner=chain,outer=flat",
    ),
    tuple(f"colltune.allgather.hierarchical:{words}" for words in _OVER_NODES),
    tuple(f"colltune.allreduce.ring:{words}" for words in _OVER_NODES),
    ("colltune.allreduce.doubling",),
    (
        *(f"colltune.alltoallv.eager_pairwise:threshold={number}" for number in (0, 1000, 10**9)),
        "colltune.alltoallv.adaptive:every=2,start=0,tests=1",
    ),
)
# where a process copies from another one, Open MPI 4.1 and 5.0 write beyond a buffer too short
COPIED_TWICE = {
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_smsc": "^cma,knem,xpmem",
    "OMPI_MCA_btl": "^tcp",
}


def _both(preloaded: Real, case: str) -> tuple[process.ProcessResult, process.ProcessResult]:
    """Return what becomes of a case without the library and with it."""
    command: list[str | Path] = [preloaded.compiled("faults.c"), case]
    return preloaded.run(3, command, preload=""), preloaded.run(3, command, SETTINGS)


def _said(outcome: process.ProcessResult) -> list[str]:
    """Return what the program itself printed, in an order that does not depend on processes."""
    words = ("alltoallv: ", "handled: ", "no MPI")
    lines = outcome.stdout.splitlines()
    return sorted(line for line in lines if line.startswith(words) or line.endswith(" handled"))


def test_an_abort_within_an_operation_ends_the_job_alike(preloaded: Real) -> None:
    """MPI_Abort in an operation's function gives the job its status."""
    without, ours = _both(preloaded, "abort")
    assert without.returncode == ours.returncode == 7


def test_a_process_that_never_comes_is_waited_for(preloaded: Real) -> None:
    """The others wait, until the job is killed, as MPI has it."""
    command = [preloaded.compiled("faults.c"), "absent"]
    ours = preloaded.run(3, command, SETTINGS, timeout_s=HANGS_S)
    assert ours.timed_out, ours.explain()
    assert "came through" not in ours.stdout


def test_errors_are_those_of_the_mpi_library(preloaded: Real) -> None:
    """Messages that are too long, and arguments that MPI refuses: the same, and told once."""
    without, ours = _both(preloaded, "errors")
    if not without.ok:
        pytest.skip("this MPI crashes by itself where arguments are wrong")
    assert ours.ok, ours.explain()
    assert len(_said(ours)) == 1 + 15
    assert _said(ours) == _said(without)


@pytest.mark.parametrize(
    "ids", OURS, ids=("flat", "groups", "allgather", "allreduce", "doubling", "alltoallv")
)
def test_an_error_is_one_of_its_call(preloaded: Real, ids: Sequence[str]) -> None:
    """A process with another count ends in MPI_ERR_TRUNCATE, no hang, and later calls are right.

    Whichever process it is, whether it expects less or more, also where only it, or all others,
    would need more memory or more rounds; the communicator is the same afterwards.
    """
    nprocs = 5 if preloaded.installation.library == "openmpi" else 3
    ppn = nprocs if ids == ("colltune.allreduce.doubling",) else 2
    settings = COPIED_TWICE | {"COLLTUNE_NODES": f"by-rank:{ppn}"}
    ours = preloaded.run(nprocs, [preloaded.compiled("recovers.c"), *ids], settings)
    assert ours.ok, ours.explain()
    assert re.search(r"^\d{3,} right calls after wrong ones$", ours.stdout, re.MULTILINE)


def test_eight_threads_use_eight_communicators(preloaded: Real) -> None:
    """With MPI_THREAD_MULTIPLE, while communicators are made and freed, all data are right."""
    ours = preloaded.run(3, [preloaded.compiled("faults.c"), "threads"], SETTINGS)
    assert ours.ok, ours.explain()
    if "no threads" in ours.stdout:
        pytest.skip("this MPI has no MPI_THREAD_MULTIPLE")
    assert "threads held" in ours.stdout


def test_communicators_come_and_go_under_two_preloaded_libraries(
    preloaded: Real, tmp_path: Path
) -> None:
    """Two hundred are made and freed; a second copy of the library does no harm."""
    both = f"{preloaded.preload}:{shutil.copy(preloaded.preload, tmp_path / 'second.so')}"
    command: list[str | Path] = [preloaded.compiled("faults.c"), "freed"]
    ours = preloaded.run(3, command, SETTINGS, preload=both)
    assert ours.ok, ours.explain()
    assert "communicators held" in ours.stdout


@pytest.mark.parametrize("threads", [[], ["threads"]], ids=["shared", "limited"])
def test_communicators_of_ours_leave_room_for_the_program_s(
    preloaded: Real, threads: list[str]
) -> None:
    """Fifteen hundred duplicates are kept, each with a broadcast by an algorithm of ours."""
    ours = preloaded.run(3, [preloaded.compiled("faults.c"), "many", *threads], SETTINGS)
    assert ours.ok, ours.explain()
    assert "many held" in ours.stdout


@pytest.mark.parametrize(
    ("first", "ran"), [(None, "theirs theirs theirs ours ours "), ("0", "ours " * 5)]
)
def test_a_communicator_gets_one_of_ours_late(
    preloaded: Real, tmp_path: Path, first: str | None, ran: str
) -> None:
    """One of fewer processes may be freed soon; only rank 0 asks what ran, and nobody waits."""
    rules = tmp_path / "rules"
    ours = "colltune.bcast.hierarchical:groups=1,inner=binomial"
    rules.write_text(f"colltune-rules 1\nconfiguration c {ours}\nstart bcast c\n")
    settings = {"COLLTUNE_RULES": str(rules)} | ({"COLLTUNE_FIRST_CALLS": first} if first else {})
    outcome = preloaded.run(4, [preloaded.compiled("faults.c"), "few"], settings)
    process.check(outcome, "five broadcasts")
    assert outcome.stdout == ran


def test_nothing_of_ours_runs_while_fault_tolerance_is_on(preloaded: Real) -> None:
    """A revoked communicator must not leave processes in one of ours."""
    if preloaded.installation.library != "openmpi" or preloaded.installation.release < "5":
        pytest.skip("this MPI has no fault tolerance by itself")
    on = {"OMPI_MCA_mpi_ft_enable": "1"}
    ours = preloaded.run(3, [preloaded.compiled("faults.c"), "freed"], SETTINGS | on)
    assert ours.ok, ours.explain()
    assert "fault tolerance is on: the MPI library runs all calls" in ours.stderr


def test_a_program_without_mpi_init_is_left_alone(preloaded: Real) -> None:
    """Nothing is done, nothing is said."""
    program = preloaded.compiled("faults.c")
    variables = SETTINGS | {"LD_PRELOAD": preloaded.preload}
    outcome = process.run([program, "never"], timeout_s=30, env=variables)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "no MPI\n", "")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (((1, True), (2, False)), "only 1 of 3"),
        (((1, False), (3, True)), "only 3 of 4"),
        (((2, True), (1, False), (3, True)), "only 5 of 6"),
    ],
    ids=["first", "rest", "around"],
)
def test_a_job_of_which_a_part_lacks_the_library_runs_without_it(
    preloaded: Real, parts: tuple[tuple[int, bool], ...], told: str
) -> None:
    """It costs a line and no result; what rank 0 receives from anybody is the program's own."""
    with_it = [f"{name}={value}" for name, value in SETTINGS.items()]
    with_it.append(f"LD_PRELOAD={preloaded.preload}")
    command: list[str | Path] = []
    for n, has_it in parts:
        words = with_it if has_it else []
        command += [":", "-np", str(n)] if command else []
        command += ["env", *words, preloaded.compiled("faults.c"), "anybody"]
    outcome = preloaded.run(parts[0][0], command, preload="")
    process.check(outcome, "a job that is preloaded in part")
    assert "heard all" in outcome.stdout
    ours = [line for line in outcome.stderr.splitlines() if line.startswith("colltune:")]
    assert len(ours) == 1
    assert f"{told} processes have libcolltune (mpirun: -x LD_PRELOAD)" in ours[0]


def _held(preloaded: Real, how: str, *before: str, **variables: str) -> tuple[list[int], str]:
    """Return the MiB that eight communicators on two nodes held, and what was said."""
    settings = {"COLLTUNE_NODES": "by-rank:2", "COLLTUNE_LOG": "1", **variables}
    forced = {"COLLTUNE_FORCE": "colltune.allgather.hierarchical"}
    command = [*before, preloaded.compiled("pool.c"), how]
    ours = preloaded.run(4, command, forced | settings)
    process.check(ours, "eight communicators")
    words = r"^(\d+) MiB mapped, (\d+) large, (\d+) idle, (\d+) freed$"
    found = re.search(words, ours.stdout, re.MULTILINE)
    assert found, ours.explain()
    return [int(number) for number in found.groups()], ours.stderr


def test_communicators_of_the_same_processes_share_memory(preloaded: Real) -> None:
    """It is as much as one call needs, goes back when calls need less, and with the last one."""
    (mapped, large, idle, freed), said = _held(preloaded, "idle")
    assert 120 <= mapped <= 130
    assert 2 * 120 <= large <= 2 * 130
    assert idle <= 2
    assert freed == 0
    assert "COLLTUNE_SHM_MIB" not in said


@pytest.mark.parametrize("mib", [0, 1, 40])
def test_memory_of_a_node_is_limited(preloaded: Real, mib: int) -> None:
    """Calls go in pieces or to the MPI library, and the log says why; all data are right."""
    (mapped, large, _, freed), said = _held(preloaded, "large", COLLTUNE_SHM_MIB=str(mib))
    assert mapped <= mib
    assert large <= 2 * mib
    assert freed == 0
    assert "is more than COLLTUNE_SHM_MIB leaves" in said


def test_a_limit_on_the_sizes_of_files_ends_no_program(preloaded: Real) -> None:
    """Under a limit that the program keeps by itself (ulimit -f), calls go in smaller pieces."""
    limited = ("prlimit", f"--fsize={48 << 20}")
    (mapped, _, _, freed), said = _held(preloaded, "large", *limited)
    assert 0 < mapped <= 48
    assert freed == 0
    assert "no shared memory of" in said


def test_threads_share_no_memory_but_its_limit(preloaded: Real) -> None:
    """Each communicator has its own, as long as there is some: a process may be in two calls."""
    (mapped, large, _, freed), said = _held(preloaded, "threads", COLLTUNE_SHM_MIB="100")
    assert mapped <= 100
    assert large <= 2 * 100
    assert freed == 0
    assert "is more than COLLTUNE_SHM_MIB leaves" in said


@pytest.mark.parametrize("runs", ["openmpi", "mpich"])
def test_a_library_for_another_mpi_says_so_and_the_job_runs(runs: str, tmp_path: Path) -> None:
    """No handle of the other MPI is used; the calls come through as they were made."""
    ours = with_libcolltune(tmp_path, "mpich" if runs == "openmpi" else "openmpi")
    theirs = with_libcolltune(tmp_path, runs)
    program = theirs.compiled("everything.c")
    preload = f"LD_PRELOAD={ours.preload}"
    loads = process.run(["env", preload, "true"], timeout_s=30)
    outcome = theirs.run(3, [program, "2"], SETTINGS, preload=ours.preload)
    if "symbol lookup error" in outcome.stderr:
        pytest.skip("the two MPIs' own libraries do not load into one process")
    process.check(outcome, "the calls")
    assert loads.ok, loads.explain()
    assert outcome.stderr.count("colltune:") == 1
    assert f"compiled for {ours.installation.library} " in outcome.stderr
    assert (
        f"runs with {theirs.installation.library} {theirs.installation.release};" in outcome.stderr
    )
