"""Tidy CSV in and out: one row per launch, configuration and instance; median in ``time_s``.

Columns: machine, library, library_version, fabric (optional), collective, algorithm (``default`` is
the library's own decision), segsize_bytes and parameters (both optional), nodes, ppn, msize_bytes,
launch (optional), status (optional), n_reps, time_s, time_mean_s, time_min_s, time_p90_s,
time_max_s (all but time_s optional). Times are seconds, sizes bytes as the caller passes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from colltune.dataset.frame import COLUMNS, TIME_COLUMNS, PerformanceDataset, refuse_duplicates
from colltune.domain import LARGEST_NUMBER, Context, RunStatus, parse_collective, parse_parameters
from colltune.errors import DataError
from colltune.files import whole
from colltune.files.unpacking import unpacked

CONTEXT_COLUMNS = ["machine", "library", "library_version", "fabric"]
_REQUIRED = [
    *CONTEXT_COLUMNS[:3],
    "collective",
    "algorithm",
    "nodes",
    "ppn",
    "msize_bytes",
    "time_s",
]
_MOST_RANKS = 2**31 - 1
_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def read_csv(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    constants: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    time_unit: str = "s",
) -> PerformanceDataset:
    """Read a tidy CSV, plain or compressed.

    Parameters
    ----------
    path
        The file; compression is told by its ending (``.gz``).
    columns
        Our column name to the file's, ``{"time_s": "median_us"}``.
    constants
        Values for columns that the file does not have, ``{"machine": "hydra"}``.
    where
        Keep rows in which our column has the value (compared as text).
    time_unit
        Unit of all time columns: s, ms, us or ns.

    Raises
    ------
    DataError
        Naming file, line and column of the first value that is missing, malformed, of an unknown
        collective, or not a positive time; or the contexts, if the file mixes several.
    """
    if time_unit not in _TIME_UNITS:
        raise DataError(f"unknown time unit {time_unit!r}; known: {', '.join(_TIME_UNITS)}")
    text = _renamed(_text_table(path), path, columns or {}, constants or {})
    text = _matching(text, path, where or {})
    context = _context(text, path)
    frame = _parsed(text, path)
    frame[TIME_COLUMNS] *= _TIME_UNITS[time_unit]
    refuse_duplicates(frame, str(path))
    return PerformanceDataset(context, frame)


def write_csv(dataset: PerformanceDataset, path: Path) -> None:
    """Write `dataset` as tidy CSV (raw repetitions stay in Parquet), whole or not at all.

    `path` is replaced if it is there.
    """
    segsizes = [dict(parse_parameters(p)).get("segsize") for p in dataset.frame["parameters"]]
    frame = dataset.frame.drop(columns="times_s")
    frame.insert(2, "segsize_bytes", pd.Series(segsizes, dtype="Int64"))
    for position, column in enumerate(CONTEXT_COLUMNS):
        frame.insert(position, column, getattr(dataset.context, column))
    compression: Literal["gzip"] | None = "gzip" if path.suffix == ".gz" else None
    with whole(path) as temporary:
        frame.to_csv(temporary, index=False, compression=compression)


def _text_table(path: Path) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            with unpacked(path) as (_, content):
                table = pd.read_csv(
                    content, dtype=str, keep_default_na=False, encoding="utf-8", index_col=False
                )
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError, pd.errors.ParserWarning) as error:
        why = getattr(error, "strerror", None) or str(error).strip()
        raise DataError(f"{path}: not a readable CSV file: {why}; copy it again") from error
    if table.empty:
        raise DataError(f"{path}: no data rows")
    return table


def _renamed(
    table: pd.DataFrame, path: Path, columns: Mapping[str, str], constants: Mapping[str, str]
) -> pd.DataFrame:
    for ours, theirs in columns.items():
        if theirs not in table:
            raise DataError(f"{path}: no column {theirs!r}, which was mapped to {ours!r}")
    table = table.rename(columns={theirs: ours for ours, theirs in columns.items()})
    table = table.assign(**constants)
    missing = [name for name in _REQUIRED if name not in table]
    if missing:
        raise DataError(
            f"{path}: missing column {', '.join(missing)}; the file has"
            f" {', '.join(map(str, table.columns))}."
            f" `colltune data import` takes --map {missing[0]}=THEIRS or --set {missing[0]}=VALUE"
        )
    optional = {"fabric": "", "segsize_bytes": "", "parameters": "", "launch": "", "n_reps": ""}
    optional |= {"status": RunStatus.OK.value} | dict.fromkeys(TIME_COLUMNS[1:], "")
    return table.assign(**{k: v for k, v in optional.items() if k not in table})


def _matching(table: pd.DataFrame, path: Path, where: Mapping[str, str]) -> pd.DataFrame:
    for column, value in where.items():
        if column not in table:
            raise DataError(f"{path}: no column {column!r} to filter by")
        table = table[table[column] == value]
        if table.empty:
            raise DataError(f"{path}: no row has {column} = {value!r}")
    return table


def _context(table: pd.DataFrame, path: Path) -> Context:
    contexts = table[CONTEXT_COLUMNS].drop_duplicates()
    if len(contexts) > 1:
        listed = "; ".join(str(Context(*map(str, row))) for row in contexts.itertuples(index=False))
        column = next(c for c in CONTEXT_COLUMNS if contexts[c].nunique() > 1)
        value = contexts[column].iloc[0]
        raise DataError(
            f"{path}: mixes {len(contexts)} contexts, which are never joined: {listed};"
            f" keep one with --where {column}={value}"
        )
    values = {c: str(contexts[c].iloc[0]).strip() for c in CONTEXT_COLUMNS}
    for column in CONTEXT_COLUMNS[:3]:
        if not values[column]:
            raise DataError(f"{path}: column {column} is empty; measurements need their context")
    return Context(**values)


def _parsed(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    reader = _Reader(table, path)
    parsed = pd.DataFrame(index=table.index)
    parsed["collective"] = reader.mapped("collective", lambda t: parse_collective(t).value)
    parsed["algorithm"] = reader.mapped("algorithm", _nonempty)
    parsed["parameters"] = _parameters(reader)
    for name in ("nodes", "ppn"):
        parsed[name] = reader.integers(name, least=1, most=_MOST_RANKS)
    parsed["msize_bytes"] = reader.integers("msize_bytes", least=0)
    parsed["launch"] = table["launch"]
    parsed["status"] = reader.mapped("status", lambda t: RunStatus(t).value)
    parsed["n_reps"] = reader.integers("n_reps", least=0, blank=1)
    ok = parsed["status"].isin([status for status in RunStatus if status.is_timed])
    for name in TIME_COLUMNS:
        parsed[name] = reader.times(name, needed=ok if name == "time_s" else ok & False)
    parsed["times_s"] = [()] * len(parsed)
    return parsed[COLUMNS].reset_index(drop=True)


def _nonempty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text.strip()


def _parameters(reader: _Reader) -> list[str]:
    """Merge the columns ``parameters`` and ``segsize_bytes`` to one canonical text per row."""
    segsizes = reader.mapped("segsize_bytes", lambda t: str(int(float(t))) if t.strip() else "")
    others = reader.mapped("parameters", lambda t: str(parse_parameters(t)) and t)
    merged = []
    for segsize, other in zip(segsizes, others, strict=True):
        pairs = dict(parse_parameters(other))
        if segsize:
            pairs["segsize"] = int(segsize)
        merged.append(",".join(f"{k}={v}" for k, v in sorted(pairs.items())))
    return merged


class _Reader:
    def __init__(self, table: pd.DataFrame, path: Path) -> None:
        self._table = table
        self._path = path

    def _fail(self, position: int, column: str, why: str) -> DataError:
        line = int(self._table.index[position]) + 2
        value = self._table[column].iloc[position]
        return DataError(f"{self._path}, line {line}, column {column}: {value!r} {why}")

    def mapped(self, column: str, convert: object) -> list[str]:
        assert callable(convert)
        results: dict[str, str] = {}
        for position, value in enumerate(self._table[column]):
            if value not in results:
                try:
                    results[value] = convert(value)
                except (ValueError, OverflowError, DataError) as error:
                    raise self._fail(position, column, f"is wrong: {error}") from None
        return [results[value] for value in self._table[column]]

    def integers(
        self, column: str, least: int, blank: int | None = None, most: int = LARGEST_NUMBER
    ) -> np.ndarray:
        numbers = pd.to_numeric(self._table[column].str.strip(), errors="coerce").to_numpy(float)
        if blank is not None:
            numbers = np.where(self._table[column].str.strip() == "", blank, numbers)
        # as a float the largest number is rounded up to one too many
        inside = (numbers >= least) & (numbers < float(most))
        bad = ~(np.isfinite(numbers) & inside & (numbers == np.floor(numbers)))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            limit = f" and below {most}" if numbers[at] >= most else ""
            raise self._fail(at, column, f"is not a whole number of at least {least}{limit}")
        return numbers.astype(np.int64)

    def times(self, column: str, needed: pd.Series[bool]) -> np.ndarray:
        text = self._table[column].str.strip()
        numbers = pd.to_numeric(text, errors="coerce").to_numpy(float)
        wrong = ~(np.isfinite(numbers) & (numbers > 0))
        bad = wrong & (needed.to_numpy() | (text != "").to_numpy())
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise self._fail(at, column, "is not a positive time; remove the row or mend it")
        return np.where(wrong, np.nan, numbers)
