"""Files imported together, and into what is there already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.dataset import read_parquet
from colltune.dataset.importers.importing import ImportedFiles, add_to, import_files
from colltune.errors import DataError
from tests.dataset.importers.samples import CONTEXT, CSV, IMB, OSU, REPROMPI, SHAPE, request
from tests.refusals import refused

TOLD = CONTEXT | SHAPE
OTHER_SIZES = OSU.replace("\n8 ", "\n16 ").replace("\n1024 ", "\n2048 ")


def _file(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


OSU_TABLE = "# OSU MPI {} Latency Test v7.4\n# Size  {}\n"
MEAN = "Avg Latency(us)\n8 1.0"
MEDIAN = "Avg Latency(us)  P50 Tail Lat(us)\n8 1.0 1.0"


def _import(*files: Path, format_: str | None = None, **settings: str) -> ImportedFiles:
    return import_files(files, request(TOLD | settings), format_)


def _stored(folder: Path, *files: Path, **settings: str) -> Path:
    return add_to(folder / "data", _import(*files, **settings))


def test_files_become_one_dataset_with_their_provenance(tmp_path: Path) -> None:
    """Each file is a launch; names, digests, header and what the time means are kept."""
    files = (_file(tmp_path, "a", OSU), _file(tmp_path, "b", OTHER_SIZES))
    imported = _import(*files)
    assert imported.format == "osu"
    assert imported.dataset.frame["launch"].tolist() == ["a", "a", "b", "b"]
    assert imported.facts["imported_from"] == "a, b"
    assert imported.facts["imported.benchmark"] == "MPI Broadcast Latency 7.4"
    assert imported.facts["imported_time"].startswith("maximum over ranks")
    assert [len(digest) for digest in imported.facts["imported_sha256"].split()] == [64, 64]


def test_the_same_file_is_imported_once(tmp_path: Path) -> None:
    """Under another name, launch or configuration it is recognised by content and refused."""
    stored = _stored(tmp_path, _file(tmp_path, "a", OSU))
    again = _file(tmp_path, "b", OSU)
    for settings in ({}, {"configuration": "openmpi.bcast.chain"}):
        with refused("already-imported", DataError) as caught:
            _stored(tmp_path, again, **settings)
        assert str(stored) in str(caught.value)
    with refused("same-content", DataError):
        _import(again, _file(tmp_path, "c", OSU))


def test_the_same_file_twice_at_once_is_imported_once(tmp_path: Path) -> None:
    """Of several imports at the same time one wins and the others are refused."""
    imported = _import(_file(tmp_path, "a", OSU))

    def add(_: int) -> bool:
        try:
            add_to(tmp_path / "data", imported)
        except DataError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(add, range(4))) == [False, False, False, True]
    assert len(read_parquet(tmp_path / "data")) == 2


def test_the_rest_of_a_file_can_follow(tmp_path: Path) -> None:
    """What --where left out the first time is no second import."""
    file = _file(tmp_path, "a", OSU + OSU.replace("Broadcast", "Reduce"))
    for collective in ("bcast", "reduce"):
        asked = request(TOLD, where={"collective": collective})
        add_to(tmp_path / "data", import_files([file], asked, None))
    assert len(read_parquet(tmp_path / "data")) == 4


def test_what_does_not_fit_the_dataset_is_refused(tmp_path: Path) -> None:
    """Another machine's measurements, or further ones of the same launch, stay out."""
    _stored(tmp_path, _file(tmp_path, "a", OSU))
    with refused("contexts-differ", DataError):
        _stored(tmp_path, _file(tmp_path, "b", OTHER_SIZES), machine="jupiter")
    folder = tmp_path / "next"
    folder.mkdir()
    slower = _file(folder, "a", OSU.replace("3.00        1000", "3.50        1000"))
    with refused("duplicate-cells", DataError):
        _stored(tmp_path, slower)
    add_to(tmp_path / "data", import_files([slower], request(TOLD, launch="next"), None))
    assert len(read_parquet(tmp_path / "data")) == 4


@pytest.mark.parametrize("columns", [MEAN, MEDIAN])
def test_times_that_do_not_compare_are_refused_before_they_are_written(
    tmp_path: Path, columns: str
) -> None:
    """Means over ranks beside maxima would always win, and so would one mean beside the other."""
    _stored(tmp_path, _file(tmp_path, "a", REPROMPI))
    mean = _import(_file(tmp_path, "b", OSU_TABLE.format("Reduce", columns)))
    other = OSU_TABLE.format("Gather", MEDIAN if columns == MEAN else MEAN)
    add_to(tmp_path / "means", _import(_file(tmp_path, "c", other)))
    for folder in ("data", "means"):
        before = sorted((tmp_path / folder).glob("*.parquet"))
        with refused("not-comparable-with-dataset", DataError):
            add_to(tmp_path / folder, mean)
        assert sorted((tmp_path / folder).glob("*.parquet")) == before


def test_times_that_compare_come_into_one_dataset(tmp_path: Path) -> None:
    """Of the same kind, or all of the slowest rank in some way."""
    latency = "# OSU MPI Reduce Latency Test v7.4\n# Size  Latency (us)\n8 1.0\n"
    maxima = IMB.replace("Bcast", "Reduce")
    for folder, texts in {
        "a": (IMB, maxima),
        "b": (latency, latency.replace("Reduce", "Gather")),
    }.items():
        for number, text in enumerate(texts):
            add_to(tmp_path / folder, _import(_file(tmp_path, f"{folder}{number}", text)))
        assert len(list((tmp_path / folder).glob("*.parquet"))) == 2


def test_files_of_the_same_name_are_launches_of_their_own(tmp_path: Path) -> None:
    """Where names are the same the folder's is put before them."""
    files: list[Path] = []
    for folder in (tmp_path / "run1", tmp_path / "run2"):
        folder.mkdir()
        files.append(_file(folder, "out.txt", OSU.replace("5.00 ", f"5.0{len(files)} ")))
    launches = _import(*files).dataset.frame["launch"]
    assert list(dict.fromkeys(launches)) == ["run1/out.txt", "run2/out.txt"]


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    """Different formats, different kinds of times, or the same cells of the same launch."""
    osu = _file(tmp_path, "a", OSU)
    with refused("formats-differ", DataError):
        _import(osu, _file(tmp_path, "b", IMB))
    mean = "# OSU MPI Reduce Latency Test v7.4\n# Size  Avg Latency(us)\n8 1.0\n"
    with refused("kinds-differ", DataError):
        _import(osu, _file(tmp_path, "c", mean))
    slower = _file(tmp_path, "d", OSU.replace("3.00        1000", "3.50        1000"))
    asked = request(TOLD, launch="job7")
    with refused("duplicate-cells", DataError):
        import_files([osu, slower], asked, None)


def test_mixed_and_unknown_formats_are_refused(tmp_path: Path) -> None:
    """Output of two programs in a file, of another one than told, or of none."""
    both = _file(tmp_path, "a", OSU + IMB)
    message = "mixed-formats"
    for told in (None, "osu"):
        with refused(message, DataError):
            _import(both, format_=told)
    with refused("other-format", DataError, name="osu"):
        _import(_file(tmp_path, "b", OSU), format_="imb")
    with refused("unknown-format", DataError):
        _import(_file(tmp_path, "c", "time 3\n"))
    with refused("unknown", DataError, what="--format", name="xml"):
        _import(both, format_="xml")
    with refused("is-a-folder", DataError, path=tmp_path):
        _import(tmp_path)
    with refused("no-such-data", DataError, path=tmp_path / "none"):
        _import(tmp_path / "none")


def test_a_csv_takes_a_launch_and_a_configuration_too(tmp_path: Path) -> None:
    """Any file with commas is a CSV; what is told holds for all its rows, or is refused."""
    file = _file(tmp_path, "table.txt", CSV)
    told = {"configuration": "openmpi.bcast.chain:fanout=4"}
    imported = import_files([file], request(told, launch="job7"), None)
    frame = imported.dataset.frame
    assert (imported.format, set(frame["launch"])) == ("csv", {"job7"})
    assert set(frame["algorithm"] + ":" + frame["parameters"]) == {"chain:fanout=4"}
    with refused("configuration-does-not-fit", DataError):
        import_files([file], request({"configuration": "openmpi.reduce.chain"}), None)


def test_what_is_read_is_told(tmp_path: Path) -> None:
    """Mebibytes of all files, each by name, from nothing to the last."""
    more = "# filler\n" * 300_000
    files = (_file(tmp_path, "a", OSU + more), _file(tmp_path, "b", OTHER_SIZES + more))
    told: list[tuple[int, int, str]] = []
    import_files(files, request(TOLD), None, lambda *what: told.append(what))
    assert told[0] == (0, 5, str(files[0]))
    assert told[-1][1:] == (5, str(files[1]))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert {done for done, _, _ in told} >= {0, 1, 2, 3, 4}
