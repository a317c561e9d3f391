"""How many requests for jobs' files were answered, and with what, by day.

A folder holds one file per process and day, ``jobs-<day>-<host>-<pid>-<token>.json``; that process
alone writes it, whole each time, and a week later any process removes it. So counts survive
restarts, and several services may share a folder. No user, job or host name is stored of clients.

Format history
--------------
1. JSON with ``version``, ``day`` (UTC, ``2026-11-22``) and ``rows``: library, release, slot that
   answered, nodes, ppn (``"8"``, or ``"1 8"`` where a hook prepares several), outcome, and how
   many requests.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import structlog

from colltune.errors import OutputError
from colltune.files import write_text
from colltune.files.reading import json_of

FORMAT_VERSION = 1
DAYS_KEPT = 8
MOST_ROWS = 2000
"""Per process and day; what is asked beyond them is counted without its shape."""
_MOST_FILES = 500


class RequestOutcome(StrEnum):
    """What a request for a job's files was answered with."""

    TUNED = "tuned"
    UNSURE = "no gain was sure enough"
    OUTSIDE = "its shape is outside what was measured"
    CONTROL = "it belongs to the control group"
    ALONE = "it has one process"
    NO_BUNDLE = "no bundle fits its MPI release"
    BUSY = "the service was not ready, or too busy"


class CountedRequest(NamedTuple):
    """What one request asked for, the slot whose bundle answered, and what came of it."""

    library: str
    release: str
    slot: str
    nodes: int
    ppn: str
    outcome: RequestOutcome


Counts = Counter[CountedRequest]


class JobCounts:
    """Counts in memory, and in a file of its own in `folder`, if there is one; never raises."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:60] or "host"
        self._name = f"{host}-{os.getpid()}-{secrets.token_hex(4)}.json"
        self._by_day: dict[str, Counts] = {}
        self._unwritten: set[str] = set()
        self._lock = Lock()
        self._fails = False

    def note(self, asked: CountedRequest, times: int = 1) -> None:
        today = _today().isoformat()
        with self._lock:
            counts = self._by_day.setdefault(today, Counter())
            if asked not in counts and len(counts) >= MOST_ROWS:
                asked = CountedRequest("", "", asked.slot, 0, "", asked.outcome)
            counts[asked] += times
            self._unwritten.add(today)

    def flush(self) -> None:
        """Write the days that changed; what cannot be written is kept for later."""
        with self._lock:
            changed, self._unwritten = self._unwritten, set()
            rows = {d: list(found.items()) for d, found in self._by_day.items() if d in changed}
            oldest = _oldest()
            self._by_day = {d: counts for d, counts in self._by_day.items() if d >= oldest}
        if self._folder is None or not rows:
            return
        try:
            for day, found in rows.items():
                told = {"version": FORMAT_VERSION, "day": day, "rows": [[*k, n] for k, n in found]}
                write_text(self._path(day), json.dumps(told) + "\n")
            self._fails = False
            self._remove_old(oldest)
        except OutputError as error:
            with self._lock:
                self._unwritten |= changed
            if not self._fails:
                structlog.get_logger().warning("jobs cannot be counted on disk", why=str(error))
            self._fails = True

    def days(self) -> dict[str, Counts]:
        """Return what all processes counted, by day, the latest day first."""
        with self._lock:
            found = {day: Counter(counts) for day, counts in self._by_day.items()}
        for day, counts in self._of_others():
            found.setdefault(day, Counter()).update(counts)
        return {day: found[day] for day in sorted(found, reverse=True)}

    def _path(self, day: str) -> Path:
        return (self._folder or Path()) / f"jobs-{day}-{self._name}"

    def _of_others(self) -> Iterator[tuple[str, Mapping[CountedRequest, int]]]:
        if self._folder is None:
            return
        oldest = _oldest()
        files = sorted(self._folder.glob("jobs-*.json"), reverse=True)
        for file in files[:_MOST_FILES]:
            if file.name.removeprefix("jobs-") >= oldest and not file.name.endswith(self._name):
                with suppress(OSError, ValueError, KeyError, TypeError):
                    yield _read(file, file.stat().st_mtime_ns)

    def _remove_old(self, oldest: str) -> None:
        """Remove old days, and what was left of writing them by whoever was killed at it."""
        for file in (self._folder or Path()).glob("*jobs-*.json*"):
            if file.name.lstrip(".").removeprefix("jobs-") < oldest:
                with suppress(OSError):
                    file.unlink()


@lru_cache(_MOST_FILES)
def _read(file: Path, _changed_ns: int) -> tuple[str, Mapping[CountedRequest, int]]:
    """Return a file's day and counts; ValueError, KeyError or TypeError if it is damaged."""
    told = json_of(file.read_bytes())
    if told["version"] != FORMAT_VERSION:
        raise ValueError("it is of another version")
    counts: Counts = Counter()
    for library, release, slot, nodes, ppn, outcome, count in told["rows"]:
        asked = CountedRequest(
            str(library), str(release), str(slot), int(nodes), str(ppn), RequestOutcome(outcome)
        )
        counts[asked] += int(count)
    return date.fromisoformat(told["day"]).isoformat(), counts


def _today() -> date:
    return datetime.now(UTC).date()


def _oldest() -> str:
    return (_today() - timedelta(days=DAYS_KEPT - 1)).isoformat()
