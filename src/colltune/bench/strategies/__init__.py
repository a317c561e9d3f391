"""Schedule strategies: what a campaign measures next. The registry stands beside the Protocol."""

from colltune.bench.strategies.adaptive import Adaptive
from colltune.bench.strategies.full_grid import FullGrid
from colltune.bench.strategies.latin_hypercube import LatinHypercube
from colltune.bench.strategies.protocol import State, Strategy, Visit, Visited

STRATEGIES: dict[str, Strategy] = {
    "adaptive": Adaptive(),
    "full_grid": FullGrid(),
    "latin_hypercube": LatinHypercube(),
}

__all__ = ["STRATEGIES", "State", "Strategy", "Visit", "Visited"]
