"""One run of the tests in one way; it goes on behind what hangs or crashes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from tests.foreign.recording import END

START = "MPI_Init"
"""Stands for the beginning of the program, before all tests."""
STILL_S = 120.0
"""A run hangs when no process has begun or ended a test for so long."""
_MOST_STOPS = 30
_LONGEST_S = 4 * 3600.0
_POLL_S = 0.05
_MARK = "COLLTUNE_FOREIGN_RUN"
_WORST_FIRST = ("fail", "skip", "pass")

Outcomes = dict[str, str]
"""Of each test: pass, skip, fail, hang or crash."""
Record = list[tuple[str, str]]
"""What one process wrote: words (begin, or how it ended) and tests."""


@dataclass(frozen=True)
class Job:
    """A command with its arguments that starts `nprocs` processes, and all its variables."""

    command: Sequence[str | Path]
    nprocs: int
    variables: Mapping[str, str]


def moves(records: Path) -> bool:
    """Tell whether a process wrote something lately."""
    written = max(path.stat().st_mtime for path in (records, *records.iterdir()))
    return time.time() - written < STILL_S


def run(
    job: Job,
    folder: Path,
    tell: Callable[[str], None],
    goes_on: Callable[[Path], bool] = moves,
) -> Outcomes:
    """Run all tests, starting again behind each that stops a run; return how they ended.

    Records and outputs are kept in the new `folder`; `tell` hears what stopped a run. A run hangs
    when `goes_on` of its records returns False.
    """
    outcomes: Outcomes = {}
    for attempt in range(_MOST_STOPS):
        records = folder / str(attempt)
        records.mkdir(parents=True)
        how = _start(job, records, outcomes, goes_on)
        found, complete = merged([_read(records / str(n)) for n in range(job.nprocs)], how)
        outcomes |= found
        if how != "end":
            *_, last = found
            tell(f"{found[last]} in {last}; {records}.log")
        if complete:
            break
    return outcomes


def merged(records: Sequence[Record], how: str) -> tuple[Outcomes, bool]:
    """Return how the tests of one start ended, and whether none are left.

    `how` the start itself ended: end, hang or crash. A test ended as badly as on the worst process.
    One that did not end on all processes stopped the run; what began behind it begins again.
    """
    if not all(records):
        return {START: how}, True
    ends = [{name: word for word, name in record if word != "begin"} for record in records]
    begun = {name for record in records for word, name in record if word == "begin"}
    outcomes: Outcomes = {}
    for name in dict.fromkeys(name for record in records for _, name in record):
        words = {end[name] for end in ends if name in end}
        if name == END:
            return outcomes | {END: "pass" if how == "end" else how}, True
        if name in begun and not all(name in end for end in ends):
            return outcomes | {name: "crash" if how == "end" else how}, False
        outcomes[name] = min(words, key=_WORST_FIRST.index)
    return outcomes, True


def _start(job: Job, records: Path, done: Outcomes, goes_on: Callable[[Path], bool]) -> str:
    """Run the tests that are not done once, and end all processes that are left of it."""
    names = records.with_suffix(".done")
    names.write_text("".join(f"{name}\n" for name in done), encoding="utf-8")
    try:
        outcome = process.run(
            [*job.command, records, names],
            timeout_s=_LONGEST_S,
            env={**job.variables, _MARK: str(records)},
            watch=lambda: goes_on(records),
        )
    finally:
        _end_what_is_left(f"{_MARK}={records}")
    log = f"{outcome.explain()}\n\n{outcome.stdout}\n{outcome.stderr}"
    records.with_suffix(".log").write_text(log, encoding="utf-8")
    return "hang" if outcome.timed_out else "end" if outcome.ok else "crash"


def _end_what_is_left(mark: str) -> None:
    """End the processes that have the variable `mark`, which no others have, and see them gone."""
    while marked := list(_marked(mark)):
        for number in marked:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(_POLL_S)


def _marked(mark: str) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def _read(path: Path) -> Record:
    if not path.exists():
        return []
    # a process that is ended while it writes leaves a part of a line
    lines = (line for line in path.read_text(encoding="utf-8").splitlines(True) if line[-1] == "\n")
    return [(word, name) for word, _, name in (line.strip().partition(" ") for line in lines)]
