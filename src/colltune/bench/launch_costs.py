"""What a launch costs beside its measurements, learned from every launch that was made.

A launch that was killed before its first job tells that its start takes longer than it had: it is
a censored observation, and the estimate is the upper quartile by the product limit (Kaplan and
Meier, JASA 53, 1958). Where killed launches leave that open, it is twice the longest one, so that
a few launches find any cost (Bentley and Yao, 1976).
"""

from __future__ import annotations

import math
from typing import NamedTuple

_UNLIKELY = 0.25 + 1e-9
_LONGER = 2.0
_LATEST = 12


class LaunchCost(NamedTuple):
    """What a launch on ``nodes`` nodes cost in seconds; more, if it was ``cut`` before its jobs."""

    nodes: int
    seconds: float
    cut: bool = False


class LaunchCosts:
    """The costs of launches by one launcher; before the first one, `guess_s` seconds each.

    What the user says, `given_s`, counts as one observation on whatever number of nodes.
    """

    def __init__(self, guess_s: float, given_s: float | None = None) -> None:
        self._guess_s, self._given_s = guess_s, given_s
        self._seen: dict[int, list[LaunchCost]] = {}

    def learn(self, *costs: LaunchCost) -> None:
        """Take in what launches cost."""
        for cost in costs:
            self._seen.setdefault(cost.nodes, []).append(cost)

    @property
    def reached(self) -> bool:
        """Whether some launch came to its first job."""
        return any(not cost.cut for costs in self._seen.values() for cost in costs)

    @property
    def longest_cut_s(self) -> float:
        """Seconds of the longest launch that did not come to its first job; 0 if there is none."""
        cut = (cost.seconds for costs in self._seen.values() for cost in costs if cost.cut)
        return max(cut, default=0.0)

    def known(self, nodes: int) -> bool:
        """Tell whether launches on so many `nodes` have been seen to start, or are told of."""
        told = self._given_s is not None
        return told or any(not cost.cut for cost in self._seen.get(nodes, ()))

    def seconds(self, nodes: int) -> float:
        """Return what the next launch on `nodes` nodes is thought to cost."""
        near = min(self._seen, key=lambda n: (abs(math.log2(n / nodes)), n), default=nodes)
        seen = self._seen.get(near, [])[-_LATEST:]
        if self._given_s is not None:
            seen = [LaunchCost(nodes, self._given_s), *seen]
        return _upper_quartile_s(seen) if seen else self._guess_s


def _upper_quartile_s(costs: list[LaunchCost]) -> float:
    surviving = 1.0
    ordered = sorted(costs, key=lambda cost: (cost.seconds, cost.cut))
    for number, cost in enumerate(ordered):
        if not cost.cut:
            surviving *= 1 - 1 / (len(ordered) - number)
            if surviving <= _UNLIKELY:
                return cost.seconds
    return _LONGER * ordered[-1].seconds
