"""Reads any dataset by what it is: a folder or file of Parquet, or a tidy CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colltune.dataset.frame import PerformanceDataset, join
from colltune.dataset.parquet import local_copy, read_parquet, read_provenances
from colltune.dataset.tidy_csv import read_csv
from colltune.errors import DataError
from colltune.files.remote import url_of


def read(paths: Sequence[Path | str], where: Mapping[str, str] | None = None) -> PerformanceDataset:
    """Read and join the datasets at `paths` (folder, ``.parquet``, ``.csv``, ``.csv.gz``).

    A folder or file of Parquet may also be the URL of an object store, ``s3://bucket/data``, given
    as text or as the `Path` that a command line made of it.

    `where` keeps the CSV rows whose columns have the given values, ``{"machine": "hydra"}``.

    Raises
    ------
    DataError
        If a path is missing, of no known kind, or cannot be read or joined.
    """
    return join([_read_one(path, where or {}) for path in paths])


def read_launch_provenances(paths: Sequence[Path | str]) -> dict[str, dict[str, str]]:
    """Return what Parquet datasets at `paths` know of each launch, by its name."""
    found: dict[str, dict[str, str]] = {}
    for given in paths:
        url, path = url_of(given), Path(given)
        if url is not None:
            with local_copy(url) as folder:
                found = read_provenances(folder) | found
        elif path.is_dir() or path.suffix == ".parquet":
            found = read_provenances(path) | found
    return found


def _read_one(given: Path | str, where: Mapping[str, str]) -> PerformanceDataset:
    url, path = url_of(given), Path(given)
    if url is not None:
        with local_copy(url) as folder:
            return read_parquet(folder)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix == ".parquet":
        return read_parquet(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return read_csv(path, where=where)
    raise DataError(f"{path}: not a dataset; expected a folder, .parquet, .csv or .csv.gz")
