"""Reads any dataset by what it is: a folder or file of Parquet, or a tidy CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colltune.dataset.frame import PerformanceDataset, join
from colltune.dataset.parquet import read_parquet, read_provenances
from colltune.dataset.tidy_csv import read_csv
from colltune.errors import DataError


def read(paths: Sequence[Path], where: Mapping[str, str] | None = None) -> PerformanceDataset:
    """Read and join the datasets at `paths` (folder, ``.parquet``, ``.csv``, ``.csv.gz``).

    `where` keeps the CSV rows whose columns have the given values, ``{"machine": "hydra"}``.

    Raises
    ------
    DataError
        If a path is missing, of no known kind, or cannot be read or joined.
    """
    return join([_read_one(path, where or {}) for path in paths])


def read_launch_provenances(paths: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Return what the datasets at `paths` know of each launch, by its name; CSV files know nothing.

    Raises
    ------
    DataError
        If a Parquet file is damaged or not one of colltune.
    """
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        if path.is_dir() or path.suffix == ".parquet":
            found = read_provenances(path) | found
    return found


def _read_one(path: Path, where: Mapping[str, str]) -> PerformanceDataset:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix == ".parquet":
        return read_parquet(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return read_csv(path, where=where)
    raise DataError(f"{path}: not a dataset; expected a folder, .parquet, .csv or .csv.gz")
