"""Tested instances and what each recipe decided on them: plain columns, fit for a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Instances:
    """N tested instances, in the order of the folds; the same instance may be in several.

    ``collective`` and ``fold`` (n) are names; ``default_s`` and ``best_s`` measured seconds;
    ``best`` the ids of the configurations measured fastest. ``weight`` (n) is how much each counts,
    the mean 1; None: all as much.
    """

    collective: tuple[str, ...]
    fold: tuple[str, ...]
    nodes: Integers
    ppn: Integers
    msize_bytes: Integers
    default_s: Numbers
    best_s: Numbers
    best: tuple[str, ...]
    weight: Numbers | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def collectives(self) -> tuple[str, ...]:
        """The collectives, sorted."""
        return tuple(sorted(set(self.collective)))

    def of(self, collective: str | None) -> Flags:
        """Tell which instances are of `collective`, all for None."""
        if collective is None:
            return np.ones(len(self), np.bool_)
        return np.array([c == collective for c in self.collective], np.bool_)

    @property
    def weights(self) -> Numbers:
        """How much each instance counts, shape (n)."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def blocks(self) -> Integers:
        """Return the number of each instance's shape, shape (n): what is resampled together."""
        pairs = np.column_stack([self.nodes, self.ppn])
        return np.asarray(np.unique(pairs, axis=0, return_inverse=True)[1], np.int64).reshape(-1)


@dataclass(frozen=True, eq=False)
class Decided:
    """What one recipe chose for n tested instances.

    ``configuration`` (n) are ids, ``selected_s`` their measured seconds, ``kept`` whether that is
    the default. ``unmeasured`` (n) tells choices without a time on their instance, which count as
    the default's time: a library that is asked for what it cannot run decides itself. ``noise`` (n)
    is the standard deviation of log(selected_s / default_s) that the data let expect from chance,
    NaN where they do not tell. ``fit_s`` and ``predict_s`` are seconds spent by collective;
    ``learner`` tells that this is one of those asked for, not a baseline. ``confirm_s`` are the
    seconds of measuring by which decisions were confirmed, ``exhaustive_s`` those of measuring
    everything on the instances; both are empty where nothing was confirmed.
    """

    configuration: tuple[str, ...]
    selected_s: Numbers
    kept: Flags
    unmeasured: Flags
    noise: Numbers
    fit_s: Mapping[str, float]
    predict_s: Mapping[str, float]
    learner: bool
    confirm_s: Mapping[str, float] = field(default_factory=dict)
    exhaustive_s: Mapping[str, float] = field(default_factory=dict)
