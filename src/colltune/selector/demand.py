"""What jobs asked for, counted, so that the next campaign measures what they need.

A folder holds one file per process that counts, ``demand-<host>-<pid>-<token>.jsonl``; nobody else
writes to it. A line says how often a shape was asked for within an hour. A file that has become
large is written anew, each hour and shape once, without its oldest hours if need be.

Format history of a line
------------------------
1. JSON with ``version``, ``hour`` (UTC, ``2026-11-22T05``), ``library``, ``release``, ``nodes``,
   ``ppn`` and ``count``. The same hour and shape may come again; counts add up.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from colltune.domain import LARGEST_NUMBER, Shape
from colltune.errors import OutputError, say
from colltune.files import write_text
from colltune.files.reading import json_of

FORMAT_VERSION = 1
MOST_WAITING = 10_000
"""Different things to be counted between two writes; more are left out."""
MOST_BYTES = 4 << 20
"""Of a process's file."""
_LOG = logging.getLogger(__name__)
_LONGEST_NAME = 100
_HOUR = "%Y-%m-%dT%H"


@dataclass(frozen=True, order=True)
class Demand:
    """How often a shape was asked for, for one release of an MPI library."""

    library: str
    release: str
    nodes: int
    ppn: int
    count: int


class _Key(NamedTuple):
    hour: str
    library: str
    release: str
    nodes: int
    ppn: int


class DemandLog:
    """Counts what is asked for and appends it to a file of its own in `folder`; never raises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: Counter[_Key] = Counter()
        self._lock = Lock()
        self._writing = Lock()
        self._file: tuple[int, Path] | None = None
        self._fails = False

    def note(self, library: str, release: str, shape: Shape, count: int = 1) -> None:
        hour = datetime.now(UTC).strftime(_HOUR)
        key = _Key(hour, library, release, shape.nodes, shape.ppn)
        with self._lock:
            if key in self._waiting or len(self._waiting) < MOST_WAITING:
                self._waiting[key] += count

    def flush(self) -> None:
        """Append what was counted since the last time; what cannot be written is kept for later."""
        with self._writing:
            with self._lock:
                taken, self._waiting = self._waiting, Counter()
            if not taken:
                return
            lines = (
                json.dumps({"version": FORMAT_VERSION, **key._asdict(), "count": count})
                for key, count in sorted(taken.items())
            )
            try:
                path = self._path()
                _append(path, "".join(f"{line}\n" for line in lines).encode())
                if path.stat().st_size > MOST_BYTES:
                    _compact(path)
                self._fails = False
            except OutputError as error:
                _LOG.warning("%s", error)
            except OSError as error:
                with self._lock:
                    self._waiting.update(taken)
                if not self._fails:
                    _LOG.warning(
                        "the requests of jobs cannot be written to %s: %s",
                        self._folder,
                        error.strerror or error,
                    )
                self._fails = True

    def _path(self) -> Path:
        """Return this process's file; a forked one takes another."""
        pid = os.getpid()
        if self._file is None or self._file[0] != pid:
            host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:60] or "host"
            name = f"demand-{host}-{pid}-{secrets.token_hex(4)}.jsonl"
            self._file = pid, self._folder / name
        return self._file[1]


def _append(path: Path, content: bytes) -> None:
    """Append all of `content` or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            # a shared file system may tell only now that it is full
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _compact(path: Path) -> None:
    """Write a file anew, each hour and shape once; the latest hours fill at most half the room."""
    sums: Counter[_Key] = Counter()
    for hour, found in filter(None, map(_line, path.read_bytes().splitlines())):
        sums[_Key(hour, *astuple(found)[:4])] += found.count
    kept: list[str] = []
    room = MOST_BYTES // 2
    for key, count in sorted(sums.items(), reverse=True):
        line = json.dumps({"version": FORMAT_VERSION, **key._asdict(), "count": count}) + "\n"
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    write_text(path, "".join(reversed(kept)))


def read_demand(folder: Path) -> list[Demand]:
    """Return what jobs asked for, most often first; damaged lines are skipped."""
    sums: Counter[tuple[str, str, int, int]] = Counter()
    for _, demand in _lines(folder):
        sums[demand.library, demand.release, demand.nodes, demand.ppn] += demand.count
    found = [Demand(*key, count) for key, count in sums.items()]
    return sorted(found, key=lambda d: (-d.count, d))


def counted_hours(folder: Path) -> float:
    """Return the hours from the first that jobs were counted in to the last one's end."""
    hours = sorted({hour for hour, _ in _lines(folder)})
    if not hours:
        return 0.0
    first, last = (datetime.strptime(hour, _HOUR) for hour in (hours[0], hours[-1]))
    return (last - first).total_seconds() / 3600 + 1


def _lines(folder: Path) -> Iterator[tuple[str, Demand]]:
    """Yield what each line counts, and the hour; damaged lines are skipped."""
    if not folder.is_dir():
        raise say("no-demand", folder=folder)
    for file in sorted(folder.glob("demand-*.jsonl")):
        try:
            with file.open("rb") as stream:
                yield from filter(None, map(_line, stream))
        except OSError as error:
            raise say("cannot-read", place=file, why=error.strerror) from error


def _line(text: bytes) -> tuple[str, Demand] | None:
    """Return what a line says, and its hour; None for one that is damaged."""
    try:
        found = json_of(text)
        if type(found) is not dict or found["version"] != FORMAT_VERSION:
            return None
        demand = Demand(*(found[name] for name in Demand.__dataclass_fields__))
        datetime.strptime(found["hour"], _HOUR)
    except (ValueError, KeyError, TypeError):
        return None
    names, numbers = astuple(demand)[:2], astuple(demand)[2:]
    good = all(type(name) is str and 0 < len(name) <= _LONGEST_NAME for name in names) and all(
        type(number) is int and 0 < number <= LARGEST_NUMBER for number in numbers
    )
    if not good or demand.nodes * demand.ppn > LARGEST_NUMBER:
        return None
    return found["hour"], demand
