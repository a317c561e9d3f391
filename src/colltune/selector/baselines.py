"""Selectors to compare with: the library's own decision, one for all, and the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import Prediction, Selection
from colltune.domain import Collective, Configuration, Instance
from colltune.models.cells import CellMatrix

Numbers = NDArray[np.float64]


class LibraryDefault:
    """Always the library's own decision.

    ``library`` is the first word of its configurations' ids.
    """

    def __init__(self, library: str) -> None:
        self._library = library

    def select(self, instance: Instance) -> Selection:
        """Return the default for `instance`."""
        configuration = Configuration.default(self._library, instance.collective)
        return _plain(instance, configuration, "the library's own decision")


class SingleBest:
    """One configuration per collective: the least mean log regret over measured cells.

    Where a configuration was not measured it counts, and is used, as the default.

    ``cells`` are the measured times of each collective; ``library`` is their library.
    """

    def __init__(self, cells: Mapping[Collective, CellMatrix], library: str) -> None:
        self._library = library
        self._best = {collective: _single_best(matrix) for collective, matrix in cells.items()}

    def select(self, instance: Instance) -> Selection:
        """Return the one configuration of the instance's collective."""
        default = Configuration.default(self._library, instance.collective)
        configuration = self._best.get(instance.collective, default)
        return _plain(instance, configuration, "best on average over everything measured")


class VirtualBest:
    """The oracle: what was measured fastest on the very instance, else the default.

    ``cells`` are the measured times of each collective; ``library`` is their library.
    """

    def __init__(self, cells: Mapping[Collective, CellMatrix], library: str) -> None:
        self._library = library
        self._best: dict[Instance, tuple[Configuration, float]] = {}
        for matrix in cells.values():
            columns = np.nanargmin(matrix.time_s, axis=1)
            for row, instance in enumerate(matrix.instances()):
                column = int(columns[row])
                time_s = float(matrix.time_s[row, column])
                self._best[instance] = (matrix.configurations[column], time_s)

    def select(self, instance: Instance) -> Selection:
        """Return the configuration that was measured fastest."""
        if instance not in self._best:
            default = Configuration.default(self._library, instance.collective)
            return _plain(instance, default, "never measured")
        configuration, time_s = self._best[instance]
        measured = Prediction(time_s, time_s, time_s)
        return Selection(instance, configuration, measured, None, (), False, "measured fastest")


def _plain(instance: Instance, configuration: Configuration, reason: str) -> Selection:
    return Selection(instance, configuration, None, None, (), False, reason)


def _single_best(cells: CellMatrix) -> Configuration:
    slowest = np.nanmax(cells.time_s, axis=1)
    column = cells.default_column
    default = slowest if column is None else cells.time_s[:, column]
    fallback = np.where(np.isfinite(default), default, slowest)
    time_s = np.where(np.isfinite(cells.time_s), cells.time_s, fallback[:, None])
    regret = np.log(time_s).mean(axis=0)
    return cells.configurations[int(regret.argmin())]
