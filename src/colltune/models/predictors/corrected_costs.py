"""Predicted costs, or powers of them, times what a Gaussian process has learned on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.models.cost_model import Instances
from colltune.models.predictors.costs import Costs
from colltune.models.predictors.level import Level, distinct, matern
from colltune.models.predictors.protocol import Arrays, Numbers

_CHUNK_ELEMENTS = 500_000
_COSTS = "costs_"
_LARGEST_EXPONENT = 700.0


class Corrections(NamedTuple):
    """Gaussian processes of C configurations that share inputs, lengths and points.

    ``columns`` (d) are the features that are inputs, which are ``(feature - center) / scale``;
    ``points`` (P, d), ``weights`` (P, C), ``slopes`` (d, C), ``offsets`` (C).
    """

    columns: NDArray[np.int64]
    center: Numbers
    scale: Numbers
    lengths: Numbers
    points: Numbers
    weights: Numbers
    slopes: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, levels: Sequence[Level]) -> Self:
        """Put processes that differ in weights, slopes and offset alone side by side."""
        first = levels[0]
        return cls(
            first.columns,
            first.center,
            first.scale,
            first.lengths,
            first.points,
            np.column_stack([level.weights for level in levels]),
            np.column_stack([level.slopes for level in levels]),
            np.concatenate([level.offset for level in levels]),
        )

    def predict(self, X: Numbers) -> Numbers:
        """Return the logarithms of factors, shape (n, C), for features (n, k)."""
        inputs = (X[:, self.columns] - self.center) / self.scale
        result = np.empty((len(X), len(self.offsets)))
        rows = max(1, _CHUNK_ELEMENTS // max(1, len(self.points)))
        for first in range(0, len(X), rows):
            part = inputs[first : first + rows]
            # einsum, because a row must not depend on which others it is computed with
            learned = np.einsum("np,pc->nc", self._correlations(part), self.weights)
            linear = np.einsum("nd,dc->nc", part, self.slopes)
            result[first : first + rows] = learned + linear + self.offsets
        return result

    def _correlations(self, inputs: Numbers) -> Numbers:
        result = np.ones((len(inputs), len(self.points)))
        for column, point, length in zip(inputs.T, self.points.T, self.lengths, strict=True):
            queries, query_of = distinct(column)
            values, value_of = distinct(point)
            result *= matern(queries, values, float(length))[:, value_of][query_of]
        return result


class Part(NamedTuple):
    """Configurations with the positions ``outputs`` whose processes are alike.

    Without ``costs`` the process is all there is.
    """

    outputs: NDArray[np.int64]
    corrections: Corrections
    costs: Costs | None = None
    trust: float = 0.0

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, configurations of this part)."""
        logs = self.corrections.predict(X)
        if self.costs is not None:
            logs = logs + self.trust * np.log(self.costs.predict(X))
        return np.asarray(np.exp(np.clip(logs, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields, those of the costs with a prefix."""
        own = {"outputs": self.outputs, "trust": np.array([self.trust])}
        costs = self.costs.arrays() if self.costs is not None else {}
        named = {f"{_COSTS}{name}": array for name, array in costs.items()}
        return own | self.corrections._asdict() | named

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Part:
        """Rebuild from `arrays`."""
        costs = {n.removeprefix(_COSTS): a for n, a in arrays.items() if n.startswith(_COSTS)}
        return cls(
            arrays["outputs"],
            Corrections(*(arrays[name] for name in Corrections._fields)),
            Costs.from_arrays(costs) if costs else None,
            float(arrays["trust"][0]),
        )


@dataclass(frozen=True, eq=False)
class CorrectedCosts:
    """``cost ** trust * exp(correction)``, in seconds; without a cost ``exp(correction)``.

    The ``parts`` have the outputs 0, 1, …, each once.
    """

    kind: ClassVar[str] = "corrected_costs"
    parts: tuple[Part, ...]

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return sum(len(part.outputs) for part in self.parts)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        result = np.empty((len(X), self.n_outputs))
        for part in self.parts:
            result[:, part.outputs] = part.predict(X)
        return result

    def breakdown(
        self, configuration: Configuration, instances: Instances
    ) -> list[tuple[str, Numbers]]:
        """Return what each part of a configuration's cost takes, in seconds (n), if it is trusted.

        Raises
        ------
        ValueError
            If the configuration has no cost, or one that is trusted in part only.
        """
        for part in self.parts:
            if part.costs is not None and part.trust == 1.0:
                return part.costs.breakdown(configuration, instances)
        raise ValueError(f"no cost of {configuration.id} is trusted")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the parts' arrays, named by the part."""
        return {
            f"{number}_{name}": array
            for number, part in enumerate(self.parts)
            for name, array in part.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        parts: dict[int, dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            number, _, rest = name.partition("_")
            parts.setdefault(int(number), {})[rest] = array
        rebuilt = cls(tuple(Part.from_arrays(parts[number]) for number in sorted(parts)))
        outputs = [output for part in rebuilt.parts for output in part.outputs.tolist()]
        if not outputs or sorted(outputs) != list(range(len(outputs))):
            raise ValueError("the parts of corrected costs do not have each output once")
        return rebuilt

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side."""
        parts: list[Part] = []
        first = 0
        for predictor in predictors:
            parts += [part._replace(outputs=part.outputs + first) for part in predictor.parts]
            first += predictor.n_outputs
        return cls(tuple(parts))
