"""Tables of intervals as plain values, the same in JSON and HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from colltune.decisions import Interval
from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.selector.argmin import ModelSelector
from colltune.selector.decision_table import intervals


def tables(
    selector: ModelSelector, collectives: Iterable[Collective], shape: Shape
) -> list[tuple[Collective, Interval]]:
    """Return the intervals of all `collectives`, one collective after the other."""
    return [(c, interval) for c in collectives for interval in intervals(selector, c, shape)]


def tables_json(
    bundle: Bundle, shape: Shape, found: Iterable[tuple[Collective, Interval]]
) -> dict[str, Any]:
    """Return what `tables` found, with the bundle and shape that it is for."""
    return {
        "bundle": bundle.id,
        "objective": bundle.objective,
        "shape": {"nodes": shape.nodes, "ppn": shape.ppn},
        "intervals": [_interval_json(c, interval) for c, interval in found],
    }


def _interval_json(collective: Collective, interval: Interval) -> dict[str, Any]:
    prediction, default = interval.prediction, interval.default
    return {
        "collective": collective.value,
        "first_bytes": interval.first_bytes,
        "last_bytes": interval.last_bytes,
        "configuration": interval.configuration.id,
        "time_s": prediction.time_s if prediction else None,
        "default_time_s": default.time_s if default else None,
        "gain": interval.gain,
        "reason": interval.reason,
        "status": interval.status.value,
    }
