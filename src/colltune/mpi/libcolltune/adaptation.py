"""Reads what libcolltune's feedback did to alltoallv's threshold: the files of COLLTUNE_FEEDBACK.

Every process that led a communicator, as its rank 0, leaves one file, ``feedback-RANK.csv``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from colltune.errors import DataError, say
from colltune.files.reading import text_of

_VERSION = "# colltune feedback 1"
_COLUMNS = ("communicator", "size", "iteration", "threshold_bytes", "time_s", "kind", "verdict")


class IterationKind(StrEnum):
    """What an iteration was for; all but ordinary ones are timed by the slowest process."""

    ORDINARY = "ordinary"
    REFERENCE = "reference"
    TEST = "test"


class IterationVerdict(StrEnum):
    """What rank 0 decided after an iteration."""

    NONE = ""
    KEPT = "kept"
    REJECTED = "rejected"
    RESTARTED = "restarted"


@dataclass(frozen=True)
class Iteration:
    """One call of alltoallv; messages of fewer than ``threshold_bytes`` were sent eagerly.

    ``number`` counts the communicator's calls from 0; ``time_s`` is of the slowest process, or of
    rank 0 where ``kind`` is ordinary; ``verdict`` is what was decided after it.
    """

    number: int
    threshold_bytes: int
    time_s: float
    kind: IterationKind
    verdict: IterationVerdict


@dataclass(frozen=True)
class Adaptation:
    """All calls of one communicator of `nprocs` processes that libcolltune adapted.

    ``communicator`` numbers it within the file, ``iterations`` are in the order of the calls.
    """

    communicator: int
    nprocs: int
    iterations: tuple[Iteration, ...]


def read_adaptations(path: Path) -> tuple[Adaptation, ...]:
    """Return what the file at `path`, one of COLLTUNE_FEEDBACK, tells, an entry per communicator.

    Raises
    ------
    DataError
        If it cannot be read or is not such a file; the message names the line.
    """
    lines = text_of(path, DataError, "name a file that COLLTUNE_FEEDBACK made").splitlines()
    if not lines or lines[0] != _VERSION:
        raise say("not-feedback", path=path)
    if lines[1:2] != [",".join(_COLUMNS)]:
        raise say("feedback-columns", path=path, columns=",".join(_COLUMNS))
    found: dict[tuple[int, int], list[Iteration]] = {}
    for key, iteration in _rows(path, lines[2:]):
        found.setdefault(key, []).append(iteration)
    return tuple(Adaptation(*key, tuple(iterations)) for key, iterations in found.items())


def _rows(path: Path, lines: list[str]) -> Iterator[tuple[tuple[int, int], Iteration]]:
    """Yield communicator and size with each iteration."""
    for number, row in enumerate(csv.reader(lines), start=3):
        try:
            communicator, size, iteration, threshold, time, kind, verdict = row
            yield (
                (int(communicator), int(size)),
                Iteration(
                    int(iteration),
                    int(threshold),
                    float(time),
                    IterationKind(kind),
                    IterationVerdict(verdict),
                ),
            )
        except ValueError as error:
            raise say(
                "feedback-row", path=path, number=number, count=len(_COLUMNS), why=error
            ) from error
