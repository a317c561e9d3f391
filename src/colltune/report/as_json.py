"""A report's figures for machines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from colltune.domain import Configuration, Shape
from colltune.models.bundle import Bundle
from colltune.plot_data.measured import Comparison, Errors, gain_bins
from colltune.plot_data.runtimes import Curve
from colltune.plot_data.summaries import (
    decision_runs,
    reason_counts,
    usages,
)
from colltune.report.figures import CollectiveFigures, Figures


def as_json(found: Figures) -> dict[str, Any]:
    """Return the figures as a JSON-able dictionary; what is not known is null."""
    return {
        "bundle": _bundle(found.bundle),
        "guard": found.guard,
        "with_data": found.with_data,
        "with_held_out": found.with_held_out,
        "not_in_bundle": [c.value for c in found.not_in_bundle],
        "collectives": {
            f.collective.value: _collective(found.bundle, f) for f in found.collectives
        },
    }


def _bundle(bundle: Bundle) -> dict[str, Any]:
    return {
        "id": bundle.id,
        "context": asdict(bundle.context),
        "objective": bundle.objective,
        "created_utc": bundle.created_utc,
        "colltune_version": bundle.colltune_version,
        "training_shapes": [str(shape) for shape in bundle.training_shapes],
        "evidence": _plain(bundle.evidence),
    }


def _collective(bundle: Bundle, found: CollectiveFigures) -> dict[str, Any]:
    model, decisions = bundle.model(found.collective), found.decisions
    return {
        "learner": model.learner,
        "feature_set": model.feature_set,
        "configurations": len(model.configurations),
        "default_measured": model.default_column is not None,
        "shapes_left_out": decisions.grid.left_out,
        "decisions": _rows(decision_runs(decisions)),
        "judged_on": _judged_on(found),
        "usage": _rows(usages(decisions)),
        "reasons": [
            {"why": why.value, "on_measured": inside, "elsewhere": outside}
            for why, (inside, outside) in reason_counts(decisions).items()
        ],
        "gains": _rows(found.gains),
        "runtimes": [_curve(curve) for curve in found.curves],
        "data": _evidence(found.comparison, found.errors),
        "held_out": (
            _evidence(found.held_out.comparison, found.held_out.errors) if found.held_out else None
        ),
    }


def _judged_on(found: CollectiveFigures) -> str | None:
    """Return what measured gains and runtimes are of, None if they are predicted."""
    if found.held_out is not None:
        return "held_out"
    return "data" if found.comparison is not None else None


def _evidence(comparison: Comparison | None, errors: Errors | None) -> dict[str, Any] | None:
    if comparison is None or errors is None:
        return None
    return {
        "decisions": _plain(asdict(comparison.summary())),
        "calibration": _rows((errors.all(), *errors.by_nodes())),
        "gains": _rows(gain_bins(comparison)),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "shape": str(curve.shape),
        "measured": curve.measured,
        "trained": curve.trained,
        "msize_bytes": curve.msize_bytes.tolist(),
        "configurations": [c.id for c in curve.configurations],
        "default_s": _plain(curve.default_s),
        "selected_s": _plain(curve.selected_s),
        "best_s": _plain(curve.best_s),
    }


def _rows(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in vars(row).items()} for row in rows]


def _plain(value: Any) -> Any:  # noqa: PLR0911
    """Return `value` without what JSON does not know."""
    if isinstance(value, Shape):
        return str(value)
    if isinstance(value, Configuration):
        return value.id
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return _plain(vars(value)) if hasattr(value, "__dataclass_fields__") else value
