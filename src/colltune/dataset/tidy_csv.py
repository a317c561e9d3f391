"""Tidy CSV in and out: one row per launch, configuration and instance; median in ``time_s``.

Columns: machine, library, library_version, fabric and cores_shared (both optional), collective,
algorithm (``default`` is the library's own decision), segsize_bytes and parameters (both optional),
nodes, ppn, msize_bytes, launch (optional), status (optional), n_reps, time_s, time_mean_s,
time_min_s, time_p90_s, time_max_s, time_rank_mean_s, time_rank_min_s (all but time_s optional).
Times are seconds, sizes bytes as the caller passes them.

What launchers, terminals and mails put before the lines that a program printed is taken off.
"""

from __future__ import annotations

import errno
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from colltune.dataset.frame import (
    ALL_TIMES,
    COLUMNS,
    RANK_COLUMNS,
    PerformanceDataset,
    refuse_duplicates,
)
from colltune.domain import LARGEST_NUMBER, Context, RunStatus, parse_collective, parse_parameters
from colltune.errors import DataError, say, unknown
from colltune.files import whole
from colltune.files.unpacking import encoding_of, unpacked

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_DATE = r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d"
_KINDS = (
    r"\[(?:[^\]\s]*@)?\d+,(?P<rank>\d+)\]<std(?:out|err)>: ?",
    r"(?:[A-Z][a-z]{2} )?" + _DATE + r"(?: [A-Z]{3,4})? \d{4}(?:<std(?:out|err)>:)?[: ]?",
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?:[ \t]|$)",
    _DATE + r" [A-Za-z][\w.-]*(?:\[\d+\])?:(?:[ \t]|$)",
    _DATE + r":?(?:[ \t]|$)",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?(?:[ \t]|$)",
    r"\[ *\d+\.\d+\]:?(?:[ \t]|$)",
    r" *(?P<rank>\d+):(?: |$)",
    r"\[(?P<rank>\d+)\](?: |$)",
    r"[A-Za-z][\w.-]*\d[\w.-]*: ",
    r">(?: |$)",
    r"[|](?: |$)",
    r"[ \t]+",
)
_PREFIXES = tuple(re.compile(kind) for kind in _KINDS)
TITLES = ("#", "START mpiBench")
"""What lines begin with that tell a benchmark."""
_LAST_LINE = 20_000
"""A prefix begins before it, or never."""
_SHORT, _MOST_TITLES = 20, 1000
CONTEXT_COLUMNS = ["machine", "library", "library_version", "fabric", "cores_shared"]
INTEGERS = {
    "nodes": (1, 2**31 - 1),
    "ppn": (1, 2**31 - 1),
    "msize_bytes": (0, LARGEST_NUMBER),
    "n_reps": (0, LARGEST_NUMBER),
}
"""The least and the largest number of each column of counts."""
_REQUIRED = [
    *CONTEXT_COLUMNS[:3],
    "collective",
    "algorithm",
    "nodes",
    "ppn",
    "msize_bytes",
    "time_s",
]
_OPTIONAL = dict.fromkeys(("fabric", "cores_shared", "segsize_bytes", "parameters", "launch"), "")
_OPTIONAL |= {"n_reps": "1", "status": RunStatus.OK.value} | dict.fromkeys(ALL_TIMES[1:], "")
_DECIMAL_COMMA = r"^(\s*[+-]?\d+),(\d+(?:[eE][+-]?\d+)?\s*)$", r"\1.\2"
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


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
    if time_unit not in TIME_UNITS:
        raise unknown("time unit", time_unit, TIME_UNITS, DataError)
    text = _renamed(text_table(path), path, columns or {}, constants or {})
    for column, value in (where or {}).items():
        if column not in text:
            raise say("no-column-to-filter", column=column).of(str(path))
        text = text[text[column] == value]
        if text.empty:
            raise say("no-row-has", column=column, value=value).of(str(path))
    dataset = _from_named(text, path, time_unit)
    refuse_duplicates(dataset.frame, str(path))
    return dataset


def from_table(table: pd.DataFrame, path: Path, *, time_unit: str) -> PerformanceDataset:
    """Return the dataset of a table of texts with our columns; cells may come several times."""
    return _from_named(_renamed(table, path, {}, {}), path, time_unit)


def _from_named(text: pd.DataFrame, path: Path, time_unit: str) -> PerformanceDataset:
    context = _context(text, path)
    frame = _parsed(text, path)
    frame[ALL_TIMES] *= TIME_UNITS[time_unit]
    return PerformanceDataset(context, frame)


def write_csv(dataset: PerformanceDataset, path: Path) -> None:
    """Write `dataset` as tidy CSV (raw repetitions stay in Parquet), whole or not at all.

    `path` is replaced if it is there.
    """
    segsizes = [dict(parse_parameters(p)).get("segsize") for p in dataset.frame["parameters"]]
    unknown = [c for c in RANK_COLUMNS if dataset.frame.get(c, pd.Series()).isna().all()]
    frame = dataset.frame.drop(columns=["times_s", *unknown], errors="ignore")
    frame.insert(2, "segsize_bytes", pd.Series(segsizes, dtype="Int64"))
    for position, (column, value) in enumerate(dataset.context.as_json().items()):
        frame.insert(position, column, value)
    compression: Literal["gzip"] | None = "gzip" if path.suffix == ".gz" else None
    with whole(path) as temporary:
        frame.to_csv(temporary, index=False, compression=compression)


def text_table(path: Path) -> pd.DataFrame:
    """Return the file's table, all of it as text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            with unpacked(path) as (_, content):
                encoding = encoding_of(content)
                text = io.StringIO(content.read().decode(encoding), newline=None)
            header = text.readline()
            if without_common_prefixes([header]) != [header]:
                text.seek(0)
                text = io.StringIO("".join(without_common_prefixes(list(text))))
                header = text.readline()
            text.seek(0)
            separator = separator_of(header)
            table = pd.read_csv(
                text,
                dtype=str,
                keep_default_na=False,
                index_col=False,
                sep=separator,
                skipinitialspace=separator != "\t",
            )
    except FileNotFoundError:
        raise say("no-such-data", path=path) from None
    except (OSError, ValueError, pd.errors.ParserWarning) as error:
        why = getattr(error, "strerror", None) or str(error).strip()
        if getattr(error, "errno", None) == errno.EINVAL:
            raise say("not-read", path=path, why=why) from error
        raise say("not-csv", path=path, why=why) from error
    if table.empty:
        raise say("no-rows", path=path)
    return table if separator == "," else table.replace(*_DECIMAL_COMMA, regex=True)


def separator_of(header: str) -> str:
    """Return what stands between the columns of a table with the line `header`."""
    return max(",;\t", key=header.count)


def _renamed(
    table: pd.DataFrame, path: Path, columns: Mapping[str, str], constants: Mapping[str, str]
) -> pd.DataFrame:
    for ours, theirs in columns.items():
        if theirs not in table:
            raise say("no-column-mapped", theirs=theirs, ours=ours).of(str(path))
    table = table.rename(columns={theirs: ours for ours, theirs in columns.items()})
    table = table.assign(**constants)
    missing = [name for name in _REQUIRED if name not in table]
    if missing:
        lacking, there = ", ".join(missing), ", ".join(map(str, table.columns))
        raise say("missing-column", path=path, missing=lacking, columns=there, first=missing[0])
    return table.assign(**{k: v for k, v in _OPTIONAL.items() if k not in table})


def _context(table: pd.DataFrame, path: Path) -> Context:
    contexts = table[CONTEXT_COLUMNS].drop_duplicates()
    if len(contexts) > 1:
        listed = "; ".join(str(Context(*map(str, row))) for row in contexts.itertuples(index=False))
        column = next(c for c in CONTEXT_COLUMNS if contexts[c].nunique() > 1)
        value = contexts[column].iloc[0]
        raise say("several-contexts", path=path, listed=listed, column=column, value=value)
    values = {c: str(contexts[c].iloc[0]).strip() for c in CONTEXT_COLUMNS}
    for column in CONTEXT_COLUMNS[:3]:
        if not values[column]:
            raise say("empty-column", path=path, column=column)
    return Context(**values)


def _parsed(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    rows = RowCheck(table, lambda at: f"{path}, line {int(table.index[at]) + 2}")
    parsed = pd.DataFrame(index=table.index)
    parsed["collective"] = rows.converted("collective", lambda t: parse_collective(t).value)
    parsed["algorithm"] = rows.converted("algorithm", nonempty)
    parsed["parameters"] = _parameters(rows)
    numbers = {c: pd.to_numeric(table[c].str.strip(), errors="coerce") for c in INTEGERS}
    blank = table["n_reps"].str.strip() == ""
    numbers["n_reps"] = numbers["n_reps"].mask(blank, 1)
    for name in INTEGERS:
        parsed[name] = rows.integers(name, numbers[name].to_numpy(float)).astype(np.int64)
    parsed["launch"] = table["launch"]
    parsed["status"] = rows.converted("status", lambda t: RunStatus(t).value)
    timed = parsed["status"].isin([status for status in RunStatus if status.is_timed]).to_numpy()
    for name in ALL_TIMES:
        text = table[name].str.strip()
        needed = (text != "").to_numpy() | (timed if name == "time_s" else False)
        parsed[name] = rows.times(
            name, pd.to_numeric(text, errors="coerce").to_numpy(float), needed
        )
    parsed["times_s"] = [()] * len(parsed)
    return parsed[COLUMNS].reset_index(drop=True)


def nonempty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text.strip()


def _parameters(rows: RowCheck) -> list[str]:
    """Merge the columns ``parameters`` and ``segsize_bytes`` to one canonical text per row."""
    segsizes = rows.converted("segsize_bytes", lambda t: int(float(t)) if t.strip() else None)
    others = rows.converted("parameters", lambda t: dict(parse_parameters(t)))
    pairs = (
        other if segsize is None else other | {"segsize": segsize}
        for segsize, other in zip(segsizes, others, strict=True)
    )
    return [",".join(f"{k}={v}" for k, v in sorted(row.items())) for row in pairs]


@dataclass(frozen=True)
class RowCheck:
    """Refuses the first value of a column that a dataset cannot hold.

    ``shown`` has the values as the sender wrote them; ``place`` names the place of a row.
    """

    shown: pd.DataFrame
    place: Callable[[int], str]

    def refuse(self, column: str, wrong: np.ndarray, why: str) -> None:
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            value = str(self.shown[column].iloc[at])[:80]
            raise say("wrong-cell", place=self.place(at), column=column, value=value, why=why)

    def converted(self, column: str, convert: Callable[[str], Any]) -> list[Any]:
        """Return what `convert` makes of each value; what it raises says what is wrong."""
        results: dict[str, Any] = {}
        for value in self.shown[column].unique():
            try:
                results[value] = convert(value)
            except (ValueError, OverflowError, DataError) as error:
                self.refuse(column, (self.shown[column] == value).to_numpy(), f"is wrong: {error}")
        return [results[value] for value in self.shown[column]]

    def integers(self, column: str, numbers: np.ndarray) -> np.ndarray:
        least, most = INTEGERS[column]
        # as a float the largest number is rounded up to one too many
        large = numbers >= float(most) if numbers.dtype == float else numbers > most
        bad = ~(np.isfinite(numbers) & (numbers >= least) & (numbers == np.floor(numbers)))
        self.refuse(column, bad | large, f"is not a whole number from {least} to {most}")
        return numbers

    def times(self, column: str, numbers: np.ndarray, needed: np.ndarray) -> np.ndarray:
        wrong = ~(np.isfinite(numbers) & (numbers > 0))
        self.refuse(column, wrong & needed, "is not a positive time. Remove or correct the row.")
        return np.where(wrong, np.nan, numbers)


def without_prefixes(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of the file `name` as the program printed them, which are as many.

    The prefixes before the first comment are those of the whole file: ranks and times of launchers,
    marks of mails, indentation. Colours of a terminal are left out everywhere.

    Raises
    ------
    DataError
        If several processes printed the same titles: each ran alone.
    """
    kinds: tuple[re.Pattern[str], ...] = ()
    titles: dict[str, str] = {}
    for number, raw in enumerate(lines, start=1):
        line = _COLOUR.sub("", raw) if "\x1b" in raw else raw
        if not kinds and number <= _LAST_LINE and not line.startswith(TITLES):
            kinds = _before_comment(line)
        if not kinds:
            yield line
            continue
        bare, rank = _stripped(line, kinds)
        if rank and bare.startswith(TITLES) and len(bare) > _SHORT and len(titles) < _MOST_TITLES:
            first = titles.setdefault(bare, rank)
            if first != rank:
                raise say("each-alone", name=name, number=number, rank=rank, first=first)
        yield bare


def without_common_prefixes(lines: Sequence[str]) -> list[str]:
    """Return the lines of a table, which has no comments, without what is before all of them."""
    found = list(lines)
    while kind := next((k for k in _PREFIXES if found and all(map(k.match, found))), None):
        rest = [_stripped(line, [kind])[0] for line in found]
        if rest == found:
            break
        found = rest
    return found


def _before_comment(line: str) -> tuple[re.Pattern[str], ...]:
    """Return the kinds of prefixes between the begin of a line and a ``#``; none otherwise."""
    found, at = list[re.Pattern[str]](), 0
    while not line.startswith(TITLES, at):
        kind = next((kind for kind in _PREFIXES if kind.match(line[at:])), None)
        match = kind.match(line[at:]) if kind else None
        if kind is None or match is None or not match.end():
            return ()
        found.append(kind)
        at += match.end()
    return tuple(dict.fromkeys(found))


def _stripped(line: str, kinds: Iterable[re.Pattern[str]]) -> tuple[str, str]:
    """Return a line without its prefixes, in the order of `kinds`, and the process they name."""
    end = "\n" if line.endswith("\n") else ""
    text, rank = line.removesuffix("\n").removesuffix("\r"), ""
    for kind in kinds:
        if match := kind.match(text):
            rank = match.groupdict().get("rank") or rank
            text = text[match.end() :]
    return text + end, rank
