"""The cells of a campaign, what is known of each, and how far it has got."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.bench.backends.protocol import Backend
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell, NearestForecast
from colltune.bench.strategies.protocol import CampaignState, Launches, Visited, by_shape
from colltune.dataset import read_parquet
from colltune.domain import Collective, Instance, Measurement, RunStatus, Shape
from colltune.errors import DataError, say

if TYPE_CHECKING:
    from colltune.selector.confirming import ContestedInstance

_SPREADS = (RunStatus.CRASH, RunStatus.TIMEOUT)
_OPEN = (RunStatus.OK, RunStatus.TOO_FEW)
_UNTRIED = (RunStatus.SKIPPED, RunStatus.NO_WINDOW)


def cells_of(campaign: Campaign, backend: Backend, *shapes: Shape) -> tuple[Cell, ...]:
    """Return the cells of the campaign on `shapes` that `backend` can measure."""
    if campaign.contests:
        contested = [
            cell
            for shape in shapes
            for one in campaign.contests
            if one.shape == shape
            for cell in one.cells
        ]
        cells = [Cell(*cell) for cell in dict.fromkeys(contested)]
    else:
        offered = {c: backend.portfolio(campaign, c).configurations for c in campaign.collectives}
        cells = [
            Cell(configuration, instance)
            for shape in shapes
            for collective, configurations in offered.items()
            for instances in [_instances(campaign, collective, shape)]
            for configuration in configurations
            for instance in instances
        ]
    return tuple(cell for cell in cells if backend.feasible(cell))


def _instances(campaign: Campaign, collective: Collective, shape: Shape) -> list[Instance]:
    blocks = shape.nprocs if collective.has_block_per_rank else 1
    sizes = (m for m in campaign.msizes_of(collective) if m * blocks <= campaign.max_buffer_bytes)
    return [Instance(collective, shape, msize_bytes) for msize_bytes in sizes]


def check_globs(campaign: Campaign, backend: Backend) -> None:
    """Refuse a glob of the campaign that matches no configuration."""
    if not (campaign.only or campaign.skip):
        return
    everything = campaign.changed(only=(), skip=())
    known = [
        configuration
        for collective in campaign.collectives
        for configuration in backend.portfolio(everything, collective).configurations
    ]
    for key in ("only", "skip"):
        for pattern in getattr(campaign, key):
            if not any(configuration.matches(pattern) for configuration in known):
                names = sorted({f"{c.library}.{c.collective}.{c.algorithm}" for c in known})
                raise say("matches-nothing", key=key, pattern=pattern, known=", ".join(names))


@dataclass(frozen=True)
class CampaignProgress:
    """How far a campaign is; ``note`` is a sentence for the user, told once."""

    what: str
    shape: Shape
    launch: int
    now: Cell | None
    measured: int
    cells: int
    spent_s: float
    budget_s: float
    ends_s: float
    note: str = ""


Progress = Callable[[CampaignProgress], None]


class MeasuredCells:
    """The cells of a campaign with their repetitions so far, by a cell's index, in seconds."""

    def __init__(
        self,
        cells: tuple[Cell, ...],
        granted: Shape | None,
        history: list[Visited],
        weights: Sequence[float] = (),
        *,
        reopens: bool = False,
    ) -> None:
        """`reopens`: a launch may visit again what an earlier one abandoned as slow."""
        self.cells, self.granted, self.history = cells, granted, history
        self.weights, self._reopens = weights, reopens
        self.times_s: dict[int, tuple[float, ...]] = {}
        self.medians_s: dict[int, float] = {}
        self.forecast = NearestForecast()
        self.by_launch: dict[int, dict[str, tuple[float, ...]]] = {}
        self.closed: set[int] = set()
        self.failed: set[int] = set()
        self.apart = False
        self.members = by_shape(cells)
        self._index = {cell: index for index, cell in enumerate(cells)}
        self._skipped: list[int] = []

    def state(
        self,
        left_s: float,
        launch_s: float,
        max_reps: int,
        cell_s: float,
        contests: tuple[ContestedInstance, ...] = (),
        repeated: tuple[Shape, ...] = (),
        visits: Mapping[Shape, Launches] | None = None,
    ) -> CampaignState:
        return CampaignState(
            cells=self.cells,
            times_s=self.times_s,
            medians_s=self.medians_s,
            closed=frozenset(self.closed),
            history=tuple(self.history),
            left_s=left_s,
            launch_s=launch_s,
            max_reps=max_reps,
            cell_s=cell_s,
            granted=self.granted,
            members=self.members,
            weights=self.weights,
            contests=contests,
            by_launch=self.by_launch,
            failed=frozenset(self.failed),
            repeated=repeated,
            visits=visits or {},
        )

    def learn(self, measurements: Iterable[Measurement]) -> None:
        for m in measurements:
            index = self._index.get(Cell(m.configuration, m.instance))
            if index is None or m.status in _UNTRIED:
                continue
            if m.status.is_timed:
                self.times_s[index] = self.times_s.get(index, ()) + m.times_s
                self.medians_s[index] = statistics.median(self.times_s[index])
                self.forecast.learn(self.cells[index], self.medians_s[index])
                if m.times_s:
                    self.by_launch.setdefault(index, {})[m.launch] = m.times_s
            else:
                self.failed.add(index)
            if m.status not in _OPEN and not (self._reopens and m.status.is_timed):
                self.closed.add(index)
            if m.status in _SPREADS:
                alike = [
                    at
                    for at in self.members[m.instance.shape]
                    if self.cells[at].configuration == m.configuration
                ]
                self.closed.update(alike)
                self.failed.update(alike)

    def recall(self, dataset: Path, launches: Container[str]) -> None:
        """Add what the named launches left in the dataset."""
        try:
            known = read_parquet(dataset).measurements()
        except DataError:
            if any(dataset.glob("*.parquet")):
                raise
            return
        self.learn(m for m in known if m.launch in launches)

    def skip(self, indices: Iterable[int]) -> None:
        """Close cells that are predicted to be too slow; `take_skipped` returns them once."""
        self._skipped += indices
        self.closed.update(indices)

    def take_skipped(self, launch: str) -> tuple[Measurement, ...]:
        """Return the measurements that record what was skipped since the last call."""
        taken, self._skipped = [self.cells[index] for index in self._skipped], []
        return tuple(
            Measurement(cell.instance, cell.configuration, launch, RunStatus.SKIPPED)
            for cell in taken
        )

    def give_up(self, shape: Shape) -> None:
        """Launch no more on `shape`; where it held smaller shapes, these get their own launches."""
        if shape == self.granted:
            self.granted = None
        self.closed.update(self.members.get(shape, ()))

    def untouched(self, begun: Set[int] = frozenset()) -> int:
        """Return how many cells were neither measured, nor closed for a reason, nor `begun`."""
        untimed = {index for index in self.closed if index not in self.times_s}
        untimed |= {index for index in begun if index not in self.times_s}
        return len(self.cells) - len(self.times_s) - len(untimed)
