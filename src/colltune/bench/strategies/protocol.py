"""What a schedule strategy is asked, what it may look at, and what it answers."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Shape

if TYPE_CHECKING:
    from colltune.selector.confirming import ContestedInstance


@dataclass(frozen=True)
class Visit:
    """The next launch: `shape` is what is launched; the steps' cells are indices into the state's.

    ``what`` names the phase (``survey``); ``budget_s`` is its wall time, start included.
    """

    what: str
    shape: Shape
    steps: tuple[ScheduleStep, ...]
    budget_s: float


@dataclass(frozen=True)
class Visited:
    """A launch that this campaign has made, also before it was resumed; wall time in seconds.

    ``what`` is the phase that it was of, ``wall_s`` its wall time in seconds.
    """

    what: str
    shape: Shape
    wall_s: float


class Launches(NamedTuple):
    """The `number` of launches that a visit to all cells of a shape takes; each costs `seconds`."""

    number: int
    seconds: float


@dataclass(frozen=True)
class CampaignState:
    """How far a campaign has got: all that a strategy may look at.

    ``cells`` are all feasible cells of the campaign; ``times_s`` holds, by a cell's index, its
    repetitions so far, ``medians_s`` their median; ``closed`` are the cells not to be visited any
    more: they crashed, hung, were wrong or were abandoned as too slow. ``left_s`` is the wall time
    that is left, ``launch_s`` what a launch costs beside its steps, and ``visits`` the launches of
    each shape where they are known better. ``granted`` is the shape that every launch has because
    its cells are measured by sub-communicators; None: each shape needs a launch of its own.
    ``members`` are the cells of each shape, by index.

    ``weights`` tell, by a cell's index, how much time its instance is worth, the mean instance 1;
    where there are none, all are worth as much.

    ``contests`` are the decisions that a campaign is to confirm; ``by_launch`` has the repetitions
    of a cell, by its index, in each launch; ``failed`` are the cells that crashed, hung or were
    wrong.
    ``repeated`` are the shapes of which a second launch is wanted.

    ``history`` are the visits so far; ``max_reps`` and ``cell_s`` (seconds) the campaign's limits
    of one visit of a cell.
    """

    cells: tuple[Cell, ...]
    times_s: Mapping[int, tuple[float, ...]]
    closed: frozenset[int]
    history: tuple[Visited, ...]
    left_s: float
    launch_s: float
    max_reps: int
    cell_s: float
    granted: Shape | None
    medians_s: Mapping[int, float] = field(default_factory=dict)
    members: Mapping[Shape, tuple[int, ...]] = field(default_factory=dict)
    weights: Sequence[float] = ()
    contests: tuple[ContestedInstance, ...] = ()
    by_launch: Mapping[int, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    failed: frozenset[int] = frozenset()
    repeated: tuple[Shape, ...] = ()
    visits: Mapping[Shape, Launches] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.members:
            object.__setattr__(self, "members", by_shape(self.cells))

    @property
    def open(self) -> tuple[int, ...]:
        """The cells that may be visited, by index."""
        return tuple(i for i in range(len(self.cells)) if i not in self.closed)

    def launches(self, shape: Shape) -> Launches:
        """Return the launches that a visit to all cells of `shape` takes."""
        return self.visits.get(shape) or Launches(1, self.launch_s)

    def visit_s(self, shape: Shape) -> float:
        """Return what a visit to all cells of `shape` costs beside its steps, in seconds."""
        return math.prod(self.launches(shape))

    def weight(self, cell: int) -> float:
        """Return how much time the instance of `cell`, an index into ``cells``, is worth."""
        return self.weights[cell] if self.weights else 1.0

    def median_s(self, cell: int) -> float | None:
        """Return the median of a cell's repetitions so far; None if it has none.

        `cell` is an index into ``cells``.
        """
        if cell in self.medians_s:
            return self.medians_s[cell]
        return statistics.median(self.times_s[cell]) if self.times_s.get(cell) else None


def by_shape(cells: Sequence[Cell]) -> dict[Shape, tuple[int, ...]]:
    """Return the indices in `cells` of the cells of each shape."""
    found: dict[Shape, list[int]] = {}
    for index, cell in enumerate(cells):
        found.setdefault(cell.instance.shape, []).append(index)
    return {shape: tuple(indices) for shape, indices in found.items()}


Strategy = Callable[[CampaignState, random.Random], Visit | None]
"""Returns the next launch; None when nothing more is worth its time.

A strategy keeps no state of its own: a killed campaign goes on from `CampaignState` alone. Whatever
is random comes from the second argument.
"""
