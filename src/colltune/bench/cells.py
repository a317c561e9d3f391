"""The cells of a campaign: its configurations on its instances, where they run as themselves."""

from __future__ import annotations

from collections.abc import Iterable

from colltune.bench.backends.protocol import Backend
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell
from colltune.domain import Instance, Shape
from colltune.errors import CampaignError
from colltune.selector.confirming import Contest


def cells_of(campaign: Campaign, backend: Backend, shape: Shape) -> tuple[Cell, ...]:
    """Return the feasible cells of the campaign on `shape`."""
    if campaign.contests:
        return _contested(campaign.contests, backend, shape)
    cells: list[Cell] = []
    for collective in campaign.collectives:
        blocks = shape.nprocs if collective.has_block_per_rank else 1
        sizes = campaign.msizes_of(collective)
        fitting = [m for m in sizes if m * blocks <= campaign.max_buffer_bytes]
        for configuration in backend.portfolio(campaign, collective).configurations:
            instances = (Instance(collective, shape, msize_bytes) for msize_bytes in fitting)
            cells += [Cell(configuration, instance) for instance in instances]
    return tuple(cell for cell in cells if backend.feasible(cell))


def _contested(contests: Iterable[Contest], backend: Backend, shape: Shape) -> tuple[Cell, ...]:
    """Return the feasible cells of what is to be confirmed on `shape`."""
    cells = (Cell(*cell) for one in contests if one.shape == shape for cell in one.cells)
    return tuple(cell for cell in dict.fromkeys(cells) if backend.feasible(cell))


def check_globs(campaign: Campaign, backend: Backend) -> None:
    """Refuse a glob of the campaign that matches no configuration."""
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
                raise CampaignError(
                    f"space.{key}: {pattern!r} matches no configuration that can be measured here;"
                    f" there are {', '.join(names)}"
                )
