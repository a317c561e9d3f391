"""Schedule strategies: what a campaign measures next."""

from collections.abc import MutableMapping

from colltune.bench.strategies.protocol import State, Strategy, Visit, Visited
from colltune.on_demand import OnDemand

STRATEGIES: MutableMapping[str, Strategy] = OnDemand(
    {
        "adaptive": "colltune.bench.strategies.adaptive:adaptive",
        "full_grid": "colltune.bench.strategies.full_grid:full_grid",
        "latin_hypercube": "colltune.bench.strategies.latin_hypercube:latin_hypercube",
    }
)

__all__ = ["STRATEGIES", "State", "Strategy", "Visit", "Visited"]
