"""Files for Intel MPI: what is written of a table, converted, and left to the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.in_effect import of_environment
from colltune.mpi.intelmpi.adjust import EVERYWHERE, AdjustFormat
from colltune.mpi.intelmpi.tuning import OTHER_SIZES, TuningFormat
from colltune.mpi.rules import Call
from tests.refusals import refused

GOLDEN = Path(__file__).parents[1] / "golden" / "intelmpi"
JSON, ADJUST = TuningFormat(), AdjustFormat()
C = Collective


def always(text: str) -> tuple[Interval, ...]:
    """Return the interval of all sizes."""
    return (Interval(0, None, Configuration.parse(f"intelmpi.{text}")),)


def switching(first: str, end: int, then: str) -> tuple[Interval, ...]:
    """Return two intervals."""
    head, tail = (Configuration.parse(f"intelmpi.{text}") for text in (first, then))
    return Interval(0, end, head), Interval(end + 1, None, tail)


TABLE = DecisionTable(
    "intelmpi",
    Shape(2, 4),
    {
        (C.BCAST, 8): switching("bcast.preset3", 1023, "bcast.preset1"),
        (C.BCAST, 2): always("bcast.preset2"),
        (C.ALLREDUCE, 8): switching("allreduce.default", 64, "allreduce.preset2"),
        (C.ALLGATHER, 8): always("allgather.preset5"),
        (C.REDUCE, 8): always("reduce.preset99"),
        (C.SCATTER, 8): switching("scatter.preset1", 1 << 40, "scatter.preset2"),
        (C.BARRIER, 1): always("barrier.preset1"),
        (C.SCAN, 8): always("scan.default"),
    },
    {(C.BCAST, Shape(1, 4)): always("bcast.preset4")},
)


def test_a_tuning_file_as_it_was() -> None:
    """Exact communicators with the built-in logic around them; collectives whole or not at all."""
    written = JSON.write(TABLE, "2021.18.1")
    assert written.text == (GOLDEN / "table-2021.18.1.json").read_text(encoding="utf-8")
    notes = (GOLDEN / "table-2021.18.1.notes").read_text(encoding="utf-8")
    assert "".join(f"{note}\n" for note in written.notes) == notes
    assert OTHER_SIZES in written.notes


def test_a_list_of_variables_as_it_was() -> None:
    """The whole job's decisions; never an @, the last entry without a range."""
    written = ADJUST.write(TABLE, "2021.18.1")
    assert written.text == (GOLDEN / "table-2021.18.1.sh").read_text(encoding="utf-8")
    assert "@" not in written.text
    assert EVERYWHERE in written.notes


def test_lists_become_files_and_back() -> None:
    """All communicators have the same decisions, so that both say the same."""
    listed = ADJUST.parse("export I_MPI_ADJUST_BCAST='3:0-10;1:11-20;4'\n", "f", "2021.15")
    file = JSON.parse(JSON.convert(listed, "2021.15").text, "f", "2021.15")
    again = ADJUST.convert(file, "2021.15")
    assert "I_MPI_ADJUST_BCAST='3:0-10;1:11-20;4'" in again.text
    assert again.notes == ()


def test_a_file_by_communicators_is_no_list() -> None:
    """The collective is left to the library, and the note has the line."""
    file = JSON.parse(JSON.write(TABLE, "2021.15").text, "f", "2021.15")
    converted = ADJUST.convert(file, "2021.15")
    assert "BCAST" not in converted.text
    assert any(note.startswith("line 5: bcast is left") for note in converted.notes)


def test_presets_between_releases(subtests: pytest.Subtests) -> None:
    """Only numbers that may mean the same are kept, and what is not known is told."""
    for line, source, target, kept, note in (
        ("ALLTOALL='2'", "2021.15", "2021.18.1", False, "renumbered in 2021.18"),
        ("ALLTOALL='2'", "2021.6", "2021.15", True, "no document says"),
        ("BCAST='20'", "2021.15", "2021.6", False, "has no preset 20"),
        ("BCAST='2'", "2019.9", "2021.6", False, "2019 and 2021 differ"),
        ("BCAST='0'", "2019.9", "2021.6", True, "no document says"),
        ("BCAST='99'", "2021.15", "2021.15", True, ""),
        ("ALLGATHER='5'", "2021.15", "2021.15", False, "different types"),
        ("BCAST='x'", "2021.15", "2021.15", False, "left out"),
    ):
        with subtests.test(line=line, source=source):
            parsed = ADJUST.parse(f"I_MPI_ADJUST_{line}\n", "f", source)
            converted = JSON.convert(parsed, target)
            assert ("coll=" in converted.text) is kept
            assert note in " ".join(converted.notes)
            assert all(each.startswith("line 1: ") for each in converted.notes)


def test_files_that_say_nothing_are_not_converted() -> None:
    """A dropped one, one that ends programs, and one of another library."""
    for text in ("", '{"coll=Bcast": {}}'):
        with refused("not-expressed-for-intel", LibraryError):
            JSON.convert(JSON.parse(text, "f", "2021.15"), "2021.15")


def test_the_list_that_was_written_is_its_own_activation(tmp_path: Path) -> None:
    """Its variables; before it is written, none."""
    path = tmp_path / "list.sh"
    assert ADJUST.activation("2021.15", {"": str(path)}) == {}
    path.write_text(ADJUST.write(TABLE, "2021.15").text, encoding="utf-8")
    variables = ADJUST.activation("2021.15", {"": str(path)})
    assert variables["I_MPI_ADJUST_BCAST"] == "3:0-1023;1"


def test_a_user_who_tunes_is_left_alone() -> None:
    """One variable of his own withholds all of ours; the same value, or others, do not."""
    ours = {"I_MPI_TUNING": "/f"}
    mpi = library("intelmpi")
    assert mpi.user_overrides(ours, of_environment({"I_MPI_FABRICS": "shm"})).environment == ours
    assert mpi.user_overrides(ours, of_environment({"I_MPI_TUNING": "/f"})).reason == ""
    for name in ("I_MPI_ADJUST_BCAST", "I_MPI_TUNING", "I_MPI_TUNING_BIN", "I_MPI_TUNING_MODE"):
        honoured = mpi.user_overrides(ours, of_environment({name: "3"}))
        assert honoured.environment == {}
        assert name in honoured.reason


def test_a_call_beyond_two_gibibytes() -> None:
    """The library reads no larger ends: its built-in logic runs there, and a note says so."""
    written = JSON.write(TABLE, "2021.15")
    parsed = JSON.parse(written.text, "f", "2021.15")
    found = [
        parsed.decide(Call(C.SCATTER, 8, m, 2)).configuration.algorithm for m in (1 << 30, 1 << 31)
    ]
    assert found == ["preset1", "default"]
    assert any("no ends beyond 2147483647" in note for note in written.notes)
