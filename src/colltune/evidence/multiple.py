"""Many hypotheses at once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def discoveries(log_e: Mapping[str, float], rate: float) -> set[str]:
    """Return which hypotheses to reject: at most a share `rate` of these wrongly, in the mean.

    The e-BH procedure (Wang, Ramdas, Journal of the Royal Statistical Society B 84, 2022), for
    e-values that depend on each other in any way.
    """
    ranked = sorted(log_e, key=lambda name: -log_e[name])
    needed = math.log(len(ranked) / rate) if ranked else 0.0
    last = 0
    for number, name in enumerate(ranked, start=1):
        if log_e[name] + math.log(number) >= needed:
            last = number
    return set(ranked[:last])


def rejected(chances: Mapping[K, float], alpha: float = 0.05) -> set[K]:
    """Return which hypotheses to reject: any of these wrongly in a share `alpha` of all families.

    Holm's procedure (Scandinavian Journal of Statistics 6, 1979), for chances that depend on each
    other in any way.
    """
    found: set[K] = set()
    for at, name in enumerate(sorted(chances, key=lambda name: chances[name])):
        if chances[name] * (len(chances) - at) > alpha:
            break
        found.add(name)
    return found
