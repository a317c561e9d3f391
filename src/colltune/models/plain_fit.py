"""Learners fitted once, without folds, errors or guard: to look at what they predict, side by side.

`colltune.models.fitting` makes bundles, which know how far their predictions are off and cost a
fit per fold for it; a learner that starts a program for each fit takes minutes there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.learners import learner_entry
from colltune.models.predictors import Predictor, predictor_class

Numbers = NDArray[np.float64]
MEASURED = "measured"
_STEPS = 40


@dataclass(frozen=True, eq=False)
class PlainFit:
    """What one learner makes of one collective's cells.

    ``learner`` is a key of ``LEARNERS``; the C ``configurations`` are in the order of the outputs.
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
            If there is no such learner, or it has no model of a configuration.
        ProgramError
            If it needs a program, such as R, that is missing or fails.
        """
        entry = learner_entry(learner)
        features = feature_set(entry.feature_set)
        inputs = features.matrix(cells.nodes, cells.ppn, cells.msize_bytes)
        try:
            if entry.joint:
                joint = entry.create_for(cells.configurations, features.columns)
                predictor = joint.fit(inputs, np.where(cells.slow, np.inf, cells.time_s)).export()
            else:
                known = [np.isfinite(times_s) for times_s in cells.time_s.T]
                alone = [
                    entry.create().fit(inputs[rows], times_s[rows]).export()
                    for rows, times_s in zip(known, cells.time_s.T, strict=True)
                ]
                predictor = predictor_class(alone[0].kind).stacked(alone)
        except ValueError as error:
            raise DataError(f"{learner} cannot be fitted to {cells.collective}: {error}") from error
        return cls(learner, cells.collective, cells.configurations, predictor)

    def time_s(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Numbers:
        """Return predicted seconds, shape (n, C), for n instances.

        `nodes`, `ppn` and `msize_bytes` are vectors (n) or scalars.
        """
        vectors = (np.atleast_1d(np.asarray(v, np.int64)) for v in (nodes, ppn, msize_bytes))
        features = feature_set(learner_entry(self.learner).feature_set)
        return self.predictor.predict(features.matrix(*np.broadcast_arrays(*vectors)))


def compared(fits: Iterable[PlainFit], tested: CellMatrix) -> pd.DataFrame:
    """Return what `fits` predict of the cells that `tested` measured, one row for each of both.

    Columns: ``learner``, ``configuration`` (algorithm and parameters), ``nodes``, ``ppn``,
    ``msize_bytes``, ``measured_s``, ``predicted_s``.

    Raises
    ------
    DataError
        If no configuration of a fit was measured.
    """
    parts = [_compared(fit, tested) for fit in fits]
    return pd.concat(parts, ignore_index=True)


def _compared(fit: PlainFit, tested: CellMatrix) -> pd.DataFrame:
    predicted_s = fit.time_s(tested.nodes, tested.ppn, tested.msize_bytes)
    parts = []
    for column, configuration in enumerate(tested.configurations):
        if configuration not in fit.configurations:
            continue
        rows = np.isfinite(tested.time_s[:, column])
        parts.append(
            pd.DataFrame(
                {
                    "learner": fit.learner,
                    "configuration": _name(configuration),
                    "nodes": tested.nodes[rows],
                    "ppn": tested.ppn[rows],
                    "msize_bytes": tested.msize_bytes[rows],
                    "measured_s": tested.time_s[rows, column],
                    "predicted_s": predicted_s[rows, fit.configurations.index(configuration)],
                }
            )
        )
    if not parts:
        raise DataError(f"no configuration that {fit.learner} was fitted to was measured here")
    return pd.concat(parts, ignore_index=True)


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
        raise DataError(f"nothing of {cells.collective} was measured on {shape}")
    sizes = cells.msize_bytes[rows]
    low, high = max(1, int(sizes.min())), max(1, int(sizes.max()))
    finer = np.unique(np.geomspace(low, high, _STEPS).round().astype(np.int64))
    parts = [_tidy(MEASURED, cells.configurations, sizes, cells.time_s[rows])]
    for fit in fits:
        predicted_s = fit.time_s(shape.nodes, shape.ppn, finer)
        parts.append(_tidy(fit.learner, fit.configurations, finer, predicted_s))
    return pd.concat(parts, ignore_index=True)


def _tidy(
    learner: str, configurations: tuple[Configuration, ...], sizes: ArrayLike, time_s: Numbers
) -> pd.DataFrame:
    parts = [
        pd.DataFrame(
            {
                "learner": learner,
                "configuration": _name(configuration),
                "msize_bytes": sizes,
                "time_s": time_s[:, column],
            }
        )
        for column, configuration in enumerate(configurations)
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset=["time_s"])


def _name(configuration: Configuration) -> str:
    return f"{configuration.algorithm} {configuration.parameter_text}".strip()
