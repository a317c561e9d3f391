"""Sketches of the seconds of calls, ``Use.times`` of a profile, as ddsketch's objects.

They have the buckets of DDSketch (Masson, Rim, Lee, VLDB 2019): sketches of many jobs can be
added up (`colltune.dataset.profile.summed`), and every quantile is within 5 % of the exact one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from colltune.dataset.profile import GAMMA
from colltune.errors import DataError
from colltune.on_demand import require

if TYPE_CHECKING:
    from ddsketch import DDSketch

ACCURACY = 0.05


def sketch(times: Mapping[int, int]) -> DDSketch:
    require("service", "ddsketch")
    from ddsketch import DDSketch

    found = DDSketch(ACCURACY)
    for key, calls in times.items():
        found.add(2 * GAMMA**key / (1 + GAMMA), calls)
    return found


def quantile(times: Mapping[int, int], q: float) -> float:
    """Return the seconds below which a share `q` of the calls stays."""
    found = sketch(times).get_quantile_value(q)
    if found is None:
        raise DataError(f"no quantile {q} of {sum(times.values())} timed calls: name 0 <= q <= 1")
    return float(found)
