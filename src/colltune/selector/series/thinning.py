"""How many panels and rows a picture can hold, and which are taken where there are more."""

from __future__ import annotations

import numpy as np

MOST_PANELS = 24
MOST_ROWS = 48


def spread(n: int, most: int) -> list[int]:
    """Return at most `most` of n positions, evenly spread, both ends among them if there are two.

    One alone is the last.
    """
    if n and most == 1:
        return [n - 1]
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, most))})


def panels_each(collectives: int) -> int:
    """Return how many panels each of so many collectives can have."""
    return max(1, MOST_PANELS // max(1, collectives))
