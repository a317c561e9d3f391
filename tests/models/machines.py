"""A made-up machine whose runtimes follow formulas, so that the best choice is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)

CONTEXT = Context("made-up", "openmpi", "4.1.4")
NODES = (2, 4, 8, 16)
PPN = (1, 4)
MSIZES = (1, 64, 1024, 16384, 262144, 4194304)
FORMULAS: dict[str, Callable[[int, int], float]] = {
    "default": lambda p, m: 4e-6 * np.log2(p + 1) + 4e-10 * m * np.log2(p + 1),
    "linear": lambda p, m: 2e-6 * p + 2e-9 * m * p,
    "binomial": lambda p, m: 2e-6 * np.log2(p + 1) + 6e-10 * m * np.log2(p + 1),
    "scatter_allgather": lambda p, m: 3e-6 * p + 2e-10 * m,
}
Left = Callable[[str, Instance], bool]


def configuration(algorithm: str, collective: Collective = Collective.BCAST) -> Configuration:
    """Return a configuration of the made-up library."""
    return Configuration("openmpi", collective, algorithm)


def measured(
    *,
    nodes: Iterable[int] = NODES,
    ppn: Iterable[int] = PPN,
    msizes: Iterable[int] = MSIZES,
    algorithms: Iterable[str] = tuple(FORMULAS),
    collectives: Iterable[Collective] = (Collective.BCAST,),
    noise: float = 0.0,
    left_out: Left = lambda algorithm, instance: False,
) -> PerformanceDataset:
    """Return measurements of the grid, without the cells for which `left_out` holds."""
    rng = np.random.default_rng(7)
    cells = [
        Measurement(
            instance,
            configuration(algorithm, collective),
            "one",
            RunStatus.OK,
            (float(FORMULAS[algorithm](instance.shape.nprocs, m) * rng.lognormal(0, noise)),),
        )
        for collective in collectives
        for n in nodes
        for p in ppn
        for m in msizes
        for algorithm in algorithms
        for instance in [Instance(collective, Shape(n, p), m)]
        if not left_out(algorithm, instance)
    ]
    return PerformanceDataset.of(CONTEXT, cells)
