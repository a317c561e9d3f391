"""The three learners of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020), as they published them.

Sec. III-B and IV-B: one regression per configuration of raw message size, nodes and processes per
node (feature set ``basic``); KNN with K = 5 on scaled inputs, a generalised additive model of the
Gamma family with a logarithmic link, XGBoost with the Tweedie loss and 200 rounds. The
configuration with the least prediction is taken: no interval and no guard. In one respect they are
helped: the library's default is a candidate here, which has no regression in the paper (j > 0).

They are for comparison; the learners of the same names in `LEARNERS` work on logarithms, and their
KNN takes a geometric mean. Where the paper used R's mgcv this is pygam, on the same model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.learners import learner_entry

Numbers = NDArray[np.float64]
PUBLISHED = ("knn", "gam", "xgboost")
_K = 5
_ROUNDING = 1e-9


def predicted_s(name: str, training: CellMatrix, asked: CellMatrix) -> tuple[Numbers, list[str]]:
    """Return what a published learner predicts, and which configurations it cannot be fitted to.

    `name` is one of `PUBLISHED`; each configuration of `training` is learned by itself; the n
    instances of `asked` are predicted, its times not looked at. The seconds (n, C) are NaN for the
    configurations named in the second value, a list of messages.
    """
    features = feature_set("basic")
    inputs, outputs = (
        features.matrix(cells.nodes, cells.ppn, cells.msize_bytes) for cells in (training, asked)
    )
    result = np.full((len(asked), len(training.configurations)), np.nan)
    failures = []
    for column, configuration in enumerate(training.configurations):
        time_s = training.time_s[:, column]
        rows = np.isfinite(time_s)
        try:
            result[:, column] = _fitted(name, inputs[rows], time_s[rows], outputs)
        except ValueError as error:
            failures.append(f"{configuration.id}: {error}")
    return result, failures


def _fitted(name: str, inputs: Numbers, time_s: Numbers, asked: Numbers) -> Numbers:
    if name == "knn":
        return _neighbours(inputs, time_s, asked)
    predicted: Numbers = learner_entry(name).create().fit(inputs, time_s).predict(asked)
    return predicted


def _neighbours(inputs: Numbers, time_s: Numbers, asked: Numbers) -> Numbers:
    """Return the mean time of the five nearest points, and of all that tie with the fifth."""
    center, deviation = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    known, wanted = (inputs - center) / scale, (asked - center) / scale
    distance = ((wanted[:, None, :] - known[None, :, :]) ** 2).sum(axis=2)
    last = np.partition(distance, min(_K, len(known)) - 1, axis=1)[:, min(_K, len(known)) - 1]
    near = distance <= last[:, None] * (1 + _ROUNDING) + _ROUNDING**2
    return np.asarray((near * time_s).sum(axis=1) / near.sum(axis=1))
