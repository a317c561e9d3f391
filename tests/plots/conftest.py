"""Measurements whose winners are known, and a bundle fitted to them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    LaunchStatistics,
    Measurement,
    Shape,
)
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit

CONTEXT = Context("hydra", "openmpi", "4.1.4")
NODES, PPN, SIZES = (2, 4, 8, 16), (1, 4), (8, 64, 512, 4096, 32768)
LARGE = 512


def factor(algorithm: str, msize_bytes: int) -> float:
    """Return by what the time is multiplied: the tree wins small messages, the chain large ones."""
    won = {"binomial": msize_bytes <= LARGE, "chain": msize_bytes > LARGE}
    if algorithm not in won:
        return 2.0
    return 1.0 if won[algorithm] else 4.0


def measurements(
    collectives: Sequence[Collective],
    shapes: Sequence[Shape],
    sizes: Sequence[int] = SIZES,
    launches: Sequence[float] = (1.0, 1.01, 0.99),
    names: Sequence[str] = ("default", "binomial", "chain"),
) -> PerformanceDataset:
    """Return measurements of 3 launches that differ by the factors `launches`.

    `names` are what the default, the tree and the chain are called.
    """
    algorithms = ("default", "binomial", "chain")
    rows = []
    for collective in collectives:
        for shape in shapes:
            for msize in sizes:
                for name, algorithm in zip(names, algorithms, strict=True):
                    base_s = 1e-6 * shape.nprocs**0.5 + msize * 1e-9
                    for k, drift in enumerate(launches):
                        time_s = base_s * factor(algorithm, msize) * drift
                        summary = LaunchStatistics(10, time_s, time_s, time_s, time_s, time_s)
                        rows.append(
                            Measurement(
                                Instance(collective, shape, msize),
                                Configuration("openmpi", collective, name),
                                f"job/{k}",
                                summary=summary,
                            )
                        )
    return PerformanceDataset.of(CONTEXT, rows)


@pytest.fixture(scope="session")
def dataset() -> PerformanceDataset:
    """Return bcast and allreduce on 4 node counts with 2 ppn, in 3 launches."""
    shapes = [Shape(n, p) for n in NODES for p in PPN]
    return measurements((Collective.ALLREDUCE, Collective.BCAST), shapes)


@pytest.fixture(scope="session")
def bundle(dataset: PerformanceDataset) -> Bundle:
    """Return a bundle fitted to `dataset`."""
    return fit(dataset, "knn", jobs=1)
