"""`colltune data import` of benchmarks' output."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset import read
from colltune.dataset.parquet import read_provenance
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import DataError, LibraryError
from colltune.mpi.known_algorithms import KnownAlgorithms
from tests.cli.conftest import Answer, Verb
from tests.dataset.importers.samples import CSV, DETAIL, OSU
from tests.refusals import refused

TOLD = {"machine": "hydra", "library": "openmpi", "library_version": "4.1.6"}
TOLD |= {"nodes": "4", "ppn": "2"}


def _sets(**settings: str) -> list[str]:
    pairs = (TOLD | settings).items()
    return [word for name, value in pairs for word in ("--set", f"{name}={value}")]


def _imported(colltune: Verb, folder: Path, text: str, *words: str, **settings: str) -> Answer:
    file = folder / "run.out"
    file.write_text(text)
    return colltune("data", "import", file, "--out", folder / "data", *_sets(**settings), *words)


def test_output_of_a_benchmark_becomes_a_dataset(colltune: Verb, tmp_path: Path) -> None:
    """Without a configuration it is the library's own decision, and the answer says so."""
    answer = _imported(colltune, tmp_path, OSU)
    assert answer.status == 0
    assert "2 rows of hydra, openmpi 4.1.6" in answer.out
    assert "the library's own decision" in answer.out
    assert "maximum over ranks of each rank's mean" in answer.out
    (file,) = (tmp_path / "data").glob("*.parquet")
    facts = read_provenance(file)
    assert (facts["imported_from"], facts["imported_format"]) == ("run.out", "osu")
    assert {"host", "time_utc", "imported_sha256"} <= set(facts)
    dataset = read([tmp_path / "data"])
    assert dataset.frame["time_s"].tolist() == pytest.approx([3e-6, 5e-6])
    assert dataset.frame["launch"].tolist() == ["run.out"] * 2


def test_the_answer_for_machines_tells_the_same(colltune: Verb, tmp_path: Path) -> None:
    """--json tells format, kind of time, configurations, statuses and remarks."""
    bad = OSU.replace("Iterations", "Iterations  Validation")
    bad = bad.replace("        1000", " 1000 Pass").replace("         500", " 500 Fail")
    configuration = "openmpi.bcast.chain:fanout=4,segsize=65536"
    words = ("--json", "--launch", "job7")
    answer = _imported(colltune, tmp_path, bad, *words, configuration=configuration)
    assert answer.json["format"] == "osu"
    assert answer.json["configurations"] == [configuration]
    assert answer.json["statuses"] == {"ok": 1, "wrong_result": 1}
    assert answer.json["remarks"] == []
    assert set(read([tmp_path / "data"]).frame["launch"]) == {"job7"}


def test_importing_twice_is_refused(colltune: Verb, tmp_path: Path) -> None:
    """The same file under another launch is refused with status 3; the data stays as it was."""
    assert _imported(colltune, tmp_path, OSU).status == 0
    twice = _imported(colltune, tmp_path, OSU, "--launch", "other")
    assert (twice.status, twice.out) == (3, "")
    assert "already imported" in twice.err
    assert len(read([tmp_path / "data"])) == 2


def test_several_csv_files_are_one_import(colltune: Verb, tmp_path: Path) -> None:
    """Files of one format go into one dataset in one step."""
    for name, size in (("a", "16"), ("b", "32")):
        (tmp_path / f"{name}.csv").write_text(
            CSV.replace(",8,", f",{size},").replace("1024", size * 2)
        )
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    answer = colltune("data", "import", *files, "--out", tmp_path / "data", "--json")
    assert (answer.status, answer.json["rows"]) == (0, 4)


def test_algorithm_numbers_become_names(colltune: Verb, tmp_path: Path) -> None:
    """A detail.out's numbers are those of the release; 0 is its own decision."""
    answer = _imported(colltune, tmp_path, DETAIL, "--json", collective="bcast")
    assert answer.json["configurations"] == [
        "openmpi.bcast.basic_linear",
        "openmpi.bcast.binomial:segsize=0",
        "openmpi.bcast.default",
    ]
    unknown = _imported(colltune, tmp_path, DETAIL, collective="bcast", library_version="3.0.0")
    assert unknown.status == 3
    assert "no catalogue of openmpi 3.0.0" in unknown.err


def test_an_unknown_configuration_is_refused(colltune: Verb, tmp_path: Path) -> None:
    """A misspelt algorithm of a release with a catalogue never gets into the data."""
    answer = _imported(colltune, tmp_path, OSU, configuration="openmpi.bcast.chian")
    assert answer.status == 8
    assert "no bcast algorithm 'chian'" in answer.err
    assert not (tmp_path / "data").exists()


def test_known_algorithms_of_a_release() -> None:
    """Spelling, numbers and feasibility come from the catalogue of the release."""
    known = KnownAlgorithms("4.1.6")
    doubling = known.configuration("openmpi", Collective.ALLGATHER, "3")
    assert doubling.id == "openmpi.allgather.recursive_doubling"
    on_six = Instance(Collective.ALLGATHER, Shape(3, 2), 8)
    assert "a power of two" in known.why_not(doubling, on_six)
    assert known.why_not(doubling, Instance(Collective.ALLGATHER, Shape(4, 2), 8)) == ""
    with pytest.raises(LibraryError, match="no allgather algorithm number 99"):
        known.configuration("openmpi", Collective.ALLGATHER, "99")


def test_of_an_unknown_library_names_are_taken_as_they_are() -> None:
    """Without a catalogue a name is a name; a number is none."""
    unknown = KnownAlgorithms("1.0")
    ring = Configuration("fjmpi", Collective.BCAST, "ring")
    assert unknown.canonical(ring) == ring
    assert unknown.configuration("fjmpi", Collective.BCAST, "ring") == ring
    assert unknown.why_not(ring, Instance(Collective.BCAST, Shape(2, 1), 8)) == ""
    with refused("number-without-name", DataError, library="fjmpi 1.0"):
        unknown.configuration("fjmpi", Collective.BCAST, "3")


def test_times_below_a_told_round_trip_are_a_status(colltune: Verb, tmp_path: Path) -> None:
    """Half of it is needed over several nodes; what is no duration is refused."""
    answer = _imported(colltune, tmp_path, OSU, "--round-trip", "8e-6", "--json")
    assert answer.json["statuses"] == {"too_fast": 1, "ok": 1}
    assert "round trip of 8e-06 s" in answer.err
    for wrong in ("0", "-1", "nan", "inf"):
        assert _imported(colltune, tmp_path, OSU, "--round-trip", wrong).status == 2, wrong


def test_rows_of_a_csv_below_a_told_round_trip_are_a_status(colltune: Verb, tmp_path: Path) -> None:
    """Whatever format told the times."""
    file = tmp_path / "old.csv"
    file.write_text(CSV)
    words = ("data", "import", file, "--out", tmp_path / "data", "--json")
    answer = colltune(*words, "--round-trip", "1.0")
    assert set(answer.json["statuses"]) == {"too_fast"}
    assert read([tmp_path / "data"]).timed().empty
