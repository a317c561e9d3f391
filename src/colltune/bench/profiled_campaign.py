"""A campaign narrowed down to what an application uses, by its profile.

Measured are the campaign's collectives that the application calls, with the message sizes that it
passes (the mean of each bin), and with the campaign's own sizes between and next to them: those
tell models what lies in between, and get little time. A communicator's shape is measured itself if
it is one of the campaign's shapes, or fits into them where launches measure smaller shapes;
otherwise the two nearest of the campaign's shapes share its weight, of those on one node or of
those on several, as it is itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from colltune.bench.campaign import Campaign, Focus, Spent
from colltune.bench.schedule import octaves_apart
from colltune.dataset.profile import Profile, Use
from colltune.domain import Collective, Shape
from colltune.errors import CampaignError

_LEAST_SHARE = 0.001
_NEAREST = 2


def focused(campaign: Campaign, profile: Profile) -> Campaign:
    """Return `campaign` with the budget where the application's time is."""
    total_s = max(profile.collectives_s, 1e-300)
    spent: dict[tuple[Collective, Shape, int], float] = {}
    for use in profile.uses:
        share = use.process_s / total_s
        if use.kind.collective not in campaign.collectives or share < _LEAST_SHARE:
            continue
        shapes = _shapes_for(use, campaign)
        for shape in shapes:
            at = use.kind.collective, shape, use.msize_bytes
            spent[at] = spent.get(at, 0.0) + share / len(shapes)
    if not spent:
        raise CampaignError(_nothing(campaign, profile))
    rows = tuple(Spent(*at, share) for at, share in sorted(spent.items()))
    collectives = tuple(dict.fromkeys(row.collective for row in rows))
    focus = Focus(
        tuple(sorted({row.shape for row in rows}, reverse=True)),
        rows,
        math.fsum(row.share for row in rows),
        profile.collectives_s / profile.process_s if profile.process_s else None,
    )
    sizes = {
        c: _with_neighbours(
            sorted({row.msize_bytes for row in rows if row.collective is c}), campaign.msizes_of(c)
        )
        for c in collectives
    }
    return campaign.changed(collectives=collectives, msizes_bytes_of=sizes, focus=focus)


def _shapes_for(use: Use, campaign: Campaign) -> Sequence[Shape]:
    """Return the shapes whose measurements tell of a use; none if there are none."""
    shape, own = use.kind.shape, campaign.shapes
    if shape is None or shape.nprocs == 1:
        return ()
    largest = campaign.largest
    fits = shape.nodes <= largest.nodes and shape.ppn <= largest.ppn
    if shape in own or (campaign.subshapes and fits):
        return (shape,)
    alike = [other for other in own if (other.nodes > 1) == (shape.nodes > 1)]
    return sorted(alike, key=lambda other: (octaves_apart(shape, other), other))[:_NEAREST]


def _with_neighbours(used: Sequence[int], own: Iterable[int]) -> tuple[int, ...]:
    """Return the sizes used, and those of the campaign from the next lower to the next higher."""
    own = sorted(own)
    low = max((size for size in own if size <= used[0]), default=used[0])
    high = min((size for size in own if size >= used[-1]), default=used[-1])
    return tuple(sorted({*used, *(size for size in own if low <= size <= high)}))


def _nothing(campaign: Campaign, profile: Profile) -> str:
    called: Mapping[str, None] = dict.fromkeys(u.kind.collective.value for u in profile.uses)
    return (
        f"the application calls {', '.join(called) or 'no collective'}, but the campaign "
        f"({', '.join(campaign.collectives)} on {', '.join(map(str, campaign.shapes))}) does "
        "not cover its communicators. Add the missing values to space.collectives, "
        "space.nodes and space.ppn."
    )
