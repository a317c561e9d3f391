"""Where a campaign's time is to go: weights of instances, by an application's time or by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from colltune.domain import Collective, Instance, Shape

LEAST, MOST = 0.1, 10.0
"""Bounds of a weight; the mean instance of the application has 1."""


class Spent(NamedTuple):
    """A share of the application's time in collectives, spent on an instance."""

    collective: Collective
    shape: Shape
    msize_bytes: int
    share: float


class SizeWeight(NamedTuple):
    """How much messages of ``least_bytes`` to ``most_bytes`` (None: any) of a collective count."""

    collective: Collective
    least_bytes: int
    most_bytes: int | None
    weight: float

    def holds(self, msize_bytes: int) -> bool:
        """Tell whether a message of that size is meant."""
        most_bytes = math.inf if self.most_bytes is None else self.most_bytes
        return self.least_bytes <= msize_bytes <= most_bytes

    def __str__(self) -> str:
        return f"{self.least_bytes}..{'' if self.most_bytes is None else self.most_bytes}"


def weighed(
    instances: Sequence[Instance], focus: Focus | None, given: Sequence[SizeWeight]
) -> tuple[float, ...]:
    """Return the weights of `instances`: by `focus` times those `given`, which have the mean 1.

    None where all count as much.
    """
    weights = focus.weights(instances) if focus else (1.0,) * len(instances)
    if not given or not instances:
        return weights if focus else ()
    factors = [
        next(
            (g.weight for g in given if g.collective is i.collective and g.holds(i.msize_bytes)), 1
        )
        for i in instances
    ]
    mean = math.fsum(factors) / len(factors)
    return tuple(w * factor / mean for w, factor in zip(weights, factors, strict=True))


@dataclass(frozen=True)
class Focus:
    """What an application spends its time on.

    ``shapes`` are to be measured, whatever the campaign's nodes and ppn; ``spent`` has each
    instance once. ``covered`` is the share of the time in collectives that they stand for.
    """

    shapes: tuple[Shape, ...]
    spent: tuple[Spent, ...]
    covered: float

    def weights(self, instances: Iterable[Instance]) -> tuple[float, ...]:
        """Return how much time each of `instances` is worth, `LEAST` to `MOST`.

        Those that the application does not use are there to tell what lies between others.
        """
        return tuple(self._by_instance.get(instance, LEAST) for instance in instances)

    @cached_property
    def _by_instance(self) -> dict[Instance, float]:
        mean = sum(s.share for s in self.spent) / max(1, len(self.spent))
        return {
            Instance(s.collective, s.shape, s.msize_bytes): min(MOST, max(LEAST, s.share / mean))
            for s in self.spent
        }
