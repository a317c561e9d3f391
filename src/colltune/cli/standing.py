"""How far a campaign is, put into words for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from colltune.cli.console import bytes_text

if TYPE_CHECKING:
    from colltune.bench.progress import CampaignProgress
    from colltune.bench.schedule import Cell
    from colltune.cli.console import Progress


def shows(shown: Progress) -> Callable[[CampaignProgress], None]:
    """Return what tells `shown` how far a campaign is."""

    def tell(standing: CampaignProgress) -> None:
        if shown.view.title != "measuring":
            shown.phase("measuring")
        shown.spend(
            standing.spent_s,
            standing.budget_s,
            ends_s=standing.ends_s,
            facts=cells_done(standing),
            now=under_way(standing),
        )

    return tell


def cells_done(standing: CampaignProgress) -> tuple[str, ...]:
    """Return how many cells are done of all, in two ways, the longer first."""
    done = f"{standing.measured}/{standing.cells}"
    return f"{done} cells", done


def under_way(standing: CampaignProgress) -> str:
    """Return what is measured now: ``bcast chain:fanout=4, 64 KiB on 4x32 (launch 2, survey)``."""
    where = f"launch {standing.launch}, {standing.what}"
    if standing.now is None:
        return f"on {standing.shape} ({where})"
    return f"{_cell_text(standing.now)} ({where})"


def _cell_text(cell: Cell) -> str:
    configuration, instance = cell.configuration, cell.instance
    words = filter(None, (configuration.stored_algorithm, configuration.parameter_text))
    size = bytes_text(instance.msize_bytes)
    unit = "" if size.endswith("B") else " B"
    return f"{instance.collective} {':'.join(words)}, {size}{unit} on {instance.shape}"
