"""The evidence of a bundle, whatever its manifest holds, as tables and lists."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from colltune.domain import Collective
from colltune.models.bundle import Bundle
from colltune.report.markup import Child, Markup, element, joined, table

_LEARNERS = "learners"
_MEANINGS = {
    "regret": "mean of log(t_selected / t_best) on held-out instances",
    "share": "share of the log gain over the default that was to be had",
    "harm": "share of decisions slower than the default by more than 5 % and beyond noise",
}
_DEEPEST = 4
_MOST_ROWS = 400
_MOST_TEXT = 2000


def number_text(value: float) -> str:
    """Return a number for people; shares and factors with three digits."""
    if isinstance(value, bool) or not math.isfinite(value):
        return str(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def general_evidence(bundle: Bundle) -> Markup:
    """Return the learners with their held-out figures, and what belongs to no single collective."""
    rest = dict(bundle.evidence)
    if isinstance(rest.get(_LEARNERS), Mapping):
        del rest[_LEARNERS]
    if not bundle.evidence:
        return element(
            "p",
            "The bundle states none.",
            class_="note",
        )
    learners = {
        model.collective.mpi_name: {"learner": model.learner, **_figures(bundle, model.collective)}
        for model in bundle.models
    }
    caption = f"Decisions on instances that were left out of the fit{_meaning(learners)}"
    general = [rendered(rest, "Evidence stated by the bundle")] if rest else []
    return joined([rendered(learners, caption, first="collective"), *general])


def _figures(bundle: Bundle, collective: Collective) -> dict[str, Any]:
    """Return the learner's held-out figures, as far as told."""
    learners = _mapping(_mapping(bundle.evidence.get(_LEARNERS)).get(collective.value))
    own = _mapping(learners.get(bundle.model(collective).learner))
    return {k: v for k, v in own.items() if not isinstance(v, Mapping)}


def _meaning(rows: Mapping[str, Any]) -> str:
    """Return what the usual figures in `rows` mean."""
    names = {name for row in rows.values() for name in _mapping(row)}
    told = [f"{name}: {text}" for name, text in _MEANINGS.items() if name in names]
    return f". {'; '.join(told)}" if told else ""


def rendered(value: Any, caption: str, *, first: str = "", depth: int = 0) -> Markup:
    """Return any JSON-able value as nested tables.

    Parameters
    ----------
    value
        The value.
    caption
        What it is.
    first
        Title of the column of names.
    depth
        How deep it lies; what lies deeper than 4 is shown as JSON.
    """
    if not isinstance(value, Mapping) or depth >= _DEEPEST:
        return element("p", f"{caption}: {_leaf(value)}")
    flat = {k: v for k, v in value.items() if not isinstance(v, Mapping)}
    nested = {k: v for k, v in value.items() if isinstance(v, Mapping) and v}
    parts = []
    if flat:
        rows = [[str(k), _leaf(v)] for k, v in flat.items()][:_MOST_ROWS]
        parts.append(table(caption, [first, "value"], rows, ["value"]))
    if nested and all(_is_row(v) for v in nested.values()):
        parts.append(_rows(nested, caption, first))
    else:
        for name, inner in list(nested.items())[:_MOST_ROWS]:
            parts.append(rendered(inner, f"{caption}: {name}", depth=depth + 1))
    return joined(parts)


def _is_row(value: Mapping[str, Any]) -> bool:
    return not any(isinstance(v, Mapping) for v in value.values())


def _rows(nested: Mapping[str, Mapping[str, Any]], caption: str, first: str) -> Markup:
    columns = list(dict.fromkeys(str(key) for row in nested.values() for key in row))
    rows: list[list[Child]] = [
        [str(name), *(_leaf(row[c]) if c in row else "" for c in columns)]
        for name, row in list(nested.items())[:_MOST_ROWS]
    ]
    words = {c for row in nested.values() for c in row if not isinstance(row[c], int | float)}
    return table(caption, [first, *columns], rows, [c for c in columns if c in words])


def _leaf(value: Any) -> str:
    """Return a value that is no table as text."""
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, str) or value is None:
        return "–" if value is None else value[:_MOST_TEXT]
    if isinstance(value, Sequence) and all(isinstance(v, str | int | float) for v in value):
        return ", ".join(_leaf(v) for v in value)[:_MOST_TEXT]
    return json.dumps(value, default=str)[:_MOST_TEXT]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
