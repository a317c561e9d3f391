"""Small files for tests of `colltune han`, and a measuring that needs no MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.tidy_csv import write_csv
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    Shape,
)
from colltune.han import measuring, tasks_file
from colltune.han.tasks_file import Manner, TimedSeries
from colltune.mpi import installation
from colltune.mpi.installation import Installation

CONTEXT = Context("bed", "openmpi", "5.0.11")
SHAPE = Shape(2, 2)
SETUP = Configuration.parse("openmpi.bcast.han_intra:low=sm,segsize=4096,up=libnbc")
TASKS = (
    TimedSeries(SHAPE, SETUP, 5, Manner.STEADY, (((0.002, *[0.001] * 5), (0.001,) * 6),) * 2, 0.5),
)


def write_tasks(path: Path) -> Path:
    """Write a file of task times of one setup; return its path."""
    if not path.exists():
        tasks_file.begin(path, CONTEXT)
        tasks_file.append(path, TASKS)
    return path


def write_whole(path: Path) -> Path:
    """Write whole collectives in two setups as a dataset; return its path."""
    other = Configuration.parse("openmpi.bcast.han_intra:low=tuned,segsize=4096,up=libnbc")
    measurements = [
        Measurement(Instance(Collective.BCAST, SHAPE, msize), setup, "l", times_s=(time_s,))
        for msize, time_s in ((4096, 0.003), (65536, 0.019))
        for setup in (SETUP, other)
    ]
    csv = path.with_suffix(".csv")
    write_csv(PerformanceDataset.of(CONTEXT, measurements), csv)
    return csv


def replace_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `colltune han measure` find an MPI, and task times, without looking for them."""
    nowhere = Path("mpirun")
    imagined = Installation("openmpi", "5.0.11", nowhere, nowhere, nowhere, "")
    find = installation.find

    def found(
        named: str | None = None, library: str | None = None, started_by: str | None = None
    ) -> Installation:
        return imagined if library == "openmpi" else find(named, library, started_by)

    def measured(*asked: object) -> measuring.Done:
        path = next(each for each in asked if isinstance(each, Path))
        return measuring.Done(tasks_file.TaskTimes(CONTEXT, TASKS), path, True, 1.0, 1)

    monkeypatch.setattr(installation, "find", found)
    monkeypatch.setattr(measuring.TaskBench, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(measuring, "measure", measured)
