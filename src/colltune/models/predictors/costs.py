"""Costs of algorithms with fitted parameters; see `colltune.models.costs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.models.costs.families import FORMULAS_VERSION, configuration_amounts
from colltune.models.costs.network import COEFFICIENTS, Instances
from colltune.models.predictors import Arrays, Numbers
from colltune.models.predictors.level import summed

LEAST_S = 1e-9
"""No collective takes less."""


@dataclass(frozen=True, eq=False)
class Costs:
    """Seconds of C configurations: the amounts of their costs times ``vectors`` (C, k).

    ``columns`` are the names of the features, among them those of nodes, ppn and message size.
    """

    kind: ClassVar[str] = "costs"
    configurations: tuple[Configuration, ...]
    columns: tuple[str, ...]
    vectors: Numbers

    @property
    def n_outputs(self) -> int:
        return len(self.configurations)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C); at least `LEAST_S`, as what was not seen has no cost."""
        at = instances_of(X, self.columns)
        pairs = zip(self.configurations, self.vectors, strict=True)
        seconds = [summed(configuration_amounts(c, at), vector) for c, vector in pairs]
        return np.maximum(np.column_stack(seconds), LEAST_S)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields, and the version of the formulas that the parameters belong to."""
        return {
            "configurations": np.array([c.id for c in self.configurations]),
            "columns": np.array(self.columns),
            "coefficients": np.array(COEFFICIENTS, dtype=np.str_),
            "vectors": self.vectors,
            "formulas_version": np.array([FORMULAS_VERSION]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        version = int(arrays["formulas_version"][0])
        known = tuple(arrays["coefficients"].tolist()) == COEFFICIENTS
        if version != FORMULAS_VERSION or not known:
            raise ValueError(
                f"the bundle's costs have version {version} of the formulas, but this "
                f"colltune has version {FORMULAS_VERSION}. Fit again."
            )
        configurations = tuple(map(Configuration.parse, arrays["configurations"].tolist()))
        if arrays["vectors"].shape != (len(configurations), len(COEFFICIENTS)):
            raise ValueError("one row of parameters per configuration is needed")
        return cls(configurations, tuple(arrays["columns"].tolist()), arrays["vectors"])

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        configurations = tuple(c for p in predictors for c in p.configurations)
        vectors = np.concatenate([p.vectors for p in predictors])
        return cls(configurations, predictors[0].columns, vectors)


def instances_of(X: Numbers, columns: Sequence[str]) -> Instances:
    """Return the instances that features (n, k) describe."""
    by_name = dict(zip(columns, X.T, strict=True))
    found = []
    for name in ("nodes", "ppn", "msize"):
        if f"log2_{name}" in by_name:
            found.append(np.round(np.exp2(by_name[f"log2_{name}"])))
        elif len(plain := {name, f"{name}_bytes"} & by_name.keys()):
            found.append(by_name[plain.pop()])
        else:
            raise ValueError(
                f"a cost model needs {name} among the features, not {', '.join(columns)}"
            )
    return Instances.of(*found)
