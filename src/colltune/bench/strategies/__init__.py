"""Schedule strategies: what a campaign measures next."""

from collections.abc import MutableMapping

from colltune.bench.strategies.protocol import CampaignState, Strategy, Visit, Visited
from colltune.errors import CampaignError, say, unknown
from colltune.on_demand import OnDemand

STRATEGIES: MutableMapping[str, Strategy] = OnDemand(
    {
        "full_grid": "colltune.bench.strategies.full_grid:full_grid",
        "latin_hypercube": "colltune.bench.strategies.latin_hypercube:latin_hypercube",
    }
)
_REPLACED = {"adaptive": "full_grid"}


def known(name: str) -> str:
    """Return `name` if it is a strategy's.

    Raises
    ------
    CampaignError
        If it is not; of one that earlier releases had it names what does its work now.
    """
    if name in STRATEGIES:
        return name
    if name in _REPLACED:
        raise say("removed-strategy", name=name, instead=_REPLACED[name])
    raise unknown("strategy", name, STRATEGIES, CampaignError)


__all__ = ["STRATEGIES", "CampaignState", "Strategy", "Visit", "Visited", "known"]
