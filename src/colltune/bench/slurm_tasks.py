"""What became of the job arrays that measure into a dataset: Slurm's word, or the tasks' own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.bench.slurm import folder_of

_TIMEOUT_S = 60.0
_MEND = "ask where Slurm's client programs are"
_NAME = re.compile(r"\d+_\d+")


@dataclass(frozen=True)
class Task:
    """A task of a job array.

    Attributes
    ----------
    name
        Slurm's name of it, ``17_1``.
    state
        Slurm's state of it, ``RUNNING``; ``ENDED`` when it is not in the queue any more.
    left
        Wall time that is left of it, as Slurm writes it; empty when it has ended.
    said
        Why it waits, or the last that it said of itself.
    """

    name: str
    state: str
    left: str
    said: str


def tasks(dataset: Path) -> tuple[Task, ...]:
    """Return the tasks that measure, or have measured, into the folder `dataset`."""
    folder = folder_of(dataset)
    queued = _queue(file.stem for file in folder.glob("*.job"))
    logs = {file.stem: file for file in folder.glob("*.log") if _NAME.fullmatch(file.stem)}
    names = sorted({*queued, *logs}, key=lambda name: [int(n) for n in name.split("_")])
    return tuple(
        queued.get(name) or Task(name, "ENDED", "", _last_word(name, logs[name])) for name in names
    )


def _queue(jobs: Iterable[str]) -> dict[str, Task]:
    """Return the tasks of `jobs` that are in Slurm's queue."""
    numbers = ",".join(sorted(jobs))
    if not numbers:
        return {}
    squeue = process.find("squeue", _MEND)
    options = ("--array", "--noheader", f"--jobs={numbers}", "--format=%i|%T|%L|%r")
    outcome = process.run([squeue, *options], timeout_s=_TIMEOUT_S)
    if not outcome.ok and "nvalid job id" not in outcome.stderr:
        process.check(outcome, "asking for the jobs")
    rows = [line.split("|", 3) for line in outcome.stdout.splitlines()]
    return {
        name: Task(name, state, left, "" if reason == "None" else reason)
        for name, state, left, reason in rows
    }


def _last_word(name: str, log: Path) -> str:
    said = f"colltune: task {name}: "
    lines = log.read_text(errors="replace").splitlines()
    words = [line.removeprefix(said) for line in lines if line.startswith(said)]
    return words[-1] if words else f"was ended without a word; see {log}"
