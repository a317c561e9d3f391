"""Schedule strategies: what a campaign measures next. The registry stands beside the Protocol."""

from colltune.bench.strategies.full_grid import FullGrid
from colltune.bench.strategies.protocol import State, Strategy, Visit, Visited

STRATEGIES: dict[str, Strategy] = {
    "full_grid": FullGrid(),
}

__all__ = ["STRATEGIES", "FullGrid", "State", "Strategy", "Visit", "Visited"]
