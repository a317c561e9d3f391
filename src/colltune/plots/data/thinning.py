"""How many panels and rows a picture can hold, and which are taken where there are more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from colltune.domain import Collective, Shape

MOST_PANELS = 24
MOST_ROWS = 48
_MOST_ACROSS = 4


def spread(n: int, most: int) -> list[int]:
    """Return at most `most` of n positions, evenly spread, both ends among them if there are two.

    One alone is the last.
    """
    if n and most == 1:
        return [n - 1]
    if not n or not most:
        return []
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, most))})


def panels_each(collectives: int) -> int:
    """Return how many panels each of so many collectives can have."""
    return max(1, MOST_PANELS // max(1, collectives))


def spread_shapes(shapes: Sequence[Shape], most: int) -> list[Shape]:
    """Return at most `most` of `shapes`, sorted: evenly spread node counts with evenly spread ppn.

    Where such combinations are not all there, others take their place.
    """
    ordered = sorted(shapes)
    if len(ordered) <= most:
        return ordered
    nodes, ppn = (sorted({getattr(s, name) for s in ordered}) for name in ("nodes", "ppn"))
    across = min(len(ppn), _MOST_ACROSS)
    across = across if most >= 2 * across else min(across, math.isqrt(most))
    some_ppn = {ppn[k] for k in spread(len(ppn), across)}
    some_nodes = {nodes[k] for k in spread(len(nodes), max(1, most // across))}
    kept = [s for s in ordered if s.nodes in some_nodes and s.ppn in some_ppn]
    others = [s for s in ordered if s not in kept]
    return sorted([*kept, *(others[k] for k in spread(len(others), most - len(kept)))])


def notes_on(left_out: Mapping[Collective, str], collectives: int) -> tuple[str, ...]:
    """Return what was left out of so many collectives, those of which the same was together."""
    by_text: dict[str, list[str]] = {}
    for collective, text in left_out.items():
        by_text.setdefault(text, []).append(collective.value)
    every = 1 < collectives == len(left_out) and len(by_text) == 1
    return tuple(
        f"{text} of {'each collective' if every else ', '.join(names)}"
        for text, names in by_text.items()
    )
