"""How launches were measured: what has to be alike before their times are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

IN_PLACE_OF = "synchronisation_asked_for"
_BY_CLOCKS = ("window", "start time")


def method_of(facts: Mapping[str, str]) -> str:
    """Return benchmark, synchronisation and clocks in words; empty where `facts` do not tell."""
    how = facts.get("sync") or facts.get("synchronisation", "")
    backend = facts.get("backend", "")
    if not how or not backend:
        return ""
    clocks = facts.get("clock_synchronisation", "")
    if how.startswith(_BY_CLOCKS):
        return f"{backend}, windows{f' by {clocks} clocks' if clocks else ''}"
    asked = facts.get(IN_PLACE_OF)
    return f"{backend}, barriers{f' in place of the {asked}s asked for' if asked else ''}"


def methods(provenances: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Return how many launches were measured by each known method, the most first."""
    found = Counter(method_of(facts) for facts in provenances)
    found.pop("", None)
    return dict(found.most_common())


def worth_telling(found: Mapping[str, int]) -> dict[str, int]:
    """Return `found` where it is not the one method that was asked for."""
    return dict(found) if len(found) > 1 or any("in place of" in m for m in found) else {}


def in_words(found: Mapping[str, int]) -> str:
    return "; ".join(f"{method}: {n}" for method, n in found.items())
