"""What cells will take that were not measured yet, from those that were."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from colltune.bench.schedule import Cell, Step
from colltune.domain import Collective, Configuration, Instance

_CALLS_BEFORE_A_TIME = 2
_LATENCY_S = 2e-6
_SECONDS_PER_BYTE = 1e-10
_ALL_TO_ALL = frozenset({Collective.ALLTOALL, Collective.ALLTOALLV})


def guessed_s(instance: Instance) -> float:
    """Return a rough runtime in seconds of a good algorithm where nothing was measured.

    Latency and bandwidth of a common cluster (Hockney's model), logarithmic trees, and the bytes
    that leave each process; it is a guess to plan with, not a prediction to decide with.
    """
    nprocs = instance.shape.nprocs
    blocks = nprocs if instance.collective.has_block_per_rank else 1
    rounds = nprocs - 1 if instance.collective in _ALL_TO_ALL else math.log2(max(2, nprocs))
    sharing = instance.shape.ppn if instance.shape.nodes > 1 else 1
    return _LATENCY_S * rounds + _SECONDS_PER_BYTE * instance.msize_bytes * blocks * sharing


class Forecast:
    """Predicts runtimes from the nearest measured cell of the same configuration.

    Nearest on the logarithms of message size, nodes and ppn; the ratio of the guesses for the two
    instances carries its time over.
    """

    def __init__(self, times_s: Mapping[Cell, float]) -> None:
        grouped: dict[Configuration, list[Cell]] = {}
        for cell in times_s:
            grouped.setdefault(cell.configuration, []).append(cell)
        self._times_s = times_s
        self._cells = grouped
        self._points = {
            configuration: np.array([_point(cell.instance) for cell in cells])
            for configuration, cells in grouped.items()
        }

    def time_s(self, cell: Cell) -> float | None:
        """Return the predicted runtime in seconds; None if the configuration was never measured."""
        points = self._points.get(cell.configuration)
        if points is None:
            return None
        distances = np.abs(points - np.array(_point(cell.instance))).sum(axis=1)
        nearest = self._cells[cell.configuration][int(distances.argmin())]
        return self._times_s[nearest] * guessed_s(cell.instance) / guessed_s(nearest.instance)


def too_slow(
    cells: Sequence[Cell], steps: Sequence[Step], forecast: Forecast, available_s: float
) -> frozenset[int]:
    """Return the cells, by index, to be left out so that the first visits of all others fit.

    Those go first whose predicted runtime is furthest above the best of their instance; the
    library's default stays, and so does what cannot be predicted.
    """
    predicted = {step.cell: forecast.time_s(cells[step.cell]) for step in steps}
    known = {index: time_s for index, time_s in predicted.items() if time_s is not None}
    best: dict[Instance, float] = {}
    for index, time_s in known.items():
        instance = cells[index].instance
        best[instance] = min(time_s, best.get(instance, math.inf))
    needed_s = _CALLS_BEFORE_A_TIME * math.fsum(known.values())
    ranked = sorted(known, key=lambda i: known[i] / best[cells[i].instance], reverse=True)
    dropped = []
    for index in ranked:
        if needed_s <= available_s:
            break
        if not cells[index].configuration.is_default:
            dropped.append(index)
            needed_s -= _CALLS_BEFORE_A_TIME * known[index]
    return frozenset(dropped)


def _point(instance: Instance) -> tuple[float, float, float]:
    shape = instance.shape
    return (
        math.log2(max(1, instance.msize_bytes)),
        math.log2(shape.nodes),
        math.log2(shape.ppn),
    )
