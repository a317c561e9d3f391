"""Measures with the OSU Micro-Benchmarks: one start of ``osu_<collective>`` per cell.

The algorithm is forced by the environment of the start. What counts is the column ``Max Latency``
(option -f): the maximum over ranks of the mean over the calls of a start, the nearest to our time
that these programs tell. A repetition is therefore such a mean, of as many calls as fit.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from colltune import process
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher, Start
from colltune.bench.schedule import Cell
from colltune.dataset.importers import osu
from colltune.domain import Collective, Context, Measurement, Portfolio, RunStatus, Shape
from colltune.errors import CampaignError, DataError, ProgramError
from colltune.mpi import library
from colltune.mpi.installation import Installation
from colltune.provenance import usable_cores

_FOLDER = "COLLTUNE_OSU"
_MEND = f"put the programs of the OSU Micro-Benchmarks on PATH or name their folder in {_FOLDER}"
_WARM_UP_CALLS, _BLIND_CALLS, _MOST_CALLS = 2, 10, 1000
_LAUNCH_S = 1.0
_LEAST_S = 1.0
_REDUCING = (Collective.ALLREDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)
# of the last one the programs' sizes are not those of blocks
_NOT_MEASURED = (Collective.EXSCAN, Collective.SCAN, Collective.REDUCE_SCATTER_BLOCK)
_ELEMENT_BYTES = 4
_BLAME = {Ending.CRASH: RunStatus.CRASH, Ending.HANG: RunStatus.TIMEOUT}


class OsuBackend:
    """Measures with programs that are installed beside colltune.

    Parameters
    ----------
    installation
        The MPI to measure, for which the programs were built.
    launcher
        What starts them.
    """

    measures_subshapes = False

    def __init__(self, installation: Installation, launcher: Launcher) -> None:
        self._mpi, self._launcher = installation, launcher
        self._library = library(installation.library)
        self._time_s: dict[Cell, float] = {}
        self.launch_s = _LAUNCH_S

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        """Return the backend for the campaign's MPI and launcher."""
        installation = means.installation()
        return cls(installation, means.launcher(installation))

    def context(self, machine: str) -> Context:
        """Return this machine's name with library and release."""
        return Context(machine, self._mpi.library, self._mpi.release)

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        """Return what the catalogue offers, within the campaign's parameter values and globs."""
        offered = campaign.offered(self._library, self._mpi.release, collective)
        return offered.filtered(campaign.only, campaign.skip)

    def feasible(self, cell: Cell) -> bool:
        """Tell whether there is a program for it, and its configuration runs there as itself."""
        configuration, instance = cell.configuration, cell.instance
        collective, msize_bytes = instance.collective, instance.msize_bytes
        whole = collective not in _REDUCING or not msize_bytes % _ELEMENT_BYTES
        sized = (msize_bytes > 0) is (collective is not Collective.BARRIER)
        if collective in _NOT_MEASURED or not whole or not sized:
            return False
        release = self._library.at(self._mpi.release)
        where = (configuration, instance.shape.nprocs, msize_bytes)
        return configuration.is_default or (
            not release.runs(configuration, instance.shape).why_not(msize_bytes)
            and release.effective(*where) == configuration
        )

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        """Return one group per configuration and shape."""
        groups: dict[tuple[str, Shape], list[Cell]] = {}
        for cell in cells:
            groups.setdefault((cell.configuration.id, cell.instance.shape), []).append(cell)
        return tuple(tuple(group) for group in groups.values())

    def provenance(self) -> Mapping[str, str]:
        """Return what was started, and what a repetition is."""
        return {
            "backend": "osu",
            "mpirun": str(self._mpi.mpirun),
            "repetition": "OSU: maximum over ranks of the mean over the calls of one start",
        }

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Start a program for each cell that has a step; see `Backend.run`."""
        started = time.monotonic()
        raw.save_cells(folder / "cells.json", plan.cells, launch)
        measured: list[Measurement] = []
        ending, suspect, message, timed_s = Ending.PLAN, None, "", 0.0
        for index, seconds in _granted_s(plan).items():
            left_s = max(_LEAST_S, plan.budget_s - (time.monotonic() - started))
            if left_s == _LEAST_S and measured:
                ending = Ending.BUDGET
                break
            cell = plan.cells[index]
            calls = self._calls(cell, seconds)
            outcome = self._start(cell, calls, left_s)
            _output(folder, index).write_text(outcome.stdout, encoding="utf-8")
            progress(time.monotonic() - started)
            if not outcome.ok:
                ending = Ending.HANG if outcome.timed_out else Ending.CRASH
                suspect, message = cell, outcome.explain()
                measured.append(_measurement(cell, launch, (), _BLAME[ending]))
                break
            times_s = _times_s(_output(folder, index), cell)
            self._time_s[cell], timed_s = times_s[0], timed_s + calls * times_s[0]
            measured.append(_measurement(cell, launch, times_s))
        wall_s = time.monotonic() - started
        return LaunchResult(tuple(measured), ending, timed_s, wall_s, suspect, message)

    def _calls(self, cell: Cell, seconds: float) -> int:
        """Return how many calls fit into the time that was granted."""
        known_s = self._time_s.get(cell)
        return min(_MOST_CALLS, max(1, int(seconds / known_s))) if known_s else _BLIND_CALLS

    def _start(self, cell: Cell, calls: int, within_s: float) -> process.ProcessResult:
        instance = cell.instance
        wanted = self._library.at(self._mpi.release).forced_environment(cell.configuration)
        theirs = self._library.in_effect(os.environ, self._mpi)
        honoured = self._library.user_overrides(wanted, theirs)
        if honoured.reason:
            raise CampaignError(f"nothing can be forced: {honoured.reason}. Unset it.")
        words = ["-f", "-i", str(calls), "-x", str(_WARM_UP_CALLS)]
        if instance.collective is not Collective.BARRIER:
            words += ["-m", f"{instance.msize_bytes}:{instance.msize_bytes}"]
        return self._launched(
            instance.shape, [_program(instance.collective), *words], wanted, within_s
        )

    def _launched(
        self, shape: Shape, words: Sequence[str | Path], wanted: Mapping[str, str], within_s: float
    ) -> process.ProcessResult:
        user = os.environ | self._mpi.launch_environment()
        environment = self._launcher.environment(user, wanted, shape)
        exported = {name: environment[name] for name in wanted} if shape.nodes > 1 else {}
        start = Start(shape, tuple(words), cores=usable_cores(), exported=exported)
        command = self._launcher.command(start)
        return process.run(command, timeout_s=within_s, env=environment)

    def answers(self, shape: Shape, within_s: float) -> bool:
        """Start a program that does nothing on all processes of `shape`."""
        return self._launched(shape, ["true"], {}, within_s).ok

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        """Return what the starts of a killed launch that had ended left in `folder`."""
        cells, launch = raw.load_cells(folder / "cells.json")
        return tuple(_salvaged(folder, cells, launch))


def _granted_s(plan: LaunchPlan) -> dict[int, float]:
    """Return the seconds that all steps of each cell have together."""
    found: dict[int, float] = {}
    for step in plan.steps:
        found[step.cell] = found.get(step.cell, 0.0) + step.max_seconds
    return found


def _program(collective: Collective) -> Path:
    name = f"osu_{collective}"
    folder = os.environ.get(_FOLDER)
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        raise ProgramError(f"{name!r} not found; {_MEND}")
    return Path(found)


def _output(folder: Path, index: int) -> Path:
    return folder / f"osu-{index}.txt"


def _times_s(output: Path, cell: Cell) -> tuple[float, ...]:
    """Return the times in the table of a start."""
    text = output.read_text(encoding="utf-8")
    reading = osu.parse(text.splitlines(keepends=True), str(output))
    wanted = (cell.instance.collective, cell.instance.msize_bytes)
    rows = [row for row in reading.rows if (row.collective, row.msize_bytes) == wanted]
    if not rows or len(rows) != len(reading.rows):
        raise DataError(f"{output}: not the table of {wanted[0]} with {wanted[1]} bytes alone")
    return tuple(row.summary.time_s for row in rows if row.summary is not None)


def _measurement(
    cell: Cell, launch: str, times_s: tuple[float, ...], status: RunStatus = RunStatus.OK
) -> Measurement:
    return Measurement(cell.instance, cell.configuration, launch, status, times_s)


def _salvaged(folder: Path, cells: Sequence[Cell], launch: str) -> Iterator[Measurement]:
    for index, cell in enumerate(cells):
        if _output(folder, index).exists():
            try:
                yield _measurement(cell, launch, _times_s(_output(folder, index), cell))
            except DataError:
                continue
