"""Where a campaign's time is to go: weights of instances, by an application's time."""

from __future__ import annotations

from collections.abc import Iterable
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
