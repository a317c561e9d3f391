"""Datasets whose variance components are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.dataset.noise import Allocations, AllocationSource
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    LaunchStatistics,
    Measurement,
    RunStatus,
    Shape,
)

CONTEXT = Context("hydra", "openmpi", "4.1.4")


@dataclass(frozen=True)
class Machine:
    """Standard deviations of log-times on each level, and what is measured.

    ``launch_shift`` hits all configurations of a launch alike, ``launch`` each cell by itself;
    ``correlation`` is that of neighbouring repetitions; `raw` keeps the repetitions.
    """

    within: float = 0.0
    launch: float = 0.0
    launch_shift: float = 0.0
    allocation: float = 0.0
    correlation: float = 0.0
    allocations: int = 1
    launches: int = 2
    reps: int = 50
    algorithms: tuple[str, ...] = ("default", "binomial", "chain", "ring")
    msizes: int = 25
    collective: Collective = Collective.BCAST
    raw: bool = True


def simulate(machine: Machine, seed: int = 1) -> tuple[PerformanceDataset, Allocations]:
    """Return a dataset of `machine` and its allocations."""
    rng = np.random.default_rng(seed)
    cells = [
        Measurement(
            Instance(machine.collective, Shape(4, 2), 8 * (number + 1)),
            Configuration("openmpi", machine.collective, algorithm),
            "",
            RunStatus.SKIPPED,
        )
        for number in range(machine.msizes)
        for algorithm in machine.algorithms
    ]
    base = 1e-5 * np.exp(rng.normal(0, 1, len(cells)))
    measurements, by_launch = [], {}
    for allocation in range(machine.allocations):
        held = base * np.exp(rng.normal(0, machine.allocation, len(cells)))
        for number in range(machine.launches):
            launch = f"{allocation}/{number}"
            by_launch[launch] = f"job {allocation}"
            shift = np.exp(rng.normal(0, machine.launch_shift))
            medians = held * shift * np.exp(rng.normal(0, machine.launch, len(cells)))
            measurements += [
                _measured(cell, launch, median * np.exp(_scatter(machine, rng)), machine.raw)
                for cell, median in zip(cells, medians, strict=True)
            ]
    sources = {AllocationSource.PROVENANCE: len(by_launch)}
    return PerformanceDataset.of(CONTEXT, measurements), Allocations(by_launch, sources)


def _scatter(machine: Machine, rng: np.random.Generator) -> np.ndarray:
    """Return log-deviations of successive repetitions: first order autoregressive."""
    fresh = rng.normal(0, machine.within, machine.reps)
    kept = machine.correlation
    if kept:
        for i in range(1, len(fresh)):
            fresh[i] = kept * fresh[i - 1] + np.sqrt(1 - kept**2) * fresh[i]
    return fresh


def _measured(cell: Measurement, launch: str, times_s: np.ndarray, raw: bool) -> Measurement:
    times = tuple(map(float, times_s))
    return Measurement(
        cell.instance,
        cell.configuration,
        launch,
        RunStatus.OK,
        times if raw else (),
        None if raw else LaunchStatistics.of(times),
    )
