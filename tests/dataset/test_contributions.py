"""Adding measurements once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset, append, read_parquet
from colltune.dataset.parquet import read_provenance
from colltune.dataset.received import add_once
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import ConflictError, DataError, OutputError

CONTEXT = Context("hydra", "openmpi", "4.1.4")


def _dataset(launch: str, msize: int = 8, context: Context = CONTEXT) -> PerformanceDataset:
    measurement = Measurement(
        Instance(Collective.BCAST, Shape(4, 2), msize),
        Configuration("openmpi", Collective.BCAST, "chain"),
        launch,
        RunStatus.OK,
        (2e-6, 1e-6, 3e-6),
    )
    return PerformanceDataset.of(context, [measurement])


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    """The second time the file that is there is returned, and nothing is written."""
    first = add_once(tmp_path / "d", _dataset("a"), {"received_from": "ci"}, "ab" * 32)
    again = add_once(tmp_path / "d", _dataset("a"), {"received_from": "eve"}, "ab" * 32)
    assert (first[1], again) == (True, (first[0], False))
    assert read_provenance(first[0]) == {"received_from": "ci"}
    assert len(read_parquet(tmp_path / "d")) == 1


def test_another_context_is_a_conflict(tmp_path: Path) -> None:
    """Neither file is wrong, but they are never joined; the message names both contexts."""
    add_once(tmp_path, _dataset("a"), {}, "aa" * 32)
    other = Context("hydra", "openmpi", "5.0.8")
    with pytest.raises(ConflictError, match=r"openmpi 5.0.8, and the dataset has .*4.1.4"):
        add_once(tmp_path, _dataset("b", context=other), {}, "bb" * 32)
    assert len(read_parquet(tmp_path)) == 1


def test_a_known_cell_of_the_same_launch_is_a_conflict(tmp_path: Path) -> None:
    """It would make the whole dataset unreadable; another size, or another launch, is welcome."""
    append(tmp_path, CONTEXT, _dataset("a").measurements(), {})
    with pytest.raises(ConflictError, match="1 cells of the same launch"):
        add_once(tmp_path, _dataset("a"), {}, "aa" * 32)
    add_once(tmp_path, _dataset("a", msize=16), {}, "bb" * 32)
    add_once(tmp_path, _dataset("b"), {}, "cc" * 32)
    assert len(read_parquet(tmp_path)) == 3


def test_the_same_content_from_many_at_once_is_stored_once(tmp_path: Path) -> None:
    """One of them is told that it is new."""
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(add_once, tmp_path, _dataset("a"), {}, "aa" * 32) for _ in range(8)]
    assert sum(result.result()[1] for result in results) == 1
    assert len(read_parquet(tmp_path)) == 1


def test_a_damaged_file_that_is_there_is_named(tmp_path: Path) -> None:
    """Nothing is added to a dataset that could not be read."""
    file = append(tmp_path, CONTEXT, _dataset("a").measurements(), {})
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match=str(file)):
        add_once(tmp_path, _dataset("b"), {}, "aa" * 32)


def test_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A file in the folder's place is one error."""
    (tmp_path / "d").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        add_once(tmp_path / "d", _dataset("a"), {}, "aa" * 32)
