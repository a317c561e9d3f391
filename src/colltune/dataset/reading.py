"""Reads any dataset by what it is: a folder or file of Parquet, or a tidy CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colltune.dataset.frame import PerformanceDataset, join
from colltune.dataset.parquet import read_parquet
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


def _read_one(path: Path, where: Mapping[str, str]) -> PerformanceDataset:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix == ".parquet":
        return read_parquet(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return read_csv(path, where=where)
    raise DataError(f"{path}: not a dataset; expected a folder, .parquet, .csv or .csv.gz")
