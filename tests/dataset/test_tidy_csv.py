"""Tidy CSV in and out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from colltune.dataset import PerformanceDataset, read, read_csv, write_csv
from colltune.errors import DataError
from tests.refusals import refused

HEADER = (
    "machine,library,library_version,collective,algorithm,segsize_bytes,nodes,ppn,msize_bytes,"
    "launch,n_reps,time_s,time_mean_s\n"
)
GOOD = "leo,openmpi,4.1.6,bcast,chain,4096,4,1,8,j/0,16000,4.08e-06,4.1e-06\n"


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data.csv"
    path.write_text(text)
    return path


def _refused(tmp_path: Path, text: str, code: str) -> None:
    with refused(code, DataError):
        read_csv(_write(tmp_path, text))


def test_rows_become_measurements(tmp_path: Path) -> None:
    """Context, configuration, instance and statistics are taken from the columns."""
    dataset = read_csv(_write(tmp_path, HEADER + GOOD))
    (only,) = dataset.measurements()
    assert str(dataset.context) == "leo, openmpi 4.1.6"
    assert only.configuration.id == "openmpi.bcast.chain:segsize=4096"
    assert (only.instance.shape.nodes, only.instance.msize_bytes) == (4, 8)
    assert only.summary is not None
    assert (only.summary.n_reps, only.summary.time_s) == (16000, 4.08e-06)


def test_round_trip_through_gzip(tmp_path: Path) -> None:
    """A dataset written as CSV, compressed too, is read back the same."""
    dataset = read_csv(_write(tmp_path, HEADER + GOOD + GOOD.replace(",8,", ",16,")))
    out = tmp_path / "out.csv.gz"
    write_csv(dataset, out)
    assert gzip.decompress(out.read_bytes()).startswith(b"machine,")
    again = read([out])
    assert again.context == dataset.context
    pd.testing.assert_frame_equal(again.frame, dataset.frame)


def test_columns_can_be_mapped(tmp_path: Path) -> None:
    """Foreign names, units and missing context are mended by mapping, unit and constants."""
    path = _write(tmp_path, "coll,alg,n,ppn,bytes,us\nbcast,default,4,2,8,5.0\n")
    mapped = {
        "collective": "coll",
        "algorithm": "alg",
        "nodes": "n",
        "msize_bytes": "bytes",
        "time_s": "us",
    }
    constants = {"machine": "m", "library": "openmpi", "library_version": "4.1.4"}
    dataset = read_csv(path, columns=mapped, constants=constants, time_unit="us")
    assert dataset.frame["time_s"].tolist() == pytest.approx([5e-6])
    with refused("no-column-mapped", DataError, theirs="nope"):
        read_csv(path, columns={"nodes": "nope"})
    with refused("unknown", DataError, what="time unit"):
        read_csv(path, time_unit="h")


def test_missing_column_is_named_with_the_mend(tmp_path: Path) -> None:
    """A missing column is named together with the option that gives it."""
    _refused(tmp_path, "collective,time_s\nbcast,1\n", "missing-column first=machine")


def test_impossible_time_names_its_line(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A time that is not positive is refused with file, line and column."""
    for time in ("0", "-1e-6", "abc", "", "nan", "inf"):
        with subtests.test(time=time):
            second = GOOD.replace(",8,", ",16,").replace("4.08e-06", time)
            _refused(tmp_path, HEADER + GOOD + second, "wrong-cell column=time_s")


def test_malformed_value_names_its_column(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Every malformed value is refused with its line and column."""
    for old, new, column in (
        ("bcast", "bkast", "collective"),
        (",4,1,", ",0,1,", "nodes"),
        (",4,1,", ",4.5,1,", "nodes"),
        (",8,", ",-8,", "msize_bytes"),
        ("4096", "4k", "segsize_bytes"),
        ("chain", " ", "algorithm"),
    ):
        with subtests.test(old=old, new=new, column=column):
            _refused(tmp_path, HEADER + GOOD.replace(old, new), f"wrong-cell column={column}")


def test_duplicate_cells_are_refused(tmp_path: Path) -> None:
    """The same cell twice in one launch is an error that names it."""
    _refused(tmp_path, HEADER + GOOD + GOOD, "duplicate-cells row=2")


def test_mixed_machines_are_refused_unless_one_is_kept(tmp_path: Path) -> None:
    """Several contexts in a file are refused; --where keeps one."""
    text = HEADER + GOOD + GOOD.replace("leo", "mn5")
    _refused(tmp_path, text, "several-contexts column=machine value=leo")
    kept = read_csv(tmp_path / "data.csv", where={"machine": "mn5"})
    assert kept.context.machine == "mn5"
    with refused("no-row-has", DataError, column="machine"):
        read_csv(tmp_path / "data.csv", where={"machine": "x"})


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    """A missing, empty or damaged file is named."""
    with refused("no-such-data", DataError):
        read([tmp_path / "none.csv"])
    _refused(tmp_path, "", "not-csv")
    _refused(tmp_path, HEADER, "no-rows")
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress((HEADER + GOOD * 50).encode())[:60])
    with refused("not-csv", DataError):
        read([cut])
    odd = tmp_path / "data.xlsx"
    odd.write_text("x")
    with refused("not-a-dataset", DataError):
        read([odd])


def test_shifted_columns_and_empty_context_are_refused(tmp_path: Path) -> None:
    """Rows with a field too many never shift into each other, and a context is never blank."""
    _refused(tmp_path, HEADER + GOOD.replace("leo", "leo,x"), "not-csv")
    _refused(tmp_path, HEADER + GOOD.replace("leo", ""), "empty-column column=machine")


def test_failed_rows_need_no_time(tmp_path: Path) -> None:
    """A row whose status is a failure is kept, without a time."""
    header = HEADER.replace("launch,", "launch,status,")
    row = GOOD.replace("j/0,", "j/0,timeout,").replace("4.08e-06,4.1e-06", ",")
    dataset: PerformanceDataset = read_csv(_write(tmp_path, header + row))
    assert dataset.frame["status"].tolist() == ["timeout"]
    assert dataset.cells().empty
