"""What is predicted, selected and written: the answers to the domain's questions.

Standard library only, as the domain itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.text import UNPRINTED, computed

ENOUGH_CORES, AS_MEASURED = 1 << 31, 0
"""Cores of a job's node: one for each process, and as few as where was measured."""


class Status(StrEnum):
    """What a decision rests on: a prediction, or a measurement beside the default.

    What was ``withdrawn`` was predicted faster than the default, and did not prove so.
    """

    PREDICTED = "predicted"
    CONFIRMED = "confirmed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True)
class Prediction:
    """A predicted runtime and the interval that holds about 90 % of measured ones."""

    time_s: float
    """predicted runtime"""
    lower_s: float
    """lower end of its 90 % interval"""
    upper_s: float
    """upper end of its 90 % interval"""


@dataclass(frozen=True)
class Candidate:
    """A configuration that could be chosen for an instance."""

    configuration: Configuration
    prediction: Prediction
    """its predicted runtime"""


@dataclass(frozen=True)
class Selection:
    """A selector's answer: the configuration to use and why."""

    instance: Instance
    """what was asked for"""
    configuration: Configuration
    """id of the selected configuration"""
    prediction: Prediction | None
    """its runtime"""
    default: Prediction | None
    """that of the library's own decision; null: it was never measured"""
    runners_up: tuple[Candidate, ...]
    """the next best configurations, fastest first"""
    extrapolated: bool
    """whether the instance lies outside what was measured"""
    reason: str
    """why, in words"""
    gain_bound: float | None = None
    """lower bound of the gain that the choice rests on; null: no gain was predicted"""
    status: Status = Status.PREDICTED
    """whether it was measured beside the default: predicted, confirmed or withdrawn"""

    @computed
    def gain(self) -> float:
        """Predicted runtime of the default over that of the chosen one; 1 when unknown."""
        if self.default is None or self.prediction is None or self.configuration.is_default:
            return 1.0
        return self.default.time_s / self.prediction.time_s


@dataclass(frozen=True)
class Interval:
    """A configuration for message sizes ``first_bytes`` to ``last_bytes`` (None: no end)."""

    first_bytes: int
    last_bytes: int | None
    configuration: Configuration
    prediction: Prediction | None = field(default=None, metadata=UNPRINTED)
    default: Prediction | None = field(default=None, metadata=UNPRINTED)
    reason: str = ""
    """why, in words, or empty"""
    status: Status = Status.PREDICTED
    """whether it was measured beside the default: predicted, confirmed or withdrawn"""

    @computed
    def collective(self) -> Collective:
        """The collective."""
        return self.configuration.collective

    @computed
    def time_s(self) -> float | None:
        """Its predicted runtime at its middle."""
        return self.prediction.time_s if self.prediction else None

    @computed
    def default_time_s(self) -> float | None:
        """Predicted runtime of the default there."""
        return self.default.time_s if self.default else None

    def middle(self, bound: int) -> int:
        """Return its geometric middle in bytes; without an end it is taken to reach to `bound`.

        What is predicted for a range of message sizes is what is predicted there, everywhere.
        """
        last = max(bound, self.first_bytes) if self.last_bytes is None else self.last_bytes
        middle = math.isqrt(max(self.first_bytes, 1) * max(last, 1))
        return min(max(middle, self.first_bytes), last)

    @computed
    def gain(self) -> float | None:
        """Predicted gain over the default there; null: nothing is known of it."""
        if self.prediction is None or self.default is None or self.configuration.is_default:
            return None
        return self.default.time_s / self.prediction.time_s

    def holds(self, msize_bytes: int) -> bool:
        """Tell whether messages of `msize_bytes` bytes belong to it."""
        return self.first_bytes <= msize_bytes and (
            self.last_bytes is None or msize_bytes <= self.last_bytes
        )


@dataclass(frozen=True)
class DecisionTable:
    """Message-size intervals per collective and communicator size, for one job's shape.

    ``library`` is the one whose configurations they choose.

    ``rules`` maps (collective, communicator size) to intervals that are ascending, adjacent, start
    at 0 bytes and end without bound. A communicator size that is absent is left to the library.
    ``by_layout`` does the same for communicators whose processes lie on nodes in exactly that
    shape, and goes before ``rules``; only some formats of files can tell layouts apart.
    ``cores_shared`` is that of the measurements' context.
    """

    library: str
    shape: Shape
    rules: dict[tuple[Collective, int], tuple[Interval, ...]]
    by_layout: dict[tuple[Collective, Shape], tuple[Interval, ...]] = field(default_factory=dict)
    cores_shared: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever reads a file of these decisions has to know, a line each."""
        if not self.cores_shared:
            return ()
        return (f"Measured on shared cores, {self.cores_shared}: only for jobs that share them.",)
