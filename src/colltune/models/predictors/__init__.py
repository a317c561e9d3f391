"""What a fitted learner leaves behind: numpy arrays that predict, one column per configuration.

Nothing here imports more than numpy, and nothing is unpickled.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from colltune.errors import BundleError

Arrays = Mapping[str, NDArray[Any]]
Numbers = NDArray[np.float64]


class Predictor(Protocol):
    """Predicts the runtimes of one or more configurations from features."""

    kind: ClassVar[str]

    @property
    def n_outputs(self) -> int:
        """Number of configurations, C."""

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C), for features of shape (n, k)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that `from_arrays` needs, none of dtype object."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild a predictor; KeyError or ValueError if the arrays do not fit together."""

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Return one predictor with the outputs of `predictors` side by side."""


PREDICTORS: dict[str, str] = {
    "forest": "colltune.models.predictors.forest:Forest",
    "costs": "colltune.models.predictors.costs:Costs",
    "natural_spline": "colltune.models.predictors.splines:NaturalSplines",
    "neighbours": "colltune.models.predictors.neighbours:Neighbours",
    "spline": "colltune.models.predictors.splines:Splines",
    "trees": "colltune.models.predictors.trees:Trees",
}
"""Kind, as a bundle's manifest names it, to ``module:class``; imported when needed."""
_REMOVED = {
    "corrected_costs": "cost_prior",
    "grid": "interpolation",
    "processes": "gaussian_process",
}
"""Kinds that earlier versions wrote, and their learners."""


def predictor_class(kind: str) -> type[Predictor]:
    """Return the class of predictors called `kind`."""
    if kind in _REMOVED:
        raise BundleError(
            f"the bundle was fitted with the learner {_REMOVED[kind]}, which colltune no "
            "longer has. Fit the data again."
        )
    try:
        module, _, name = PREDICTORS[kind].partition(":")
    except KeyError:
        raise BundleError(
            f"unknown predictor {kind}; known: {', '.join(PREDICTORS)}. Fit the bundle again, "
            "or upgrade colltune."
        ) from None
    found: type[Predictor] = getattr(importlib.import_module(module), name)
    return found


class ArrayFields:
    """Stores a dataclass whose fields are arrays under their names."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        return {name: a for name, a in self.__dict__.items() if isinstance(a, np.ndarray)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        return cls(**arrays)
