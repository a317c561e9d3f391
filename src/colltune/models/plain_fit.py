"""Learners fitted once, without folds, errors or guard: to look at what they predict, side by side.

`colltune.models.fitting` makes bundles, which know how far their predictions are off and cost a
fit per fold for it; a learner that starts a program for each fit takes minutes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.learners import fitted, learner_entry
from colltune.models.predictors import Predictor

Numbers = NDArray[np.float64]
MEASURED = "measured"
_STEPS = 40


@dataclass(frozen=True, eq=False)
class PlainFit:
    """What one learner makes of one collective's cells.

    ``learner`` is a key of ``LEARNERS``; the C ``configurations`` are those that it could be fitted
    to, in the order of the outputs.
    """

    learner: str
    collective: Collective
    configurations: tuple[Configuration, ...]
    predictor: Predictor

    @classmethod
    def of(cls, cells: CellMatrix, learner: str) -> PlainFit:
        """Fit the learner called `learner` to all that was measured of `cells`.

        Raises
        ------
        DataError
            If there is no such learner, or it can be fitted to no configuration.
        ProgramError
            If it needs a program, such as R, that is missing or fails.
        """
        found = fitted(cells, learner)
        return cls(learner, cells.collective, found.cells.configurations, found.predictor)

    def time_s(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Numbers:
        """Return predicted seconds, shape (n, C), for n instances.

        `nodes`, `ppn` and `msize_bytes` are vectors (n) or scalars.
        """
        features = feature_set(learner_entry(self.learner).feature_set)
        return self.predictor.predict(features.matrix(nodes, ppn, msize_bytes))


def compared(fits: Iterable[PlainFit], tested: CellMatrix) -> pd.DataFrame:
    """Return what `fits` predict of the cells that `tested` measured, one row for each of both.

    Columns: ``learner``, ``configuration`` (algorithm and parameters), ``nodes``, ``ppn``,
    ``msize_bytes``, ``measured_s``, ``predicted_s``.

    Raises
    ------
    DataError
        If no configuration of a fit was measured.
    """
    return pd.concat([_compared(fit, tested) for fit in fits], ignore_index=True)


def _compared(fit: PlainFit, tested: CellMatrix) -> pd.DataFrame:
    both = [c for c in tested.configurations if c in fit.configurations]
    if not both:
        raise DataError(
            f"none of the configurations that {fit.learner} was fitted to was measured here"
        )
    columns = {"nodes": tested.nodes, "ppn": tested.ppn, "msize_bytes": tested.msize_bytes}
    measured_s = tested.time_s[:, [tested.configurations.index(c) for c in both]]
    predicted_s = fit.time_s(*columns.values())[:, [fit.configurations.index(c) for c in both]]
    times_s = {"measured_s": measured_s, "predicted_s": predicted_s}
    return _tidy(fit.learner, both, columns, times_s).dropna(subset=["measured_s"])


def curves(fits: Iterable[PlainFit], cells: CellMatrix, shape: Shape) -> pd.DataFrame:
    """Return runtimes over message size on `shape`: what was measured, and what `fits` predict.

    Columns: ``learner`` (`MEASURED` for measured times), ``configuration``, ``msize_bytes``,
    ``time_s``; predictions are those of 40 sizes between the smallest and the largest measured.

    Raises
    ------
    DataError
        If nothing was measured on `shape`.
    """
    rows = (cells.nodes == shape.nodes) & (cells.ppn == shape.ppn)
    if not rows.any():
        raise DataError(f"{cells.collective} was not measured on {shape}")
    sizes = cells.msize_bytes[rows]
    low, high = max(1, int(sizes.min())), max(1, int(sizes.max()))
    finer = np.unique(np.geomspace(low, high, _STEPS).round().astype(np.int64))
    parts = [(MEASURED, cells.configurations, sizes, cells.time_s[rows])]
    for fit in fits:
        predicted_s = fit.time_s(shape.nodes, shape.ppn, finer)
        parts.append((fit.learner, fit.configurations, finer, predicted_s))
    tables = [_tidy(who, cs, {"msize_bytes": at}, {"time_s": t}) for who, cs, at, t in parts]
    return pd.concat(tables, ignore_index=True).dropna(subset=["time_s"], ignore_index=True)


def _tidy(
    learner: str,
    configurations: Sequence[Configuration],
    columns: Mapping[str, NDArray[np.int64]],
    times_s: Mapping[str, Numbers],
) -> pd.DataFrame:
    """Return a row for each configuration and instance: `columns` (n), and `times_s` (n, C)."""
    names = [f"{c.algorithm} {c.parameter_text}".strip() for c in configurations]
    n = len(next(iter(columns.values())))
    of_instances = {name: np.tile(values, len(names)) for name, values in columns.items()}
    of_cells = {name: table.T.ravel() for name, table in times_s.items()}
    first = {"learner": learner, "configuration": np.repeat(names, n)}
    return pd.DataFrame(first | of_instances | of_cells)
