"""Cost models as a learner: every configuration's cost, with parameters fitted to measured times.

The parameters of a machine are fitted to all configurations of a collective whose rounds are known
(`colltune.models.costs.families`); each configuration then has its own, which stay near the common
ones where it was measured little. What is not known by name, the library's own decision above all,
is fitted with a generic basis.

Errors are those of the logarithm of time, so that a microsecond counts as much on a short message
as a millisecond on a long one. The logarithm of a sum of costs is linearised at the last estimate,
which makes each step a non-negative least-squares problem (Lawson and Hanson, *Solving Least
Squares Problems*, 1974, ch. 23); points further off than twice the usual error pull like points at
that distance (Huber, *Robust Statistics*, 1981, sec. 7.7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.evidence.repetitions import MAD_TO_SD
from colltune.models.bundle_schema import Arrays, Lengths, Stored
from colltune.models.costs.families import FORMULAS_VERSION, configuration_amounts, family_of
from colltune.models.costs.network import COEFFICIENTS, Coefficient, Instances
from colltune.models.learners import Numbers, slow_guessed, summed

LEAST_S = 1e-9
"""No collective takes less."""
_SHARED_POINTS = 1.0
"""How many average measurements the parameters common to all are worth to each configuration."""
_STEPS = 12
_HUBER = 2.0
_LEAST_SPREAD = 0.02
_FURTHEST = 1.0
_LEAST_RATIO = 1e-6
_POWERS = (-1.0, -0.5)


@dataclass(frozen=True, eq=False)
class Costs:
    """Seconds of C configurations: the amounts of their costs times ``vectors`` (C, k).

    ``columns`` are the names of the features, among them those of nodes, ppn and message size.
    """

    kind: ClassVar[str] = "costs"
    stored: ClassVar[Mapping[str, Stored]] = {
        "configurations": Stored("U", ("C",)),
        "columns": Stored("U", ("k",)),
        "coefficients": Stored("U", ("m",)),
        "vectors": Stored("f", ("C", "m")),
        "formulas_version": Stored("i", (1,)),
    }
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

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        """Nothing more: `from_arrays` reads names."""


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


def fit(
    X: Numbers,
    times_s: Numbers,
    *,
    configurations: tuple[Configuration, ...],
    columns: tuple[str, ...],
) -> Costs:
    """Non-negative parameters of published cost formulas, fitted robustly.

    Times (n, C) that are NaN are passed over, those that are infinite guessed (slow).
    """
    vectors = _vectors(instances_of(X, columns), slow_guessed(times_s), configurations)
    return Costs(configurations, columns, vectors)


def _vectors(at: Instances, times: Numbers, configurations: Sequence[Configuration]) -> Numbers:
    """Return each configuration's parameters, (C, k), drawn to those common to all."""
    measured = [np.isfinite(column) for column in times.T]
    tables = [
        (configuration_amounts(configuration, at)[rows], column[rows])
        for configuration, rows, column in zip(configurations, measured, times.T, strict=True)
    ]
    is_known = [not family_of(configuration).is_generic for configuration in configurations]
    common = np.zeros(len(COEFFICIENTS))
    if any(is_known):
        known = [table for table, its in zip(tables, is_known, strict=True) if its]
        amounts, seen = (np.concatenate(parts) for parts in zip(*known, strict=True))
        common = fit_parameters(amounts, seen)
        # the fixed part belongs to an algorithm, not to the machine
        common[COEFFICIENTS.index(Coefficient.SETUP)] = 0.0
    prior = ParameterPrior(common, _SHARED_POINTS)
    return np.stack(
        [
            fit_parameters(*table, prior if its else _NOTHING)
            for table, its in zip(tables, is_known, strict=True)
        ]
    )


class ParameterPrior(NamedTuple):
    """What is held likely before the data: values of the parameters, worth ``points`` points."""

    vector: Numbers
    points: float


_NOTHING = ParameterPrior(np.zeros(len(COEFFICIENTS)), 0.0)


def fit_parameters(amounts: Numbers, times_s: Numbers, prior: ParameterPrior = _NOTHING) -> Numbers:
    """Return the non-negative values of `COEFFICIENTS` that explain times (n) best.

    `amounts` (n, k) are those of a cost, n at least 1. Deviations from `prior` cost as much as
    errors of the predicted time on its ``points`` average rows.
    """
    starts = [_first_guess(amounts, times_s, power) for power in _POWERS]
    if prior.vector.any():
        starts.append(prior.vector)
    found = [_converged(amounts, times_s, start, prior) for start in starts]
    return min(found, key=lambda vector: _loss(amounts, times_s, vector))


def _first_guess(amounts: Numbers, times_s: Numbers, power: float) -> Numbers:
    """Return the least-squares solution with times weighted by their `power` -1 … 0.

    With -1 errors are relative, and a time that is far too short counts more than all others; the
    further from that, the more long times count. So one of several guesses is near the solution.
    """
    weight = times_s**power
    return _solved(amounts * weight[:, None], times_s * weight)


def _converged(
    amounts: Numbers, times_s: Numbers, vector: Numbers, held: ParameterPrior
) -> Numbers:
    """Return the best of the vectors that linearisation leads to from `vector`."""
    best, least = vector, np.inf
    for _ in range(_STEPS):
        loss = _loss(amounts, times_s, vector)
        if loss < least:
            best, least = vector, loss
        previous, vector = vector, _improved(amounts, times_s, vector, held)
        if np.allclose(vector, previous, rtol=1e-4, atol=0):
            return vector
    return best


def _loss(amounts: Numbers, times_s: Numbers, vector: Numbers) -> float:
    """Return the mean absolute error of the logarithm; a time of nothing is one of a millionth."""
    ratio = np.maximum(amounts @ vector / times_s, _LEAST_RATIO)
    return float(np.abs(np.log(ratio)).mean())


def _improved(amounts: Numbers, times_s: Numbers, vector: Numbers, held: ParameterPrior) -> Numbers:
    """Return the solution of the problem linearised at `vector`.

    As if no time were predicted far too short: where next to nothing is predicted the logarithm is
    too steep to be linearised. Where far too much is, it is flat, so that a measured time that is
    much too short has little weight.
    """
    error = np.log(np.maximum(amounts @ vector / times_s, np.exp(-_FURTHEST)))
    rows = amounts / (times_s * np.exp(error))[:, None]
    limit = _HUBER * max(MAD_TO_SD * float(np.median(np.abs(error))), _LEAST_SPREAD)
    weight = np.sqrt(np.minimum(1.0, limit / np.maximum(np.abs(error), 1e-300)))
    matrix, right = rows * weight[:, None], (1.0 - error) * weight
    if held.points > 0:
        strength = np.sqrt(held.points * (rows**2).mean(axis=0))
        matrix = np.concatenate([matrix, np.diag(strength)])
        right = np.concatenate([right, strength * held.vector])
    return _solved(matrix, right)


def _solved(matrix: Numbers, right: Numbers) -> Numbers:
    """Return the non-negative least-squares solution, columns brought to one length for it."""
    from scipy.optimize import nnls

    lengths = np.linalg.norm(matrix, axis=0)
    lengths[lengths == 0] = 1.0
    # the triangle has the same solution, and as few rows as there are parameters
    q, triangle = np.linalg.qr(matrix / lengths)
    solution, _ = nnls(triangle, q.T @ right)
    return np.asarray(solution / lengths)
