"""Datasets on disk: a folder of Parquet files, one per launch, append-only.

Schema history
--------------
1. columns of ``frame.COLUMNS``; file metadata ``colltune.schema_version``, ``colltune.context``
   and ``colltune.provenance`` (the latter two as JSON).
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, overload

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from colltune.dataset.frame import COLUMNS, PerformanceDataset, join
from colltune.domain import Context, Measurement
from colltune.errors import DataError
from colltune.files import whole
from colltune.files.reading import json_of
from colltune.files.remote import Remote, opened

_SUFFIX = ".parquet"


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Yield a folder of this machine with the Parquet files at `url`, a folder or one file.

    It is removed at the end. What is found wrong with a file meanwhile is blamed on its URL.
    """
    remote = opened(url.rstrip("/"), DataError)
    with tempfile.TemporaryDirectory(prefix="colltune-") as name:
        folder = Path(name)
        _fetch(remote, folder)
        try:
            yield folder
        except DataError as error:
            base = url.removesuffix(f"/{url.rpartition('/')[2]}") if _is_file(url) else url
            raise DataError(str(error).replace(str(folder), base.rstrip("/"))) from error


def put(url: str, name: str, content: bytes) -> str:
    """Write a file into the folder `url`, whole or not at all, and return its URL."""
    remote = opened(url.rstrip("/"), DataError)
    with remote.writing(name):
        remote.system.pipe_file(remote.path(name), content)
    return f"{remote.url}/{name}"


def _is_file(url: str) -> bool:
    return url.endswith(_SUFFIX)


def _fetch(remote: Remote, folder: Path) -> None:
    try:
        with remote.reading(""):
            if _is_file(remote.url):
                found = [remote.root]
            else:
                listed = remote.system.ls(remote.root, detail=False, refresh=True)
                found = sorted(path for path in map(str, listed) if _is_file(path))
            targets = [str(folder / path.rpartition("/")[2]) for path in found]
            if found:
                remote.system.get(found, targets)
    except FileNotFoundError:
        raise DataError(f"{remote.url}: no such file or folder") from None
    if not found:
        raise DataError(
            f"{remote.url}: no *.parquet file in this folder; is it a colltune dataset?"
        )


SCHEMA_VERSION = 1
SCHEMA = pa.schema(
    [
        ("collective", pa.string()),
        ("algorithm", pa.string()),
        ("parameters", pa.string()),
        ("nodes", pa.int64()),
        ("ppn", pa.int64()),
        ("msize_bytes", pa.int64()),
        ("launch", pa.string()),
        ("status", pa.string()),
        ("n_reps", pa.int64()),
        ("time_s", pa.float64()),
        ("time_mean_s", pa.float64()),
        ("time_min_s", pa.float64()),
        ("time_p90_s", pa.float64()),
        ("time_max_s", pa.float64()),
        ("times_s", pa.list_(pa.float64())),
    ]
)

# repetitions hardly repeat, so that dictionaries of them are larger than they are themselves;
# their bytes resemble each other place by place
_NUMBERS = [name for name in SCHEMA.names if name.startswith("time_")]
_STORED: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [name for name in SCHEMA.names if not name.startswith("time")],
    "use_byte_stream_split": [*_NUMBERS, "times_s.list.element"],
}


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
    dataset = PerformanceDataset.of(context, measurements)
    return append_dataset(folder, dataset, provenance)


@overload
def append_dataset(
    folder: Path, dataset: PerformanceDataset, provenance: Mapping[str, str], name: str = ""
) -> Path: ...


@overload
def append_dataset(
    folder: str, dataset: PerformanceDataset, provenance: Mapping[str, str], name: str = ""
) -> str: ...


def append_dataset(
    folder: Path | str, dataset: PerformanceDataset, provenance: Mapping[str, str], name: str = ""
) -> Path | str:
    """Add a whole dataset as one new file of `folder`, called `name` if given; see `append`.

    Text is the URL of a folder in an object store, ``s3://bucket/data``, where an object appears
    whole, too; the URL of the new file is returned.
    """
    metadata = {
        "colltune.schema_version": str(SCHEMA_VERSION),
        "colltune.context": json.dumps(asdict(dataset.context), sort_keys=True),
        "colltune.provenance": json.dumps(dict(provenance), sort_keys=True),
    }
    table = pa.Table.from_pandas(dataset.frame[COLUMNS], schema=SCHEMA, preserve_index=False)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    name = name or f"{stamp}-{secrets.token_hex(4)}.parquet"
    table = table.replace_schema_metadata(metadata)
    if isinstance(folder, str):
        content = pa.BufferOutputStream()
        pq.write_table(table, content, **_STORED)
        return put(folder, name, content.getvalue().to_pybytes())
    with whole(folder / name) as temporary:
        pq.write_table(table, temporary, **_STORED)
    return folder / name


def read_parquet(path: Path) -> PerformanceDataset:
    """Read one Parquet file or a folder of them.

    `path` is that of the file or folder.

    Raises
    ------
    DataError
        If there is nothing, a file is damaged or of a newer schema, or contexts differ.
    """
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path}: no *.parquet file in this folder; is it a colltune dataset?")
    return join([_read_file(file) for file in files])


def read_provenance(file: Path) -> dict[str, str]:
    return _table(file, _metadata(file), "colltune.provenance")


def read_context(file: Path) -> Context:
    """Return the context stored with one Parquet file of a dataset; no measurement is read."""
    return _context(file, _metadata(file))


def read_provenances(path: Path) -> dict[str, dict[str, str]]:
    """Return the provenance of each launch in a Parquet file or a folder of them, by its name.

    Measurements are not read. Of a launch that is in several files the first one's is told.
    """
    found: dict[str, dict[str, str]] = {}
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        facts = read_provenance(file)
        for launch in _launches(file):
            found.setdefault(launch, facts)
    return found


def _launches(file: Path) -> list[str]:
    try:
        column = pq.read_table(file, columns=["launch"]).column("launch")
        return [str(launch) for launch in column.unique().to_pylist()]
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file}: damaged Parquet file ({error}); remove it to go on") from error


def _context(file: Path, metadata: Mapping[str, str]) -> Context:
    found = _table(file, metadata, "colltune.context")
    try:
        return Context(**found)
    except TypeError as error:
        raise DataError(f"{file}: damaged ({error}); remove it to go on") from error


def _table(file: Path, metadata: Mapping[str, str], key: str) -> dict[str, str]:
    try:
        found: dict[str, str] = dict(json_of(metadata.get(key, "")))
    except (TypeError, ValueError) as error:
        raise DataError(f"{file}: damaged {key} ({error}); remove it to go on") from error
    return found


def _metadata(file: Path) -> dict[str, str]:
    if file.exists() and not file.is_file():
        raise DataError(f"{file}: no plain file, such as a dataset has; remove it to go on")
    try:
        raw = pq.read_schema(file).metadata or {}
        metadata = {key.decode(): value.decode() for key, value in raw.items()}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(
            f"{file}: not a readable Parquet file ({error}); was it cut short?"
        ) from error
    check_version(metadata, str(file))
    return metadata


def check_version(metadata: Mapping[str, str], name: str) -> None:
    """Raise `DataError` unless a file's `metadata` is of a schema that is read here."""
    version = metadata.get("colltune.schema_version")
    if version is None:
        raise DataError(f"{name}: a Parquet file, but not one of colltune; import it from CSV")
    if not version.isdecimal() or len(version) > 9 or int(version) > SCHEMA_VERSION:
        raise DataError(
            f"{name}: schema version {version[:20]} is newer than this colltune reads"
            f" ({SCHEMA_VERSION}); upgrade colltune"
        )


def _read_file(file: Path) -> PerformanceDataset:
    metadata = _metadata(file)
    try:
        frame: pd.DataFrame = pq.read_table(file, schema=SCHEMA).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file}: damaged Parquet file ({error}); remove it to go on") from error
    context = _context(file, metadata)
    frame["times_s"] = [tuple(times) for times in frame["times_s"]]
    return PerformanceDataset(context, frame)
