"""Selections as plain values, the same in files, JSON and HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from colltune.decisions import Interval, Selection
from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.selector.argmin import ModelSelector

if TYPE_CHECKING:
    from colltune.mpi.programs import Programs

COLUMNS = (
    "collective",
    "nodes",
    "ppn",
    "msize_bytes",
    "algorithm",
    "parameters",
    "segsize_bytes",
    "time_s",
    "lower_s",
    "upper_s",
    "default_time_s",
    "reason",
)
"""Of `selection_row`."""


def selection_row(selection: Selection) -> list[Any]:
    """Return the values of `COLUMNS`; the empty text stands for what is not known."""
    instance, configuration = selection.instance, selection.configuration
    prediction, default = selection.prediction, selection.default
    segsize = configuration.segsize_bytes
    return [
        instance.collective.value,
        instance.shape.nodes,
        instance.shape.ppn,
        instance.msize_bytes,
        configuration.algorithm,
        configuration.parameter_text,
        "" if segsize is None else segsize,
        prediction.time_s if prediction else "",
        prediction.lower_s if prediction else "",
        prediction.upper_s if prediction else "",
        default.time_s if default else "",
        selection.reason,
    ]


def selection_json(selection: Selection) -> dict[str, Any]:
    """Return one decision with everything that is known of it; None for what is not."""
    row: dict[str, Any] = {
        k: (v if v != "" else None) for k, v in zip(COLUMNS, selection_row(selection), strict=True)
    }
    return row | {
        "configuration": selection.configuration.id,
        "gain": selection.gain,
        "gain_bound": selection.gain_bound,
        "extrapolated": selection.extrapolated,
        "status": selection.status.value,
        "runners_up": [
            {"configuration": c.configuration.id, "time_s": c.prediction.time_s}
            for c in selection.runners_up
        ],
    }


def tables(
    selector: ModelSelector, collectives: Iterable[Collective], shape: Shape
) -> list[tuple[Collective, Interval]]:
    """Return the intervals of all `collectives`, one collective after the other."""
    from colltune.selector.decision_table import intervals

    return [(c, interval) for c in collectives for interval in intervals(selector, c, shape)]


def tables_json(
    bundle: Bundle,
    shape: Shape,
    found: Iterable[tuple[Collective, Interval]],
    programs: Programs,
) -> dict[str, Any]:
    """Return what `tables` found, with the bundle and shape that it is for."""
    return {
        "bundle": bundle.id,
        "objective": bundle.objective,
        "promise": str(programs),
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
