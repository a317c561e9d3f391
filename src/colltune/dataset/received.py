"""Measurements that somebody sent, tidy CSV or Parquet: read, checked, and added once.

A file of ours is trusted when it is read from a dataset's folder; here neither its size when
unpacked nor its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from colltune.dataset.frame import (
    CELL_COLUMNS,
    COLUMNS,
    TIME_COLUMNS,
    PerformanceDataset,
    refuse_duplicates,
)
from colltune.dataset.parquet import SCHEMA, append_dataset, check_version, read_context
from colltune.dataset.tidy_csv import read_csv
from colltune.domain import Collective, Context, RunStatus, parse_parameters
from colltune.errors import ConflictError, DataError
from colltune.files import locked
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


_MOST_RANKS = 2**31 - 1
_LONGEST_TEXT = 256
_CONTEXT = ("machine", "library", "library_version")


def check_rows(dataset: PerformanceDataset, source: str) -> None:
    """Check every row of `dataset`, of which only the columns' types are known to be right."""
    _check_context(dataset, source)
    frame = dataset.frame
    if frame.empty:
        raise DataError(f"{source}: no measurements in it")
    for column in _TEXTS:
        _check_values(frame, column, source, _why_no_text)
    _check_values(frame, "collective", source, _why_not_in(list(Collective)))
    _check_values(frame, "status", source, _why_not_in(list(RunStatus)))
    _check_values(frame, "algorithm", source, lambda text: "" if text.strip() else "is empty")
    _check_values(frame, "parameters", source, _why_no_parameters)
    for column, least, most in (
        ("nodes", 1, _MOST_RANKS),
        ("ppn", 1, _MOST_RANKS),
        ("msize_bytes", 0, None),
        ("n_reps", 0, None),
    ):
        numbers = frame[column].to_numpy()
        wrong = (numbers < least) | (numbers > most if most else False)
        _refuse(frame, column, wrong, source, f"is not within {least} and {most or '2^63 - 1'}")
    _check_times(frame, source)
    refuse_duplicates(frame, source)


def _check_context(dataset: PerformanceDataset, source: str) -> None:
    context = dataset.context
    for name, value in vars(context).items():
        if not isinstance(value, str) or _why_no_text(value):
            raise DataError(f"{source}: its {name} is no short printable text")
    for name in _CONTEXT:
        if not str(getattr(context, name)).strip():
            raise DataError(f"{source}: its {name} is empty; measurements need their context")


def _check_times(frame: pd.DataFrame, source: str) -> None:
    timed = frame["status"].isin([s for s in RunStatus if s.is_timed]).to_numpy()
    for column in TIME_COLUMNS:
        times = frame[column].to_numpy(float)
        absent = np.isnan(times)
        wrong = ~absent & ~(np.isfinite(times) & (times > 0))
        if column == "time_s":
            wrong |= timed & absent
        _refuse(frame, column, wrong, source, "is not a positive time; remove the row or mend it")
        _refuse(frame, column, ~timed & ~absent, source, "is a time of what was not timed")
    lengths = frame["times_s"].map(len).to_numpy()
    raw = np.concatenate([np.asarray(times, float) for times in frame["times_s"]])
    rows = np.repeat(np.arange(len(frame)), lengths)
    wrong = np.zeros(len(frame), bool)
    wrong[rows[~(np.isfinite(raw) & (raw > 0))]] = True
    wrong |= (lengths > 0) & (lengths != frame["n_reps"].to_numpy())
    _refuse(frame, "times_s", wrong, source, "are not n_reps positive times")


def _check_values(
    frame: pd.DataFrame, column: str, source: str, why_wrong: Callable[[str], str]
) -> None:
    for value in frame[column].unique():
        why = why_wrong(value)
        if why:
            _refuse(frame, column, (frame[column] == value).to_numpy(), source, why)


def _why_no_text(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        return f"is longer than {_LONGEST_TEXT} characters"
    return "" if text.isprintable() else "has characters that cannot be printed"


def _why_not_in(known: list[str]) -> Callable[[str], str]:
    return lambda text: "" if text in known else f"is unknown; known: {', '.join(known)}"


def _why_no_parameters(text: str) -> str:
    try:
        pairs = parse_parameters(text)
    except DataError as error:
        return f"is wrong: {error}"
    canonical = ",".join(f"{name}={value}" for name, value in pairs)
    return "" if canonical == text else f"is not written as {canonical!r}"


def _refuse(frame: pd.DataFrame, column: str, wrong: np.ndarray, source: str, why: str) -> None:
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        value = str(frame[column].iloc[at])[:80]
        raise DataError(f"{source}, data row {at + 1}, column {column}: {value!r} {why}")


_KEY = [*CELL_COLUMNS, "launch"]
_LOCK = ".import.lock"


def add_once(
    folder: Path, dataset: PerformanceDataset, facts: Mapping[str, str], digest: str
) -> tuple[Path, bool]:
    """Add `dataset` as one new file of `folder`; return the file, and whether it is new.

    What was added with the same `digest` (hexadecimal digits) is not added again.
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
            raise ConflictError(_cell_is_known(both.iloc[0], len(both)))


def _cell_is_known(row: pd.Series[str], number: int) -> str:
    return (
        f"{number} cells of the same launch are in the dataset already, the first is"
        f" {row['collective']} {row['algorithm']} {row['parameters']} on"
        f" {row['nodes']}x{row['ppn']}, {row['msize_bytes']} bytes, launch {row['launch']!r};"
        " give repeated launches different names, in the column launch or with ?launch=NAME"
    )
