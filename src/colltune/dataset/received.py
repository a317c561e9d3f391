"""Measurements that somebody sent, tidy CSV or Parquet: read, checked, and added once.

A file of ours is trusted when it is read from a dataset's folder; here neither its size when
unpacked nor its rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from colltune.dataset.frame import (
    ALL_TIMES,
    CELL_COLUMNS,
    COLUMNS,
    RANK_COLUMNS,
    PerformanceDataset,
    refuse_duplicates,
)
from colltune.dataset.objective import cell_text
from colltune.dataset.parquet import SCHEMA, append_dataset, check_version, read_context
from colltune.dataset.tidy_csv import INTEGERS, RowCheck, nonempty, read_csv
from colltune.domain import Collective, Context, RunStatus, parse_parameters
from colltune.errors import ConflictError, DataError
from colltune.files import locked
from colltune.files.reading import json_of
from colltune.text import counted

MOST_ROWS = 500_000
MOST_VALUES = 8_000_000
_LONGEST_HEADER = 1 << 14
_MOST_FACTS, _LONGEST_FACT = 200, 4096
_TEXTS = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
_DICTIONARIES = pa.schema(
    [f.with_type(pa.dictionary(pa.int32(), f.type)) if f.name in _TEXTS else f for f in SCHEMA]
)
_MAGIC = b"PAR1"
_KEY = [*CELL_COLUMNS, "launch"]
_LONGEST_TEXT = 256


@dataclass(frozen=True)
class Received:
    """What was sent: measurements, all checked, and the provenance that they came with."""

    dataset: PerformanceDataset
    facts: Mapping[str, str]


def read_received(stream: BinaryIO, path: Path, name: str, launch: str = "") -> Received:
    """Read and check measurements; whether they are CSV or Parquet is told by the content.

    `stream` is an open file, and `path` opens it again; errors call it `name`. Launches that the
    rows tell apart stay apart, with the sender's `launch` before their own names.
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
        raise DataError(f"{path}: this is not a tidy CSV: its first line has no end")
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
        needed = [column for column in COLUMNS if column not in RANK_COLUMNS]
        missing = [column for column in needed if column not in file.schema_arrow.names]
        if missing:
            raise DataError(f"{name}: a Parquet file without the column {', '.join(missing)}")
        _refuse_more(name, file.metadata.num_rows, MOST_ROWS, "rows")
        _refuse_more(name, _most_values(file.metadata), MOST_VALUES, "values of one column")
        table = file.read(columns=COLUMNS)
        for column in set(RANK_COLUMNS) - set(table.column_names):
            table = table.append_column(column, pa.nulls(len(table), pa.float64()))
        frame = _frame(table)
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(f"{name}: a damaged or unusual Parquet file ({why})") from None
    return Received(PerformanceDataset(context, frame), facts)


def _frame(table: pa.Table) -> pd.DataFrame:
    """Return `table` in our types; texts that repeat are kept once."""
    table = table.select(COLUMNS).cast(_DICTIONARIES)
    for field in SCHEMA:
        if table.column(field.name).null_count and not pa.types.is_floating(field.type):
            raise ValueError(f"column {field.name} has empty cells")
    frame: pd.DataFrame = table.to_pandas()
    frame[_TEXTS] = frame[_TEXTS].astype(object)
    frame["times_s"] = [tuple(times) for times in frame["times_s"]]
    return frame


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


def _most_values(metadata: pq.FileMetaData) -> int:
    """Return how many values the longest column has, those within lists counted."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = range(metadata.num_columns)
    return max((sum(g.column(at).num_values for g in groups) for at in columns), default=0)


def _refuse_more(name: str, number: int, most: int, what: str) -> None:
    if number > most:
        raise DataError(
            f"{name}: {number} {what} are too many; at most {most} are accepted. Send it in parts."
        )


def check_rows(dataset: PerformanceDataset, source: str) -> None:
    """Check every row of `dataset`, of which only the columns' types are known to be right."""
    for name, value in vars(dataset.context).items():
        if not isinstance(value, str) or _why_no_text(value):
            raise DataError(f"{source}: its {name} is not a short printable text")
        if name not in ("fabric", "cores_shared") and not value.strip():
            raise DataError(f"{source}: its {name} is empty, but measurements need their context")
    frame = dataset.frame
    if frame.empty:
        raise DataError(f"{source}: there are no measurements")
    rows = RowCheck(frame, lambda at: f"{source}, data row {at + 1}")
    for column in _TEXTS:
        rows.converted(column, _text)
    rows.converted("collective", Collective)
    rows.converted("status", RunStatus)
    rows.converted("algorithm", nonempty)
    rows.converted("parameters", _canonical)
    for column in INTEGERS:
        rows.integers(column, frame[column].to_numpy())
    _check_times(rows)
    refuse_duplicates(frame, source)


def _check_times(rows: RowCheck) -> None:
    frame = rows.shown
    timed = frame["status"].isin([status for status in RunStatus if status.is_timed]).to_numpy()
    for column in ALL_TIMES:
        numbers = frame[column].to_numpy(float)
        there = ~np.isnan(numbers)
        rows.times(column, numbers, there | timed if column == "time_s" else there)
        rows.refuse(column, there & ~timed, "is a time of what was not timed")
    lengths = frame["times_s"].map(len).to_numpy()
    raw = np.concatenate([np.asarray(times, float) for times in frame["times_s"]])
    wrong = (lengths > 0) & (lengths != frame["n_reps"].to_numpy())
    wrong[np.repeat(np.arange(len(frame)), lengths)[~(np.isfinite(raw) & (raw > 0))]] = True
    rows.refuse("times_s", wrong, "are not n_reps positive times")


def _why_no_text(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        return f"is longer than {_LONGEST_TEXT} characters"
    return "" if text.isprintable() else "has characters that cannot be printed"


def _text(text: str) -> None:
    if why := _why_no_text(text):
        raise ValueError(why)


def _canonical(text: str) -> None:
    written = ",".join(f"{name}={value}" for name, value in parse_parameters(text))
    if written != text:
        raise ValueError(f"is not written as {written!r}")


def add_once(
    folder: Path, dataset: PerformanceDataset, facts: Mapping[str, str], digest: str
) -> tuple[Path, bool]:
    """Add `dataset` to `folder` as one new file, unless that of the same `digest` is there."""
    name = f"received-{digest[:32]}.parquet"
    with locked(folder / ".import.lock"):
        if (folder / name).exists():
            return folder / name, False
        first = min(folder.glob("*.parquet"), default=None)
        there = dataset.context if first is None else read_context(first)
        if there != dataset.context:
            raise ConflictError(
                f"the measurements are of {dataset.context}, but the dataset is of {there}. "
                "Different contexts cannot be joined. Send them to the service of that "
                "machine and release."
            )
        _refuse_known_cells(folder, dataset)
        return append_dataset(folder, dataset, facts, name), True


def _refuse_known_cells(folder: Path, dataset: PerformanceDataset) -> None:
    """Refuse what would make the whole folder unreadable; only files of a launch are read."""
    launches = pa.array(dataset.frame["launch"].unique())
    new = pd.MultiIndex.from_frame(dataset.frame[_KEY])
    for file in sorted(folder.glob("*.parquet")):
        try:
            there = pq.read_table(file, columns=_KEY, filters=[("launch", "in", launches)])
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{file}: damaged ({error}). Remove the file to go on.") from error
        if not there.num_rows:
            continue
        stored = there.to_pandas()
        both = stored[pd.MultiIndex.from_frame(stored).isin(new)]
        if len(both):
            raise ConflictError(
                f"the dataset already has {counted(len(both), 'cell')} of the same launch, "
                f"the first is {cell_text(both.iloc[0])}. Give repeated launches different "
                "names, in the column launch or with ?launch=NAME."
            )
