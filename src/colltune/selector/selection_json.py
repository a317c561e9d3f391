"""Selections as plain values, the same in files, JSON and HTTP."""

from __future__ import annotations

from typing import Any

from colltune.decisions import Selection

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
