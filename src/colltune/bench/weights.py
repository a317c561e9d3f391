"""How much the instances of a campaign count: by an application's time, and by what a user says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from colltune.domain import Collective, Instance, Shape, parse_collective
from colltune.errors import CampaignError, DataError, say
from colltune.text import parse_bytes

LEAST, MOST = 0.1, 10.0
"""Bounds of a weight; the mean instance of the application has 1."""


class Spent(NamedTuple):
    """The `share` of the application's time in collectives spent on messages of `msize_bytes`."""

    collective: Collective
    shape: Shape
    msize_bytes: int
    share: float


class SizeWeight(NamedTuple):
    """The `weight` of a collective's messages of `least_bytes` to `most_bytes` (None: no bound)."""

    collective: Collective
    least_bytes: int
    most_bytes: int | None
    weight: float

    @classmethod
    def parse(cls, collective: Collective, sizes: str, weight: object) -> SizeWeight:
        """Return the weight of the `sizes` written ``0..4096`` or ``1M..``."""
        if type(weight) not in (int, float) or not LEAST <= weight <= MOST:  # type: ignore[operator]
            raise say("not-a-weight", collective=collective, value=weight)
        first, dots, last = sizes.partition("..")
        try:
            least, most = parse_bytes(first), parse_bytes(last) if last else None
        except DataError:
            dots = ""
        if not dots:
            what, like = "a range of bytes", '"0..4096" or "1M.."'
            raise say("malformed", CampaignError, value=sizes, what=what, like=like)
        return cls(collective, least, most, float(weight))  # type: ignore[arg-type]

    def holds(self, msize_bytes: int) -> bool:
        """Tell whether messages of `msize_bytes` are meant."""
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
    instance once. ``covered`` is the share of the time in collectives that they stand for,
    ``of_run`` the share of the run that is spent in collectives, None if that is not known.
    """

    shapes: tuple[Shape, ...]
    spent: tuple[Spent, ...]
    covered: float
    of_run: float | None = None

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


def size_weights(table: Mapping[str, Any]) -> tuple[SizeWeight, ...]:
    """Return the weights in the table ``[weights]`` of a campaign file."""
    return tuple(
        SizeWeight.parse(parse_collective(name), sizes, weight)
        for name, told in table.items()
        for sizes, weight in (told if isinstance(told, dict) else {"0..": told}).items()
    )
