"""Datasets where they are kept: folders of Parquet files, one per launch, append-only, or CSV.

Schema history
--------------
1. columns of ``frame.COLUMNS``; file metadata ``colltune.schema_version``, ``colltune.context``
   and ``colltune.provenance`` (the latter two as JSON). Those of ``frame.RANK_COLUMNS`` came later:
   a file may lack them, and earlier releases do not look at them.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from colltune.dataset.frame import ALL_TIMES, COLUMNS, PerformanceDataset, join
from colltune.dataset.tidy_csv import read_csv
from colltune.domain import Context, Measurement
from colltune.errors import DataError, say
from colltune.files import whole
from colltune.files.reading import json_of
from colltune.files.remote import opened, url_of

_SUFFIX = ".parquet"
SCHEMA_VERSION = 1
_INTEGERS = ("nodes", "ppn", "msize_bytes", "n_reps")
_TYPES = dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(ALL_TIMES, pa.float64())
_TYPES |= {"times_s": pa.list_(pa.float64())}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in COLUMNS])
# repetitions hardly repeat, so that dictionaries of them are larger than they are themselves;
# their bytes resemble each other place by place
_STORED: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [name for name in COLUMNS if not name.startswith("time")],
    "use_byte_stream_split": [*ALL_TIMES, "times_s.list.element"],
}
Folder = TypeVar("Folder", Path, str)
"""Of this machine, or the URL of one in an object store, ``s3://bucket/data``."""


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


def _read_one(given: Path | str, where: Mapping[str, str]) -> PerformanceDataset:
    url, path = url_of(given), Path(given)
    if url is not None:
        with local_copy(url) as folder:
            return read_parquet(folder)
    if not path.exists():
        raise say("no-such-data", path=path)
    if path.is_dir() or path.suffix == _SUFFIX:
        return read_parquet(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return read_csv(path, where=where)
    raise say("not-a-dataset", path=path)


def read_parquet(path: Path) -> PerformanceDataset:
    """Read one Parquet file or a folder of them.

    `path` is that of the file or folder.

    Raises
    ------
    DataError
        If there is nothing, a file is damaged or of a newer schema, or contexts differ.
    """
    files = _files(path)
    if not files:
        raise say("no-parquet", path=path)
    return join([_read_file(file) for file in files])


def read_launch_provenances(paths: Sequence[Path | str]) -> dict[str, dict[str, str]]:
    """Return what Parquet datasets at `paths` know of each launch, by its name."""
    found: dict[str, dict[str, str]] = {}
    for given in paths:
        url, path = url_of(given), Path(given)
        if url is not None:
            with local_copy(url) as folder:
                found = read_provenances(folder) | found
        elif path.is_dir() or path.suffix == _SUFFIX:
            found = read_provenances(path) | found
    return found


def read_provenances(path: Path) -> dict[str, dict[str, str]]:
    """Return the provenance of each launch, of one in several files that of the first."""
    found: dict[str, dict[str, str]] = {}
    for file in _files(path):
        facts = read_provenance(file)
        for launch in _table(file, columns=["launch"]).column("launch").unique().to_pylist():
            found.setdefault(str(launch), facts)
    return found


def read_provenance(file: Path) -> dict[str, str]:
    return _told(file, _metadata(file), "colltune.provenance")


def append(
    folder: Path,
    context: Context,
    measurements: Iterable[Measurement],
    provenance: Mapping[str, str],
) -> Path:
    """Add one launch's measurements to the dataset `folder` as a new file and return its path.

    The file is written under a temporary name, forced to disk and renamed, so that a reader never
    sees a part of it and two writers never meet.

    `measurements` are the launch's; `provenance` are facts about it, such as hosts and binding, by
    name.

    Raises
    ------
    OutputError
        If the folder or file cannot be written.
    """
    return append_dataset(folder, PerformanceDataset.of(context, measurements), provenance)


def append_dataset(
    folder: Folder, dataset: PerformanceDataset, provenance: Mapping[str, str], name: str = ""
) -> Folder:
    """Add a whole dataset as one new file of `folder`, called `name` if given; see `append`."""
    metadata = {
        "colltune.schema_version": str(SCHEMA_VERSION),
        "colltune.context": json.dumps(dataset.context.as_json(), sort_keys=True),
        "colltune.provenance": json.dumps(dict(provenance), sort_keys=True),
    }
    table = pa.Table.from_pandas(
        dataset.frame.reindex(columns=COLUMNS), schema=SCHEMA, preserve_index=False
    )
    table = table.replace_schema_metadata(metadata)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    name = name or f"{stamp}-{secrets.token_hex(4)}{_SUFFIX}"
    if isinstance(folder, str):
        content = pa.BufferOutputStream()
        pq.write_table(table, content, **_STORED)
        return put(folder, name, content.getvalue().to_pybytes())
    with whole(folder / name) as temporary:
        pq.write_table(table, temporary, **_STORED)
    return folder / name


def put(url: str, name: str, content: bytes) -> str:
    """Write a file into the folder `url`, whole or not at all, and return its URL."""
    remote = opened(url.rstrip("/"), DataError)
    with remote.writing(name):
        remote.system.pipe_file(remote.path(name), content)
    return f"{remote.url}/{name}"


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Yield a copy of the Parquet files at `url`; what is wrong with one is blamed on its URL."""
    remote = opened(url.rstrip("/"), DataError)
    is_file = remote.url.endswith(_SUFFIX)
    with tempfile.TemporaryDirectory(prefix="colltune-") as name:
        folder = Path(name)
        try:
            with remote.reading(""):
                listed = [remote.root]
                if not is_file:
                    listed = remote.system.ls(remote.root, detail=False, refresh=True)
                found = sorted(path for path in map(str, listed) if path.endswith(_SUFFIX))
                if found:
                    targets = [str(folder / path.rpartition("/")[2]) for path in found]
                    remote.system.get(found, targets)
        except FileNotFoundError:
            raise say("no-such-data", path=remote.url) from None
        if not found:
            raise say("no-parquet", path=remote.url)
        try:
            yield folder
        except DataError as error:
            base = remote.url.rpartition("/")[0] if is_file else remote.url
            told = {n: str(v).replace(str(folder), base) for n, v in error.values.items()}
            raise DataError(str(error).replace(str(folder), base)).named(
                error.code, told
            ) from error


def _files(path: Path) -> list[Path]:
    return sorted(path.glob(f"*{_SUFFIX}")) if path.is_dir() else [path]


def _context(file: Path, metadata: Mapping[str, str]) -> Context:
    try:
        return Context(**_told(file, metadata, "colltune.context"))
    except TypeError as error:
        raise say("damaged", path=file, why=error) from error


def _told(file: Path, metadata: Mapping[str, str], key: str) -> dict[str, str]:
    try:
        return dict(json_of(metadata.get(key, "")))
    except (TypeError, ValueError) as error:
        raise say("damaged", path=file, why=f"{key}: {error}") from error


def _metadata(file: Path) -> dict[str, str]:
    if file.exists() and not file.is_file():
        raise say("not-regular", path=file)
    try:
        raw = pq.read_schema(file).metadata or {}
        metadata = {key.decode(): value.decode() for key, value in raw.items()}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise say("not-parquet", path=file, error=error) from error
    _check_version(metadata, str(file))
    return metadata


def _check_version(metadata: Mapping[str, str], name: str) -> None:
    """Raise `DataError` unless a file's `metadata` is of a schema that is read here."""
    version = metadata.get("colltune.schema_version")
    if version is None:
        raise say("foreign-parquet", name=name)
    if not version.isdecimal() or len(version) > 9 or int(version) > SCHEMA_VERSION:
        raise say("format-version", place=name, version=version[:20], known=SCHEMA_VERSION)


def _table(file: Path, **which: Any) -> pa.Table:
    try:
        return pq.read_table(file, **which)
    except (OSError, pa.ArrowException) as error:
        raise say("damaged", path=file, why=error) from error


def _read_file(file: Path) -> PerformanceDataset:
    metadata = _metadata(file)
    frame: pd.DataFrame = _table(file, schema=SCHEMA).to_pandas()
    frame["times_s"] = [tuple(times) for times in frame["times_s"]]
    return PerformanceDataset(_context(file, metadata), frame)
