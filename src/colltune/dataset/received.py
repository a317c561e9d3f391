"""Reads measurements that somebody sent: tidy CSV, or a Parquet file of a dataset.

A file of ours is trusted when it is read from a dataset's folder; here neither its size when
unpacked nor its rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from colltune.dataset.frame import COLUMNS, PerformanceDataset
from colltune.dataset.parquet import SCHEMA, check_version
from colltune.dataset.row_checks import check_rows
from colltune.dataset.tidy_csv import read_csv
from colltune.domain import Context
from colltune.errors import DataError
from colltune.files.reading import json_of

MOST_ROWS = 500_000
MOST_VALUES = 8_000_000
_LONGEST_HEADER = 1 << 14
_MOST_FACTS, _LONGEST_FACT = 200, 4096
_TEXTS = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
_MAGIC = b"PAR1"


@dataclass(frozen=True)
class Received:
    """What was sent: measurements, all checked, and the provenance that they came with."""

    dataset: PerformanceDataset
    facts: Mapping[str, str]


def read_received(stream: BinaryIO, path: Path, name: str, launch: str = "") -> Received:
    """Read and check measurements; whether they are CSV or Parquet is told by the content.

    Parameters
    ----------
    stream, path
        An open file, and a path by which it can be opened again.
    name
        What errors call it.
    launch
        The launch's name, where the sender gives one; launches that the rows tell apart stay
        apart, with this name before their own.
    """
    stream.seek(0)
    is_parquet = stream.read(len(_MAGIC)) == _MAGIC
    stream.seek(0)
    try:
        received = _parquet(stream, name) if is_parquet else _csv(stream, path)
    except DataError as error:
        raise DataError(str(error).replace(str(path), name)) from None
    if launch:
        received = replace(received, dataset=_named(received.dataset, launch))
    check_rows(received.dataset, name)
    return received


def _csv(stream: BinaryIO, path: Path) -> Received:
    header = stream.readline(_LONGEST_HEADER)
    if not header.endswith(b"\n"):
        raise DataError(f"{path}: not a tidy CSV: the first line does not end")
    rows = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    _refuse_more(str(path), rows, MOST_ROWS, "rows")
    return Received(read_csv(path), {})


def _named(dataset: PerformanceDataset, launch: str) -> PerformanceDataset:
    own = dataset.frame["launch"]
    names = f"{launch}/" + own if own.nunique() > 1 else launch
    return PerformanceDataset(dataset.context, dataset.frame.assign(launch=names))


def _parquet(stream: BinaryIO, name: str) -> Received:
    try:
        file = pq.ParquetFile(stream, read_dictionary=_TEXTS)
        context, facts = _told(file.schema_arrow.metadata or {}, name)
        _refuse_missing(file, name)
        _refuse_more(name, file.metadata.num_rows, MOST_ROWS, "rows")
        _refuse_more(name, _most_values(file.metadata), MOST_VALUES, "values of one column")
        table = file.read(columns=COLUMNS)
        frame = _frame(table)
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(f"{name}: a damaged or strange Parquet file ({why})") from None
    return Received(PerformanceDataset(context, frame), facts)


def _frame(table: pa.Table) -> pd.DataFrame:
    """Return `table` in our types; texts that repeat are kept once."""
    columns = {}
    for field in SCHEMA:
        column = table.column(field.name)
        if field.name in _TEXTS:
            column = column.cast(pa.dictionary(pa.int32(), pa.string()))
        else:
            column = column.cast(field.type)
        is_time = pa.types.is_floating(field.type)
        if column.null_count and not is_time:
            raise ValueError(f"column {field.name} has empty cells")
        columns[field.name] = column.to_pandas()
    frame = pd.DataFrame(columns)
    for name in _TEXTS:
        frame[name] = frame[name].astype(object)
    frame["times_s"] = [tuple(times) for times in frame["times_s"]]
    return frame[COLUMNS]


def _told(raw: Mapping[bytes, bytes], name: str) -> tuple[Context, dict[str, str]]:
    """Return the context and provenance that a file tells of itself."""
    metadata = {key.decode(): value.decode() for key, value in raw.items()}
    check_version(metadata, name)
    facts = json_of(metadata.get("colltune.provenance", "{}"))
    if not isinstance(facts, dict) or len(facts) > _MOST_FACTS:
        raise ValueError("its provenance is not a short list of facts")
    if any(not isinstance(v, str) or len(k) + len(v) > _LONGEST_FACT for k, v in facts.items()):
        raise ValueError("its provenance is not made of short texts")
    return Context(**json_of(metadata["colltune.context"])), facts


def _refuse_missing(file: pq.ParquetFile, name: str) -> None:
    missing = [column for column in COLUMNS if column not in file.schema_arrow.names]
    if missing:
        raise DataError(f"{name}: a Parquet file without the column {', '.join(missing)}")


def _most_values(metadata: pq.FileMetaData) -> int:
    """Return how many values the longest column has, those within lists counted."""
    totals = [0] * metadata.num_columns
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            totals[column] += metadata.row_group(group).column(column).num_values
    return max(totals, default=0)


def _refuse_more(name: str, number: int, most: int, what: str) -> None:
    if number > most:
        raise DataError(f"{name}: {number} {what}, and at most {most} are taken; send it in parts")
