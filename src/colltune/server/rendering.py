"""Renders configurations for a service: bounded in what it keeps, and counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.selector.configuration import Rendered, Target, render, selector_for
from colltune.server.lru import Lru

_MOST_ENTRIES, _MOST_BYTES = 1024, 32 << 20
_OVERHEAD_BYTES = 2048


@dataclass(frozen=True)
class Rendering:
    """A configuration, without the table that it was made of, which is large.

    ``kept`` and ``replaced`` are the collectives whose default is kept for all messages on the
    communicator of the whole job, or replaced for some; ``is_empty`` tells that nothing at all is
    replaced, so that a job is better told nothing.
    """

    rendered: Rendered
    kept: tuple[str, ...]
    replaced: tuple[str, ...]
    is_empty: bool


Renderings = Lru[tuple[str, str, str], Rendering]
"""By format, release and shape."""


def renderings() -> Renderings:
    """Return a place in which to keep some."""
    return Lru(_MOST_ENTRIES, _MOST_BYTES, _size_bytes)


def _size_bytes(_key: object, found: Rendering) -> int:
    return _OVERHEAD_BYTES + sum(map(len, found.rendered.written.texts.values()))


def rendering(
    bundle: Bundle, kept: Renderings, shape: Shape, target: Target, guard: Guard
) -> Rendering:
    """Return the configuration of a job of `shape` that `bundle` gives."""
    key = (target.form.name, target.release, str(shape))
    found = kept.get(key)
    if found is None:
        # a selector remembers every shape that it was asked for, so each gets its own
        found = _slim(render(selector_for(bundle, target, guard=guard), shape, target))
        kept.put(key, found)
    return found


def _slim(rendered: Rendered) -> Rendering:
    table = rendered.table
    replaced = {collective for collective in Collective if _is_replaced(table, collective)}
    asked = {collective for collective, _ in table.rules}
    without_rules = DecisionTable(table.library, table.shape, {})
    return Rendering(
        replace(rendered, table=without_rules),
        tuple(sorted(c.value for c in asked - replaced)),
        tuple(sorted(c.value for c in replaced)),
        not any(map(_is_any_replaced, (*table.rules.values(), *table.by_layout.values()))),
    )


def _is_replaced(table: DecisionTable, collective: Collective) -> bool:
    return _is_any_replaced(table.rules.get((collective, table.shape.nprocs), ()))


def _is_any_replaced(intervals: Iterable[Interval]) -> bool:
    return any(not interval.configuration.is_default for interval in intervals)
