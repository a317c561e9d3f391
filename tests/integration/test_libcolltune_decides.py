"""Real jobs with libcolltune preloaded run what tables and rules say, or run as without it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from colltune import process
from colltune.mpi import trace
from tests.integration.real import HEADERS, Real, RealMpi, RealMpich, with_libcolltune
from tests.integration.tables_for_libcolltune import MPICH, OPENMPI, sealed

pytestmark = pytest.mark.mpi
STRICT = ("-Wall", "-Wextra")
FOREIGN = """\
colltune-rules 1
value large 20000
configuration piped openmpi.bcast.pipeline coll_tuned_bcast_algorithm=3\
 coll_tuned_bcast_algorithm_segmentsize=1024 coll_han_priority=0
rule first msize GTEQ large then piped else table
start bcast first
"""


@pytest.fixture(scope="module")
def openmpi(mpi: RealMpi, preloaded: Real) -> RealMpi:
    """Return an Open MPI that shows which functions run, with libcolltune behind the tracer."""
    return dataclasses.replace(mpi, behind=(Path(preloaded.preload),))


def last_broadcasts(mpi: RealMpi, steps: list[str], variables: dict[str, str]) -> list[str]:
    """Return the function that ran last of each call; those before it set communicators up."""
    outcome = mpi.call(4, steps, variables)
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr
    ran = [call.functions[-1].symbol for call in trace.marked(outcome.stderr)]
    return [symbol.removeprefix("ompi_coll_base_bcast_intra_") for symbol in ran]


def test_openmpi_runs_what_the_table_says(openmpi: RealMpi, tmp_path: Path) -> None:
    """Steered algorithms take effect and are right; rules go before the table."""
    table, rules = tmp_path / "table", tmp_path / "rules"
    table.write_text(sealed(OPENMPI.format(release=openmpi.release)), encoding="utf-8")
    rules.write_text(FOREIGN, encoding="utf-8")
    steps = ["bcast:5000", "bcast:40000", "bcast:5000:types"]
    named = {"COLLTUNE_TABLE": str(table)}
    assert last_broadcasts(openmpi, steps, named) == ["chain", "pipeline", "chain"]
    ruled = named | {"COLLTUNE_RULES": str(rules)}
    assert last_broadcasts(openmpi, ["bcast:19999", "bcast:20000"], ruled) == ["chain", "pipeline"]


@pytest.mark.parametrize(
    ("release", "variables", "why"),
    [
        ("4.1.6", {}, "it is for openmpi 4.1.6, and this is openmpi "),
        ("", {}, "No such file or directory"),
        (
            "same",
            {"OMPI_MCA_coll_tuned_bcast_algorithm": "6"},
            "OMPI_MCA_coll_tuned_bcast_algorithm is set, and the user's settings win",
        ),
    ],
)
def test_a_table_that_does_not_hold_is_told_once(
    openmpi: RealMpi, tmp_path: Path, release: str, variables: dict[str, str], why: str
) -> None:
    """Another release, no file, or the user's own choice: one line of one process."""
    table = tmp_path / "table"
    if release:
        wanted = openmpi.release if release == "same" else release
        table.write_text(sealed(OPENMPI.format(release=wanted)), encoding="utf-8")
    outcome = openmpi.call(4, ["bcast:5000"], {"COLLTUNE_TABLE": str(table)} | variables)
    assert outcome.ok, outcome.explain()
    (line,) = [line for line in outcome.stderr.splitlines() if line.startswith("colltune: ")]
    assert line.startswith(f"colltune: COLLTUNE_TABLE={table}: {why}")
    assert line.endswith("; the MPI library decides")
    assert "WRONG" not in outcome.stderr
    assert "intra_chain" not in outcome.stderr


def test_errors_in_rules_name_file_and_line(openmpi: RealMpi, tmp_path: Path) -> None:
    """A rules file with an error is ignored, and the job runs."""
    rules = tmp_path / "rules"
    rules.write_text(FOREIGN.replace("GTEQ", ">="), encoding="utf-8")
    outcome = openmpi.call(2, ["bcast:64"], {"COLLTUNE_RULES": str(rules)})
    assert outcome.ok, outcome.explain()
    told = (
        f"colltune: {rules}:4: >= is none of LT, LTEQ, GT, GTEQ, EQ, NEQ; the MPI library decides"
    )
    assert told in outcome.stderr.splitlines()


def test_mpich_runs_what_the_table_says(mpich: RealMpich, tmp_path: Path) -> None:
    """Its messages are those of the algorithm that the table names, and only where it does."""
    ours = with_libcolltune(tmp_path, "mpich")
    watched = RealMpich(mpich.installation, mpich.folder, f"{mpich.preload}:{ours.preload}")
    table = tmp_path / "table"
    table.write_text(sealed(MPICH.format(release=mpich.release)), encoding="utf-8")
    steps = ["bcast:64", "bcast:1000", "bcast:1000", "bcast:20000"]
    named = {"COLLTUNE_TABLE": str(table)}
    own, first, again, binomial = watched.traffic(4, steps, named)
    assert own[0] == (64, 64)
    ring = (500, 250, 250, 250, 250)
    assert first[0][-len(ring) :] == ring  # behind the messages that set it up
    assert again[0][-len(ring) :] == ring
    assert binomial[0][-2:] == (20000, 20000)
    assert told(steered(ours, "many", *MPICH_RING)) == []
    (line,) = told(steered(ours, "threads", *MPICH_RING))
    assert "are not steered, since the program uses MPI_THREAD_MULTIPLE" in line


OPENMPI_CHAIN = (
    "coll_tuned_bcast_algorithm=2",
    "coll_tuned_bcast_algorithm_segmentsize=1%03d",
    "coll_han_priority=0",
)
MPICH_RING = ("MPIR_CVAR_BCAST_INTRA_ALGORITHM=scatter_ring_allgather",)


def steered(mpi: Real, *words: str) -> process.ProcessResult:
    """Run steers.c on a few processes and return what it says."""
    nprocs = 3 if mpi.installation.library == "openmpi" else 2  # MPICH's never yield
    outcome = mpi.run(nprocs, [mpi.compiled("steers.c", options=STRICT), *words])
    assert outcome.ok, outcome.explain()
    assert outcome.stdout.endswith("all right\n")
    return outcome


def told(outcome: process.ProcessResult) -> list[str]:
    """Return the lines of libcolltune."""
    return [line for line in outcome.stderr.splitlines() if line.startswith("colltune: ")]


def test_openmpi_is_steered_in_more_ways_than_are_kept(preloaded: Real) -> None:
    """Twenty configurations in turn on one communicator, and three on a part, are all right."""
    assert told(steered(preloaded, "many", *OPENMPI_CHAIN)) == []


@pytest.mark.parametrize(
    ("how", "why"), [("threads", "MPI_THREAD_MULTIPLE"), ("idup", "MPI_Comm_idup")]
)
def test_nothing_is_steered_where_processes_could_differ(
    preloaded: Real, how: str, why: str
) -> None:
    """Threads, and duplicates that come to be later: the library decides, on all processes."""
    lines = told(steered(preloaded, how, *OPENMPI_CHAIN))
    # rank 0 did not call MPI_Comm_idup, and goes along with those that did
    assert len(lines) == (how == "threads")
    assert all(f"are not steered, since the program uses {why}" in line for line in lines)


def test_a_variable_that_does_not_exist_is_told_once(preloaded: Real) -> None:
    """The library decides then."""
    words = ("coll_tuned_bcast_algorithm=2", "coll_tuned_bcast_by_pigeon=1")
    lines = told(steered(preloaded, "many", *words))
    assert len(lines) == len(set(lines)) == 20
    assert "there is no control variable coll_tuned_bcast_by_pigeon" in lines[0]


def test_a_program_changes_rules_for_all_processes(openmpi: RealMpi) -> None:
    """Rank 0's rules and values hold everywhere; without libcolltune the program runs as ever."""
    program = openmpi.compiled("changes_rules.c", options=(*STRICT, *HEADERS))
    piped = FOREIGN.partition("piped ")[2].partition("\n")[0]
    outcome = dataclasses.replace(openmpi, program=program).call(3, [piped], {})
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr
    calls = trace.marked(outcome.stderr)
    assert [call.msize_bytes for call in calls] == [40000, 40000, 10000, 10000]
    pipelined = [call.functions[-1].symbol.endswith("_pipeline") for call in calls]
    assert pipelined == [False, True, False, True]
    alone = openmpi.run(1, [program, piped])
    assert (alone.ok, alone.stderr) == (True, "MARK bcast 3 40000\n")
