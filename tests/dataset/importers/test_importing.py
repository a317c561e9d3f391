"""Files imported together, and into what is there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset import read_parquet
from colltune.dataset.importers.importing import ImportedFiles, import_files
from colltune.dataset.parquet import append_dataset
from colltune.errors import DataError
from tests.dataset.importers.samples import CONTEXT, CSV, IMB, OSU, REPROMPI, SHAPE, request

TOLD = CONTEXT | SHAPE
OTHER_SIZES = OSU.replace("\n8 ", "\n16 ").replace("\n1024 ", "\n2048 ")


def _file(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def _import(
    folder: Path, *files: Path, format_: str | None = None, **settings: str
) -> ImportedFiles:
    return import_files(files, request(TOLD | settings), format_, folder / "data")


def _stored(folder: Path, *files: Path, **settings: str) -> Path:
    imported = _import(folder, *files, **settings)
    return append_dataset(folder / "data", imported.dataset, imported.facts)


def test_files_become_one_dataset_with_their_provenance(tmp_path: Path) -> None:
    """Each file is a launch; names, digests, header and what the time means are kept."""
    files = (_file(tmp_path, "a", OSU), _file(tmp_path, "b", OTHER_SIZES))
    imported = _import(tmp_path, *files)
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
        with pytest.raises(DataError, match="b: was imported already") as caught:
            _import(tmp_path, again, **settings)
        assert str(stored) in str(caught.value)
    with pytest.raises(DataError, match="has the same content as"):
        _import(tmp_path, again, _file(tmp_path, "c", OSU))


def test_the_rest_of_a_file_can_follow(tmp_path: Path) -> None:
    """What --where left out the first time is no second import."""
    file = _file(tmp_path, "a", OSU + OSU.replace("Broadcast", "Reduce"))
    for collective in ("bcast", "reduce"):
        asked = request(TOLD, where={"collective": collective})
        imported = import_files([file], asked, None, tmp_path / "data")
        append_dataset(tmp_path / "data", imported.dataset, imported.facts)
    assert len(read_parquet(tmp_path / "data")) == 4


def test_another_context_is_refused(tmp_path: Path) -> None:
    """Measurements of another machine do not go into a dataset."""
    _stored(tmp_path, _file(tmp_path, "a", OSU))
    with pytest.raises(DataError, match="different contexts are not joined"):
        _import(tmp_path, _file(tmp_path, "b", OTHER_SIZES), machine="jupiter")


def test_means_over_ranks_beside_other_times_are_told(tmp_path: Path) -> None:
    """A dataset that already has maxima over ranks gets a remark, not a refusal."""
    _stored(tmp_path, _file(tmp_path, "a", REPROMPI))
    mean = "# OSU MPI Reduce Latency Test v7.4\n# Size  Avg Latency(us)\n8 1.0\n"
    (remark,) = _import(tmp_path, _file(tmp_path, "b", mean)).remarks
    assert "keep them in a dataset of their own" in remark
    assert _import(tmp_path, _file(tmp_path, "c", IMB)).remarks == (
        f"{tmp_path}/c: 0 bytes: costs a call and no communication; left out",
    )


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    """Different formats, different kinds of times, or the same cells of the same launch."""
    osu = _file(tmp_path, "a", OSU)
    with pytest.raises(DataError, match=r"different formats: .*a \(osu\), .*b \(imb\)"):
        _import(tmp_path, osu, _file(tmp_path, "b", IMB))
    mean = "# OSU MPI Reduce Latency Test v7.4\n# Size  Avg Latency(us)\n8 1.0\n"
    with pytest.raises(DataError, match="whose times are not comparable"):
        _import(tmp_path, osu, _file(tmp_path, "c", mean))
    slower = _file(tmp_path, "d", OSU.replace("3.00        1000", "3.50        1000"))
    asked = request(TOLD, launch="job7")
    with pytest.raises(DataError, match="give repeated launches different names"):
        import_files([osu, slower], asked, None, tmp_path / "data")


def test_mixed_and_unknown_formats_are_refused(tmp_path: Path) -> None:
    """Output of two programs in a file, of another one than told, or of none."""
    both = _file(tmp_path, "a", OSU + IMB)
    message = r"mixes output of OSU Micro-Benchmarks \(line 3\) and Intel MPI Benchmarks \(line 10"
    for told in (None, "osu"):
        with pytest.raises(DataError, match=message):
            _import(tmp_path, both, format_=told)
    with pytest.raises(DataError, match=r"is output of OSU .*give --format osu"):
        _import(tmp_path, _file(tmp_path, "b", OSU), format_="imb")
    with pytest.raises(DataError, match="of no known format; --format takes one of reprompi"):
        _import(tmp_path, _file(tmp_path, "c", "time 3\n"))
    with pytest.raises(DataError, match="--format xml: unknown; known: reprompi, osu, imb"):
        _import(tmp_path, both, format_="xml")
    with pytest.raises(DataError, match=f"{tmp_path}: a folder; name the files in it"):
        _import(tmp_path, tmp_path)
    with pytest.raises(DataError, match="none: no such file"):
        _import(tmp_path, tmp_path / "none")


def test_a_csv_takes_a_launch_too(tmp_path: Path) -> None:
    """Any file with commas is a CSV; --launch names its launch."""
    file = _file(tmp_path, "table.txt", CSV)
    imported = import_files([file], request({}, launch="job7"), None, tmp_path / "data")
    assert (imported.format, set(imported.dataset.frame["launch"])) == ("csv", {"job7"})
