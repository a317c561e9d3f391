"""Tables of predicted cost terms, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colltune.cli.console import time_text

if TYPE_CHECKING:
    from colltune.models.cost_breakdown import Share

GENERIC = (
    "(which algorithm the default runs is not known: its terms are those of a generic basis that"
    " fits its times)"
)


def side_by_side(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of a label and one cell per head, all aligned to the left."""
    table = [["", *heads], *map(list, rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )
    return "\n".join(lines)


def terms_table(heads: Sequence[str], columns: Sequence[Sequence[Share]]) -> str:
    """Return seconds and share of each kind of cost, one column of terms per head."""
    found = [{share.kind: share for share in column} for column in columns]
    kinds = sorted({k for column in found for k in column}, key=_order(found))
    rows = [[kind, *(_cell(column.get(kind)) for column in found)] for kind in kinds]
    totals = [sum(share.time_s for share in column) for column in columns]
    return side_by_side(heads, [*rows, ["all", *(time_text(s) if s else "-" for s in totals)]])


def _order(columns: Sequence[dict[Any, Share]]) -> Any:
    """Return a key that puts the largest of all columns first."""
    return lambda kind: -max(c[kind].time_s if kind in c else 0.0 for c in columns)


def _cell(share: Share | None) -> str:
    if share is None:
        return "-"
    return f"{time_text(share.time_s):>8} {100 * share.share:3.0f} %"


def terms_json(terms: Sequence[Share]) -> list[dict[str, Any]]:
    """Return the same for machines."""
    return [{"kind": t.kind.value, "time_s": t.time_s, "share": t.share} for t in terms]
