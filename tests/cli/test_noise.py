"""`colltune data noise`."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset, append, write_csv
from tests.cli.conftest import Verb
from tests.dataset.noise.simulated import CONTEXT, Machine, simulate

_PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def simulated() -> PerformanceDataset:
    """Return measurements in two allocations with 5 % between launches, 10 % between those."""
    machine = Machine(
        within=0.03, launch=0.05, allocation=0.1, allocations=2, launches=3, reps=40, msizes=12
    )
    return simulate(machine)[0]


@pytest.fixture(scope="module")
def folder(simulated: PerformanceDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset folder with the allocation of each launch in its provenance."""
    path = tmp_path_factory.mktemp("noise") / "dataset"
    by_launch: dict[str, list[object]] = {}
    for measurement in simulated.measurements():
        by_launch.setdefault(measurement.launch, []).append(measurement)
    for launch, measurements in by_launch.items():
        append(path, CONTEXT, measurements, {"allocation": launch[0]})  # type: ignore[arg-type]
    return path


def test_allocations_come_from_the_provenance(colltune: Verb, folder: Path) -> None:
    """Launches that recorded the same allocation are compared within it."""
    overall = colltune("data", "noise", folder, "--json").json["overall"]
    assert (overall["launches"], overall["allocations"]) == (6, 2)
    assert overall["between_launches"]["sd"] == pytest.approx(0.05, rel=0.4)
    assert overall["between_allocations"]["sd"] == pytest.approx(0.1, rel=0.4)


def test_text_tells_the_components_and_what_they_mean(colltune: Verb, folder: Path) -> None:
    """Each group has a row; the smallest detectable difference and its remedy are spelled out."""
    answer = colltune("data", "noise", folder)
    assert answer.status == 0
    rows = [line.split()[0] for line in answer.out.splitlines() if line.strip()]
    assert {"all", "bcast"} <= set(rows)
    assert "cannot be told apart" in answer.out
    assert "To detect 5 %" in answer.out
    assert "not recorded" not in answer.out
    assert "Larger differences may be noise, too" not in answer.out


def test_csv_launches_are_allocations_unless_a_pattern_tells(
    colltune: Verb, simulated: PerformanceDataset, tmp_path: Path
) -> None:
    """What is assumed of a CSV file's launches is said, and can be put right."""
    path = tmp_path / "data.csv.gz"
    write_csv(simulated, path)
    assumed = colltune("data", "noise", path)
    assert "allocations of 6 launches are not recorded" in assumed.out
    assert "* includes the noise between launches" in assumed.out
    told = colltune("data", "noise", path, "--allocation", "([^/]*)/", "--json").json
    assert told["overall"]["allocations"] == 2
    assert told["overall"]["within"]["raw_share"] == 0
    assert told["overall"]["between_launches"]["sd"] == pytest.approx(0.05, rel=0.5)


def test_picture_is_drawn(
    colltune: Verb, folder: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """A picture is drawn of raw repetitions, and of a file that tells next to nothing."""
    for number, data in enumerate((folder, measurements_csv)):
        picture = tmp_path / f"{number}.png"
        assert colltune("data", "noise", data, "--picture", picture).status == 0
        assert picture.read_bytes().startswith(_PNG)


def test_single_times_are_said_to_tell_nothing(colltune: Verb, measurements_csv: Path) -> None:
    """A CSV with one time per cell has unknown components, no zeros."""
    answer = colltune("data", "noise", measurements_csv)
    assert answer.status == 0
    assert "0.0 %" not in answer.out
    assert "No cell was measured twice" in answer.out
    assert "noisiest" not in answer.out
    assert "neither repetitions nor p90" in answer.out
    assert "measure again in another job" in answer.out


def test_bad_requests_are_named(colltune: Verb, folder: Path) -> None:
    """Each kind of mistake has its exit status and a message with the mend."""
    for words, status, message in (
        (("--allocation", "(["), 3, "regular expression"),
        (("--picture", "/proc/nowhere/n.png"), 9, "writable place"),
        (("--where", "nodes"), 3, "NAME=VALUE"),
    ):
        answer = colltune("data", "noise", folder, *words)
        assert (answer.status, answer.out) == (status, ""), words
        assert message in answer.err, words
