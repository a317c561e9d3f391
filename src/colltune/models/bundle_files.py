"""A collective's fitted models as bytes: numpy arrays one after another, no pickle, no zip.

A collective is one file, because a thousand small arrays load slowly; arrays follow each other in
numpy's own format in the order that the manifest names them, because importing a zip reader takes
longer than reading them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration
from colltune.models.coverage import Coverage
from colltune.models.error_model import ErrorModel
from colltune.models.predictors import predictor_class
from colltune.models.runtime_model import CollectiveModel

_PARTS = ("predictor", "coverage", "error")


def packed(model: CollectiveModel) -> tuple[dict[str, Any], bytes]:
    """Return the manifest's entry of `model` (JSON-able) and its arrays as bytes."""
    stream, names = io.BytesIO(), []
    for part in _PARTS:
        for name, array in getattr(model, part).arrays().items():
            names.append(f"{part}.{name}")
            np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    entry = {
        "learner": model.learner,
        "feature_set": model.feature_set,
        "predictor": model.predictor.kind,
        "configurations": [c.id for c in model.configurations],
        "arrays": names,
    }
    return entry, stream.getvalue()


def unpacked(collective: Collective, entry: Mapping[str, Any], content: bytes) -> CollectiveModel:
    """Rebuild a collective's models from their manifest entry and bytes.

    Raises
    ------
    KeyError, ValueError, EOFError
        If entry and content do not fit together.
    ValueError
        If there are not as many models as configurations.
    """
    stream = io.BytesIO(content)
    parts: dict[str, dict[str, NDArray[Any]]] = {part: {} for part in _PARTS}
    for name in entry["arrays"]:
        part, _, key = name.partition(".")
        parts[part][key] = np.lib.format.read_array(stream, allow_pickle=False)
    predictor = predictor_class(entry["predictor"]).from_arrays(parts["predictor"])
    configurations = tuple(Configuration.parse(text) for text in entry["configurations"])
    if predictor.n_outputs != len(configurations):
        raise ValueError(f"{predictor.n_outputs} models of {len(configurations)} configurations")
    return CollectiveModel(
        collective,
        configurations,
        entry["learner"],
        entry["feature_set"],
        predictor,
        Coverage.from_arrays(parts["coverage"]),
        ErrorModel.from_arrays(parts["error"]),
    )
