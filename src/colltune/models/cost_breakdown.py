"""What a predicted cost is made of, and what other numbers of network adapters would make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Self

import numpy as np

from colltune.domain import Configuration
from colltune.models.cost_model import (
    COEFFICIENTS,
    Coefficient,
    Instances,
    Numbers,
    Rails,
)
from colltune.models.costs.catalogue import family_of
from colltune.models.predictors.costs import amounts


class Kind(StrEnum):
    """The kinds of cost that people tell apart."""

    LATENCY_BETWEEN = "latency between nodes"
    BANDWIDTH_BETWEEN = "bandwidth between nodes"
    CONTENTION = "contention for adapters"
    LATENCY_WITHIN = "latency within nodes"
    BANDWIDTH_WITHIN = "bandwidth within nodes"
    REDUCTION = "reduction"
    COPIES = "copies"
    BYTES = "bytes of each process"
    SETUP = "start of the call"


_KINDS: dict[Coefficient, Kind] = {
    Coefficient.SETUP: Kind.SETUP,
    Coefficient.INTRA_LATENCY: Kind.LATENCY_WITHIN,
    Coefficient.INTRA_GAP: Kind.LATENCY_WITHIN,
    Coefficient.INTRA_BYTES: Kind.BANDWIDTH_WITHIN,
    Coefficient.INTER_LATENCY: Kind.LATENCY_BETWEEN,
    Coefficient.INTER_GAP: Kind.LATENCY_BETWEEN,
    Coefficient.INTER_BYTES: Kind.BANDWIDTH_BETWEEN,
    Coefficient.INTER_CONTENDED: Kind.CONTENTION,
    Coefficient.REDUCTION: Kind.REDUCTION,
    Coefficient.COPY: Kind.COPIES,
}


@dataclass(frozen=True)
class Share:
    """One kind of cost: seconds, and its share of the whole."""

    kind: Kind
    time_s: float
    share: float


@dataclass(frozen=True, eq=False)
class FittedCost:
    """An algorithm's cost with parameters fitted to measurements.

    ``amounts`` maps n instances to how much there is of each of `COEFFICIENTS`, (n, k), ``vector``
    has the seconds of each. They were fitted as if every node had one adapter, so that they hold
    for the ``measured`` adapters that the nodes really had. ``is_generic`` tells that the
    algorithm's rounds are not known, and hence not which of its bytes pass through adapters.
    """

    amounts: Callable[[Instances], Numbers]
    vector: Numbers
    is_generic: bool = False

    @classmethod
    def of(cls, configuration: Configuration, vector: Numbers) -> Self:
        """Return the cost of `configuration`'s family with the values of `vector`."""
        generic = family_of(configuration).is_generic
        return cls(partial(amounts, configuration), vector, generic)

    def by_coefficient_s(
        self, instances: Instances, measured: Rails, other: Rails | None = None
    ) -> Numbers:
        """Return the seconds of each of `COEFFICIENTS`, shape (n, k), with `other` adapters.

        Every amount is scaled by what the cost function has for the other adapters over what it has
        for the measured ones. Where it has nothing for the measured ones (no two processes shared
        an adapter) and the fit found something nevertheless, that is left as it is.
        """
        as_fitted = self._amounts(instances, Rails())
        if other is None or other == measured:
            return np.asarray(as_fitted * self.vector)
        before, after = self._amounts(instances, measured), self._amounts(instances, other)
        known = before > 0
        scale = np.where(known, after / np.where(known, before, 1.0), 1.0)
        return np.asarray(as_fitted * scale * self.vector)

    def time_s(self, instances: Instances, measured: Rails, other: Rails | None = None) -> Numbers:
        """Return the whole cost in seconds, shape (n); see `by_coefficient_s`."""
        return np.asarray(self.by_coefficient_s(instances, measured, other).sum(axis=1))

    def _amounts(self, instances: Instances, rails: Rails) -> Numbers:
        there = Instances.of(instances.nodes, instances.ppn, instances.msize_bytes, rails)
        return self.amounts(there)


Costs = Mapping[Configuration, FittedCost]
"""Fitted costs by configuration; what is not in it could not be fitted."""


def shares(
    seconds_by_coefficient: Sequence[float] | Numbers, *, generic: bool = False
) -> tuple[Share, ...]:
    """Return the kinds of cost that are not nothing, in the order of `Kind`.

    Parameters
    ----------
    seconds_by_coefficient
        Seconds of each of `COEFFICIENTS` for one instance, shape (k).
    generic
        Whether they are those of a generic basis, whose bytes of each process may be copied or
        sent.
    """
    kinds = _KINDS | {Coefficient.COPY: Kind.BYTES} if generic else _KINDS
    seconds = dict.fromkeys(Kind, 0.0)
    for coefficient, time_s in zip(COEFFICIENTS, seconds_by_coefficient, strict=True):
        seconds[kinds[coefficient]] += float(time_s)
    total_s = sum(seconds.values())
    return tuple(Share(k, s, s / total_s) for k, s in seconds.items() if s > 0)
