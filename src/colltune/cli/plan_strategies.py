"""`colltune plan --replay`: what the schedule strategies reach for which cost, on recorded data."""

from __future__ import annotations

import math
import statistics
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltune.cli.console import columns, progress, show

if TYPE_CHECKING:
    from colltune.bench.strategies.curves import Curve

_SHARES = (0.5, 0.8, 0.95)


def compare(
    data: Path,
    first: str,
    picture: Path,
    *,
    subshapes: bool,
    seeds: int,
    quiet: bool,
    where: dict[str, str],
) -> dict[str, Any]:
    """Replay `data` with every strategy, `first` before the others, and draw `picture`.

    Returns
    -------
    dict
        Per strategy the cost, as a share of the exhaustive campaign's wall time, from which on the
        worst collective keeps 50, 80 and 95 % of the full grid's gain (median over seeds, None
        where a strategy never gets there), and that share at the strategy's end.
    """
    from colltune.bench.strategies import STRATEGIES
    from colltune.bench.strategies.curves import curves
    from colltune.dataset import read
    from colltune.plots.saving import saved
    from colltune.plots.strategies import regret_over_cost

    names = [first, *(name for name in STRATEGIES if name != first)]
    with progress("reading", quiet=quiet) as shown:
        dataset = read([data], where)
        shown.phase("replaying", "campaigns")
        begun = count(0)

        def tell(what: str) -> None:
            shown.count(next(begun), len(names) * seeds, what)

        found = curves(
            dataset,
            strategies=names,
            seeds=range(seeds),
            shared_launches=subshapes,
            progress=tell,
        )
        shown.phase("drawing")
        saved(regret_over_cost(found), picture)
    return {
        "data": str(data),
        "seeds": seeds,
        "picture": str(picture),
        "strategies": {name: _facts([c for c in found if c.strategy == name]) for name in names},
    }


def _facts(curves: list[Curve]) -> dict[str, float | None]:
    facts: dict[str, float | None] = {}
    for share in _SHARES:
        cost = statistics.median(curve.cost_at(share) for curve in curves)
        facts[f"cost_at_{100 * share:.0f}pct"] = cost if math.isfinite(cost) else None
    facts["share_at_end"] = statistics.median(curve.worst(curve.points[-1]) for curve in curves)
    return facts


def show_comparison(facts: dict[str, Any]) -> None:
    """Print the comparison as a table."""
    header = ("strategy", *(f"cost at {100 * share:.0f} %" for share in _SHARES), "share at end")
    rows = [(name, *map(_percent, each.values())) for name, each in facts["strategies"].items()]
    show(
        "\nstrategies replayed: cost, of an exhaustive campaign's wall time, from which on the"
        " worst collective\nkeeps that share of the full grid's gain on node counts that were not"
        f" measured ({facts['seeds']} seeds)\n"
    )
    show(columns(header, rows))
    show(f"\npicture: {facts['picture']}")


def _percent(value: float | None) -> str:
    return "never" if value is None else f"{100 * value:.3g} %"
