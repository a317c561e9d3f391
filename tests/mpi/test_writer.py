"""What is written for Open MPI, as golden files."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.formats import FORMATS, format_for
from colltune.mpi.openmpi.tuned_format import DISPATCH
from tests.mpi.tables import HYDRA, intervals, table

CLASSIC = FORMATS["openmpi-classic"]
GOLDEN = Path(__file__).parents[1] / "golden" / "openmpi"


def golden(name: str) -> str:
    """Return the text of a golden file."""
    return (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("release", "builtin_operations_only", "name"),
    [
        ("4.1.4", False, "hydra-4.1.4"),
        ("5.0.11", False, "hydra-5.0.11"),
        ("5.0.11", True, "hydra-5.0.11-builtin"),
    ],
)
def test_a_table_is_written_as_the_golden_files_say(
    release: str, builtin_operations_only: bool, name: str
) -> None:
    """Rules, notes and dispatch file of the large table are exactly the recorded ones."""
    written = CLASSIC.write(HYDRA, release, builtin_operations_only=builtin_operations_only)
    notes = "".join(f"{note}\n" for note in written.notes)
    assert written.text == golden(f"{name}.rules")
    assert notes == golden(f"{name}.notes")
    assert written.texts.get(DISPATCH, "") == golden(f"{name}.dispatch")


def test_a_single_node_needs_no_dispatch_file() -> None:
    """Where no communicator spans nodes coll/han does not stand in the way."""
    rules = {(Collective.BCAST, 4): intervals((0, "bcast.pipeline"))}
    assert DISPATCH not in CLASSIC.write(table(Shape(1, 4), rules), "5.0.11").texts
    assert DISPATCH in CLASSIC.write(table(Shape(2, 2), rules), "5.0.11").texts


def test_collectives_without_han_need_no_dispatch_file() -> None:
    """Coll/han does not serve alltoall, whose rules take effect by themselves."""
    rules = {(Collective.ALLTOALL, 4): intervals((0, "alltoall.pairwise"))}
    assert DISPATCH not in CLASSIC.write(table(Shape(2, 2), rules), "5.0.11").texts


def test_a_table_without_a_choice_gives_an_empty_file() -> None:
    """When everything is left to the library the file names no collective."""
    rules = {(Collective.BCAST, 4): intervals((0, "bcast.default"))}
    written = CLASSIC.write(table(Shape(2, 2), rules), "5.0.11")
    assert CLASSIC.parse(written.text, "rules", "5.0.11").rules == ()
    assert (list(written.texts), written.notes) == ([""], ())


@pytest.mark.parametrize(
    "broken",
    [
        (),
        intervals((1, "bcast.binomial")),
        intervals((0, "bcast.binomial"))[:0],
        intervals((0, "alltoall.linear")),
        (*intervals((0, "bcast.binomial"), (8, "bcast.chain"))[:1],),
        (
            Interval(0, 7, Configuration.parse("openmpi.bcast.binomial")),
            Interval(9, None, Configuration.parse("openmpi.bcast.chain")),
        ),
    ],
)
def test_a_table_with_gaps_is_refused(broken: tuple[Interval, ...]) -> None:
    """Intervals that do not cover all sizes, in order, are an error and not a guess."""
    with pytest.raises(LibraryError, match="bcast on 4 processes: the decision table's intervals"):
        CLASSIC.write(table(Shape(1, 4), {(Collective.BCAST, 4): broken}), "5.0.11")


def test_another_librarys_table_is_refused() -> None:
    """A table of MPICH cannot be written for Open MPI."""
    with pytest.raises(LibraryError, match="a decision table of mpich"):
        CLASSIC.write(DecisionTable("mpich", Shape(1, 4), {}), "5.0.11")


def test_six_gets_its_own_format() -> None:
    """Open MPI 6 reads JSON, releases before it the classic file."""
    named = {
        release: format_for("openmpi", release).name for release in ("4.1.4", "5.0.11", "6.0.0")
    }
    assert named == {
        "4.1.4": "openmpi-classic",
        "5.0.11": "openmpi-classic",
        "6.0.0": "openmpi-json",
    }
