"""Adds measurements to a dataset's folder once, however often they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from colltune.dataset.frame import CELL_COLUMNS, PerformanceDataset
from colltune.dataset.parquet import append_dataset, read_context
from colltune.errors import ConflictError, DataError
from colltune.files import locked

_KEY = [*CELL_COLUMNS, "launch"]
_LOCK = ".import.lock"


def add_once(
    folder: Path, dataset: PerformanceDataset, facts: Mapping[str, str], digest: str
) -> tuple[Path, bool]:
    """Add `dataset` as one new file of `folder`; return the file, and whether it is new.

    Parameters
    ----------
    folder
        The dataset's; made as needed. Its first file decides on its context.
    dataset
        What is added.
    facts
        Its provenance.
    digest
        Hexadecimal digits that tell what was sent from all else. What was added with the same ones
        is not added again.
    """
    name = f"received-{digest[:32]}.parquet"
    with locked(folder / _LOCK):
        if (folder / name).exists():
            return folder / name, False
        _refuse_other_context(folder, dataset)
        _refuse_known_cells(folder, dataset)
        return append_dataset(folder, dataset, facts, name), True


def _refuse_other_context(folder: Path, dataset: PerformanceDataset) -> None:
    first = min(folder.glob("*.parquet"), default=None)
    if first is None:
        return
    there = read_context(first)
    if there != dataset.context:
        raise ConflictError(
            f"these are measurements of {dataset.context}, and the dataset has those of {there};"
            " different contexts are never joined: send them to the service of that machine and"
            " release"
        )


def _refuse_known_cells(folder: Path, dataset: PerformanceDataset) -> None:
    """Refuse what would make the whole folder unreadable; only files of a launch are read."""
    launches = pa.array(dataset.frame["launch"].unique())
    new = pd.MultiIndex.from_frame(dataset.frame[_KEY])
    for file in sorted(folder.glob("*.parquet")):
        try:
            there = pq.read_table(file, columns=_KEY, filters=[("launch", "in", launches)])
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{file}: damaged ({error}); remove it to go on") from error
        if not there.num_rows:
            continue
        stored = there.to_pandas()
        both = stored[pd.MultiIndex.from_frame(stored).isin(new)]
        if len(both):
            raise ConflictError(_told(both.iloc[0], len(both)))


def _told(row: pd.Series[str], number: int) -> str:
    return (
        f"{number} cells of the same launch are in the dataset already, the first is"
        f" {row['collective']} {row['algorithm']} {row['parameters']} on"
        f" {row['nodes']}x{row['ppn']}, {row['msize_bytes']} bytes, launch {row['launch']!r};"
        " give repeated launches different names, in the column launch or with ?launch=NAME"
    )
