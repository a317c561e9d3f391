"""Starts the C program that times tasks, and keeps what it measured, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.bench import build
from colltune.bench.launchers import Launcher, Start, launcher_of
from colltune.domain import Configuration, Shape
from colltune.errors import CampaignError, DataError, OutputError, ProgramError
from colltune.files.reading import json_of
from colltune.han import raw
from colltune.han.series import Wanted
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.provenance import usable_cores

_START_S = 30.0
_SILENCE_S = 60.0
_COMPLAINT = "collbench: "
_RAW, _PLAN, _WANTED = "raw.txt", "plan.txt", "wanted.json"
_VERSION = 1


@dataclass(frozen=True)
class Ended:
    """How a launch ended: what it measured, and why it was not the plan's end.

    ``crashed`` is empty if the plan or the budget ended it, else it tells what happened.
    """

    output: raw.RawOutput
    wall_s: float
    crashed: str = ""
    timed_out: bool = False


class TaskBench:
    """Times series of tasks with the MPI of an installation.

    Parameters
    ----------
    installation
        The Open MPI to measure.
    cache
        Folder for the compiled program; default: the user's cache folder.
    launcher
        What starts the program; default: the library's own.
    """

    def __init__(
        self,
        installation: Installation,
        cache: Path | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        if installation.library != LIBRARY:
            title = LIBRARIES[installation.library].title
            raise ProgramError(
                f"{installation.mpirun} is of {title}; HAN is a part of Open MPI: name its mpirun"
            )
        han_setups.low_modules(installation.release)
        self.release = installation.release
        self._mpi = installation
        self._cache = cache
        self._launcher = launcher or launcher_of(installation)

    def run(
        self,
        launched: Shape,
        wanted: Sequence[Wanted],
        budget_s: float,
        folder: Path,
        progress: Callable[[int, float], None],
    ) -> Ended:
        self._insist_on_free_hand()
        settings = [settings_of(self.release, one.setup) for one in wanted]
        owner = f"{socket.gethostname()} {os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RAW).unlink(missing_ok=True)
        _save_wanted(folder / _WANTED, wanted)
        text = raw.plan_text(launched, wanted, settings, budget_s, owner)
        (folder / _PLAN).write_text(text, encoding="utf-8")
        started = time.monotonic()
        watcher = _Watcher(folder / _RAW, progress)
        outcome = process.run(
            self._command(launched, folder),
            timeout_s=budget_s + _START_S + _SILENCE_S,
            env=self._environment(launched),
            watch=watcher,
        )
        output = raw.read_raw(folder / _RAW, wanted)
        wall_s = time.monotonic() - started
        if output.ended:
            return Ended(output, wall_s)
        if _COMPLAINT in outcome.stderr or output.in_flight is None:
            raise ProgramError(f"the program that times tasks failed\n{outcome.explain()}")
        return Ended(output, wall_s, outcome.explain(), outcome.timed_out)

    def _command(self, launched: Shape, folder: Path) -> tuple[str, ...]:
        program = build.han_tasks(
            self._mpi.mpicc, self._mpi.compile_line, self._cache, self._mpi.launch_environment()
        )
        words = (program, folder / _PLAN, folder / _RAW)
        return self._launcher.command(Start(_started(launched), words, cores=usable_cores()))

    def _environment(self, launched: Shape) -> dict[str, str]:
        user = os.environ | self._mpi.launch_environment()
        return self._launcher.environment(user, {}, _started(launched))

    def _insist_on_free_hand(self) -> None:
        library = LIBRARIES[LIBRARY]
        honoured = library.honour_user({"OMPI_MCA_coll_han_priority": ""}, os.environ)
        if honoured.reason:
            raise CampaignError(
                f"the environment decides what Open MPI runs, so that no module can be measured"
                f" under its own name: {honoured.reason}; unset it"
            )


def settings_of(release: str, setup: Configuration) -> dict[str, int | str]:
    """Return the control variables of a setup's modules: coll/han itself has no part in tasks."""
    found = han_setups.variables(release, setup)
    return {name: value for name, value in found.items() if name.startswith("coll_adapt_")}


def left_behind(folder: Path) -> tuple[raw.RawOutput, tuple[Wanted, ...]] | None:
    """Return what a launch measured that was killed together with its owner; None of none."""
    if not (folder / _WANTED).exists():
        return None
    wanted = _load_wanted(folder / _WANTED)
    return raw.read_raw(folder / _RAW, wanted), wanted


def clear(folder: Path) -> None:
    """Remove the files of a launch, whose measurements are elsewhere."""
    with suppress(OSError):
        shutil.rmtree(folder)


def _started(shape: Shape) -> Shape:
    """Return what the launcher is asked for: one host where tests lay several nodes on it."""
    return Shape(1, shape.nprocs) if os.environ.get("COLLBENCH_NODES") == "by-rank" else shape


def _save_wanted(path: Path, wanted: Sequence[Wanted]) -> None:
    series = [[str(w.shape), w.setup.id, w.least, w.most, w.reps] for w in wanted]
    try:
        path.write_text(json.dumps({"version": _VERSION, "series": series}), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _load_wanted(path: Path) -> tuple[Wanted, ...]:
    try:
        found = json_of(path.read_text(encoding="utf-8"))
        if found["version"] != _VERSION:
            raise DataError(f"{path}: of another version of colltune; remove its folder")
        return tuple(_wanted(*words) for words in found["series"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: {error}; remove its folder") from error


def _wanted(shape: str, setup: str, least: int, most: int, reps: int) -> Wanted:
    nodes, _, ppn = shape.partition("x")
    return Wanted(Shape(int(nodes), int(ppn)), Configuration.parse(setup), least, most, reps)


@dataclass
class _Watcher:
    """Gives a launch up whose output has not grown for long; tells how many series ended."""

    path: Path
    progress: Callable[[int, float], None]
    started: float = 0.0
    size: int = -1
    since: float = 0.0
    ended: int = 0

    def __post_init__(self) -> None:
        self.started = self.since = time.monotonic()

    def __call__(self) -> bool:
        now = time.monotonic()
        with suppress(OSError):
            size = self.path.stat().st_size
            if size != self.size:
                self.size, self.since = size, now
                self.ended = self.path.read_bytes().count(b"\ne ")
        self.progress(self.ended, now - self.started)
        return now - self.since < _SILENCE_S
