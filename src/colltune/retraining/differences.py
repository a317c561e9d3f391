"""What a candidate would decide differently, in short, for a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from colltune.domain import Shape
from colltune.models.bundle import Bundle
from colltune.selector.bundle_diff import Change, diff

_MOST_SHAPES = 16
_SHOWN = 20


def differences_of(old: Bundle, new: Bundle) -> dict[str, Any]:
    """Return how much changes on some of the shapes measured, and the changes with most effect.

    Ratios are predicted times of the old over the new choice, by the new bundle's models.
    """
    found = diff(old, new, _spread(sorted({*old.training_shapes, *new.training_shapes})))
    judged = [change for change in found.changes if change.by_new.ratio is not None]
    ratios = [change.by_new.ratio for change in judged if change.by_new.ratio is not None]
    ranked = sorted(judged, key=_effect, reverse=True)
    return {
        "shapes": [str(shape) for shape in found.shapes],
        "changed": {c.value: extent.share for c, extent in found.extents.items()},
        "changes": len(found.changes),
        "predicted_ratio": float(np.exp(np.mean(np.log(ratios)))) if ratios else None,
        "largest": [_described(change) for change in ranked[:_SHOWN]],
    }


def _spread(shapes: list[Shape]) -> list[Shape]:
    """Return so many of `shapes` as a nightly run has time for, evenly chosen."""
    if len(shapes) <= _MOST_SHAPES:
        return shapes
    at = np.linspace(0, len(shapes) - 1, _MOST_SHAPES).round().astype(int)
    return [shapes[k] for k in at]


def _effect(change: Change) -> float:
    return abs(float(np.log(change.by_new.ratio or 1.0)))


def _described(change: Change) -> dict[str, Any]:
    return {
        "collective": change.collective.value,
        "shape": str(change.shape),
        "first_bytes": change.first_bytes,
        "last_bytes": change.last_bytes,
        "old": change.old.id,
        "new": change.new.id,
        "predicted_ratio": change.by_new.ratio,
    }
