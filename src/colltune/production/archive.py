"""Days of production in Parquet: what jobs reported, added up by what can be compared.

One file is one part of a day, ``<day>.<store>.<first>-<last>.parquet``: the summaries of that day
that the store ``<store>`` numbered from ``<first>`` to ``<last>``. So a file says which summaries
are in it, and what was interrupted between writing it and removing them is not merged twice.
pyarrow, DuckDB and pandas read the files.

Format history
--------------
1. Columns of ``SCHEMA``, sorted by the first eleven; file metadata
   ``colltune.production_version``. ``jobs`` counts jobs, ``calls`` calls of processes, ``timed``
   those of them that were timed, ``process_s`` the estimated seconds of all. ``timed_jobs`` are
   jobs with timed calls; ``log_s`` and ``log_s_squares`` the sums over them of the natural
   logarithm of their calls' mean seconds, and of its square. ``times`` is the sketch of the
   timed calls, as a profile has it (`colltune.dataset.profile`). ``layout`` and ``job_layout``
   are ``4x2``, empty where nodes have different numbers of processes.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from colltune.domain import Shape
from colltune.errors import say
from colltune.files import whole, writing
from colltune.production.summary import MpiRun, Summary

FORMAT_VERSION = 1
SCHEMA = pa.schema(
    [
        ("day", pa.string()),
        ("slot", pa.string()),
        ("arm", pa.string()),
        ("bundle", pa.string()),
        ("program", pa.string()),
        ("job_nprocs", pa.int64()),
        ("job_layout", pa.string()),
        ("collective", pa.string()),
        ("nprocs", pa.int64()),
        ("layout", pa.string()),
        ("first_bytes", pa.int64()),
        ("jobs", pa.int64()),
        ("calls", pa.int64()),
        ("timed", pa.int64()),
        ("timed_jobs", pa.int64()),
        ("process_s", pa.float32()),
        ("log_s", pa.float32()),
        ("log_s_squares", pa.float32()),
        ("times", pa.map_(pa.int16(), pa.int64())),
    ],
    {"colltune.production_version": str(FORMAT_VERSION)},
)
_FLOATS = [field.name for field in SCHEMA if pa.types.is_floating(field.type)]
_WORDS = [field.name for field in SCHEMA if field.name not in (*_FLOATS, "times")]
_STORED: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 9,
    "use_dictionary": [*_WORDS, "times.key_value.key", "times.key_value.value"],
    "use_byte_stream_split": _FLOATS,
}
_ROW_GROUP = 5_000
"""About 20 MB of memory."""
_MOST = 2**62
"""Sums of jobs that lie still have room in a column."""
_NAME = re.compile(
    r"(\d{4}-\d\d-\d\d)\.([0-9a-f]+)\.(\d+)-(\d+)\.parquet",
)
_UNFINISHED = ".merging-"
_TABLE = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE sums (
    a, b, c, d, e, f, g, h, i, j, numbers, times, PRIMARY KEY (a, b, c, d, e, f, g, h, i, j)
) WITHOUT ROWID;
BEGIN;
"""
_FIND = """
SELECT numbers, times FROM sums
WHERE (a, b, c, d, e, f, g, h, i, j) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
"""The key's columns in their order, without the day."""
_Key: TypeAlias = tuple[str | int, ...]
_Sums: TypeAlias = list[Any]
"""The columns after the key; ``times`` is a dict."""


class ArchivePart(NamedTuple):
    """The summaries of a day that a store numbered from ``first`` to ``last``."""

    day: str
    store: int
    first: int
    last: int

    @property
    def file(self) -> str:
        return f"{self.day}.{self.store:x}.{self.first}-{self.last}.parquet"


class Archive:
    """The files of a folder; one process at a time writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def parts(self, store: int) -> list[ArchivePart]:
        """Return the parts that came from the store `store`, by day."""
        return [part for part in self._parts() if part.store == store]

    @contextmanager
    def merging(self, part: ArchivePart) -> Iterator[Merged]:
        """Yield what takes the summaries of `part`; at the end its file is there, whole."""
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for remnant in self._folder.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(remnant, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=self._folder) as work:
                merged = Merged(Path(work))
                yield merged
                file = Path(work) / part.file
                with whole(file) as temporary:
                    merged.write(temporary, part.day)
                file.replace(self._folder / part.file)
            # the name, too, is on the disk before the summaries are removed
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def rows(self, since: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of all days from `since` on."""
        wanted = [field for field in SCHEMA if columns is None or field.name in columns]
        names = [field.name for field in wanted]
        files = [self._folder / part.file for part in self._parts() if part.day >= since]
        tables = [_read(file, names) for file in files]
        return pa.concat_tables([pa.schema(wanted).empty_table(), *tables])

    def remove_before(self, day: str) -> None:
        with writing(self._folder, "Correct its owner or mode."):
            for part in self._parts():
                if part.day < day:
                    (self._folder / part.file).unlink(missing_ok=True)

    def _parts(self) -> list[ArchivePart]:
        names = sorted(path.name for path in self._folder.glob("*.parquet"))
        found = [
            ArchivePart(match[1], int(match[2], 16), int(match[3]), int(match[4]))
            for match in map(_NAME.fullmatch, names)
            if match
        ]
        # two processes wrote the same where one of them hung for longer than it may
        return [part for part in found if not any(_is_within(part, other) for other in found)]


class Merged:
    """Sums of a part, by key in a database in the folder `work`, so that memory stays small."""

    def __init__(self, work: Path) -> None:
        self._sums = sqlite3.connect(work / "sums", isolation_level=None)
        self._sums.executescript(_TABLE)

    def take(self, summary: Summary) -> None:
        for key, sums in _of_job(summary).items():
            stored = self._sums.execute(_FIND, key).fetchone()
            if stored:
                _add(sums, _sums_of(*stored))
            *numbers, times = sums
            row = (*key, json.dumps(numbers), json.dumps([*times.items()]))
            self._sums.execute("REPLACE INTO sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def write(self, path: Path, day: str) -> None:
        with closing(self._sums), pq.ParquetWriter(path, SCHEMA, **_STORED) as writer:
            rows = self._sums.execute("SELECT * FROM sums ORDER BY a, b, c, d, e, f, g, h, i, j")
            while some := rows.fetchmany(_ROW_GROUP):
                full = ((day, *key, *_bounded(_sums_of(n, t))) for *key, n, t in some)
                columns = zip(*full, strict=True)
                arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
                writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))


def _of_job(summary: Summary) -> dict[_Key, _Sums]:
    """Return the sums of one job: what it did in several runs of a kind is one observation."""
    found: dict[_Key, _Sums] = {}
    for run in summary.runs:
        group = _group(summary, run)
        for use in run.uses:
            kind = use.kind
            place = (kind.collective.value, kind.nprocs, _layout(kind.shape), kind.first_bytes)
            sums = found.setdefault((*group, *place), _nothing())
            times = dict(use.times)
            _add(sums, [0, use.process_calls, use.timed, 0, use.process_s, 0.0, 0.0, times])
    for sums in found.values():
        is_timed = bool(sums[-1]) and sums[4] > 0
        log_s = math.log(sums[4] / sums[1]) if is_timed else 0.0
        sums[0], sums[3], sums[5], sums[6] = 1, int(is_timed), log_s, log_s**2
    return found


def _group(summary: Summary, run: MpiRun) -> tuple[str | int, ...]:
    job = run.job
    given = next(
        (g for g in summary.given if (g.library, g.release) == (job.library, job.release)), None
    )
    # the user's own settings decided
    if given is None or job.arm == "own":
        arm, bundle = job.arm, ""
    else:
        arm, bundle = given.arm.value, given.bundle_id
    slot = f"{job.library}-{job.release}"
    return (slot, arm, bundle, job.program, job.nprocs, _layout(job.shape))


def _layout(shape: Shape | None) -> str:
    return f"{shape.nodes}x{shape.ppn}" if shape else ""


def _nothing() -> _Sums:
    return [0, 0, 0, 0, 0.0, 0.0, 0.0, {}]


def _add(sums: _Sums, more: _Sums) -> None:
    for at, value in enumerate(more[:-1]):
        sums[at] += value
    times = sums[-1]
    for bucket, calls in more[-1].items():
        times[bucket] = times.get(bucket, 0) + calls


def _sums_of(numbers: str, times: str) -> _Sums:
    return [*json.loads(numbers), dict(json.loads(times))]


def _bounded(sums: _Sums) -> _Sums:
    *numbers, times = sums
    buckets = [(bucket, min(calls, _MOST)) for bucket, calls in sorted(times.items())]
    return [*(min(number, _MOST) for number in numbers), buckets]


def _is_within(part: ArchivePart, other: ArchivePart) -> bool:
    return (
        part != other
        and part[:2] == other[:2]
        and other.first <= part.first
        and part.last <= other.last
    )


def _read(file: Path, columns: list[str]) -> pa.Table:
    try:
        with pq.ParquetFile(file) as parquet:
            version = (parquet.schema_arrow.metadata or {}).get(b"colltune.production_version", b"")
            if version.decode() != str(FORMAT_VERSION):
                told = version.decode() or "unknown"
                raise say("format-version", place=file, version=told, known=FORMAT_VERSION)
            return parquet.read(columns).replace_schema_metadata(SCHEMA.metadata)
    except (OSError, pa.ArrowException) as error:
        raise say("damaged", path=file, why=error) from error
