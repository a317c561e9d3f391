"""Real jobs with libcolltune preloaded run what tables and rules say, or run as without it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from colltune.bench import build
from colltune.mpi import trace
from colltune.mpi.installation import Installation
from tests.integration import real_mpi, real_mpich
from tests.integration.tables_for_libcolltune import MPICH, OPENMPI, sealed

pytestmark = pytest.mark.mpi
FOREIGN = """\
colltune-rules 1
value large 20000
configuration piped openmpi.bcast.pipeline coll_tuned_bcast_algorithm=3\
 coll_tuned_bcast_algorithm_segmentsize=1024 coll_han_priority=0
rule first msize GTEQ large then piped else table
start bcast first
"""


def preloaded(found: Installation) -> Path:
    """Return libcolltune for an installation."""
    return build.interposed_library(
        found.mpicc, found.compile_line, environment=found.launch_environment()
    )


@pytest.fixture(scope="module")
def openmpi(tmp_path_factory: pytest.TempPathFactory) -> real_mpi.RealMpi:
    """Return an Open MPI that shows which functions run, with libcolltune behind the tracer."""
    mpi = real_mpi.prepare(tmp_path_factory.mktemp("mpi"))
    both = Path(f"{mpi.tracer}:{preloaded(mpi.installation)}")
    return dataclasses.replace(mpi, tracer=both)


def last_broadcasts(
    mpi: real_mpi.RealMpi, steps: list[str], variables: dict[str, str]
) -> list[str]:
    """Return the function that ran last of each call; those before it set communicators up."""
    outcome = mpi.run(4, steps, variables)
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr
    ran = [call.functions[-1].symbol for call in trace.marked(outcome.stderr)]
    return [symbol.removeprefix("ompi_coll_base_bcast_intra_") for symbol in ran]


def test_openmpi_runs_what_the_table_says(openmpi: real_mpi.RealMpi, tmp_path: Path) -> None:
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
    openmpi: real_mpi.RealMpi, tmp_path: Path, release: str, variables: dict[str, str], why: str
) -> None:
    """Another release, no file, or the user's own choice: one line of one process."""
    table = tmp_path / "table"
    if release:
        wanted = openmpi.release if release == "same" else release
        table.write_text(sealed(OPENMPI.format(release=wanted)), encoding="utf-8")
    outcome = openmpi.run(4, ["bcast:5000"], {"COLLTUNE_TABLE": str(table)} | variables)
    assert outcome.ok, outcome.explain()
    (line,) = [line for line in outcome.stderr.splitlines() if line.startswith("colltune: ")]
    assert line.startswith(f"colltune: COLLTUNE_TABLE={table}: {why}")
    assert line.endswith("; the MPI library decides")
    assert "WRONG" not in outcome.stderr
    assert "intra_chain" not in outcome.stderr


def test_errors_in_rules_name_file_and_line(openmpi: real_mpi.RealMpi, tmp_path: Path) -> None:
    """A rules file with an error is ignored, and the job runs."""
    rules = tmp_path / "rules"
    rules.write_text(FOREIGN.replace("GTEQ", ">="), encoding="utf-8")
    outcome = openmpi.run(2, ["bcast:64"], {"COLLTUNE_RULES": str(rules)})
    assert outcome.ok, outcome.explain()
    told = (
        f"colltune: {rules}:4: >= is none of LT, LTEQ, GT, GTEQ, EQ, NEQ; the MPI library decides"
    )
    assert told in outcome.stderr.splitlines()


def test_mpich_runs_what_the_table_says(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Its messages are those of the algorithm that the table names, and only where it does."""
    mpich = real_mpich.prepare(tmp_path_factory.mktemp("mpich"))
    table = tmp_path / "table"
    table.write_text(sealed(MPICH.format(release=mpich.release)), encoding="utf-8")
    steps = ["bcast:64", "bcast:1000", "bcast:1000", "bcast:20000"]
    variables = {
        "COLLTUNE_TABLE": str(table),
        "LD_PRELOAD": f"{mpich.sends}:{preloaded(mpich.installation)}",
    }
    own, first, again, binomial = mpich.traffic(4, steps, variables)
    assert own[0] == (64, 64)
    ring = (500, 250, 250, 250, 250)
    assert first[0][-len(ring) :] == ring  # behind the messages that set it up
    assert again[0][-len(ring) :] == ring
    assert binomial[0][-2:] == (20000, 20000)
