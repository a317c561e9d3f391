"""What `colltune site bundles diff` prints: the decisions that change, or JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from colltune.cli.bundles_report import printable_lines
from colltune.cli.console import columns, range_text, time_text

if TYPE_CHECKING:
    from colltune.domain import Collective, Configuration
    from colltune.models.bundle import Bundle
    from colltune.selector.bundle_diff import BundleDiff, Change, Extent, Judged

_HEAD = ("collective", "shape", "bytes", "old", "new", "old takes", "new takes", "faster", "before")


def text(found: BundleDiff, old: Bundle, new: Bundle) -> str:
    """Return the report for people."""
    return printable_lines(list(_lines(found, old, new)))


def _lines(found: BundleDiff, old: Bundle, new: Bundle) -> Iterator[str]:
    yield f"old {old.id[:12]} of {old.context}, fitted {old.created_utc}"
    yield f"new {new.id[:12]} of {new.context}, fitted {new.created_utc}"
    yield ""
    if not found.changes:
        yield f"no decision changes on {len(found.shapes)} shapes"
        return
    yield columns(_HEAD, [_row(change) for change in found.changes])
    yield ""
    for collective, extent in found.extents.items():
        yield _summary(collective, extent, [c for c in found.changes if c.collective is collective])
    yield ""
    yield (
        "times and 'faster' are predicted by the new bundle in the middle of the range; 'before' is"
        " what the old bundle says of the same change"
    )


def _row(change: Change) -> list[str]:
    return [
        change.collective.value,
        str(change.shape),
        range_text(change.first_bytes, change.last_bytes),
        _name(change.old),
        _name(change.new),
        _time(change.by_new.old_s),
        _time(change.by_new.new_s),
        _ratio(change.by_new),
        _ratio(change.by_old),
    ]


def _summary(collective: Collective, extent: Extent, changes: Sequence[Change]) -> str:
    line = f"{collective}: {100 * extent.share:.1f} % of the decisions change"
    ratio = mean_ratio(changes)
    if ratio is not None:
        line += f", where they are {ratio:.2f}x faster in the geometric mean"
    return line


def mean_ratio(changes: Sequence[Change]) -> float | None:
    """Return by which factor the new choices are faster, the geometric mean of what is known."""
    ratios = [change.by_new.ratio for change in changes]
    logs = [math.log(ratio) for ratio in ratios if ratio is not None and ratio > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def as_json(found: BundleDiff) -> dict[str, Any]:
    """Return the same for machines; times that are not known are null."""
    return {
        "version": 1,
        "old": found.old,
        "new": found.new,
        "shapes": [str(shape) for shape in found.shapes],
        "collectives": {
            collective.value: {
                "changed_share": extent.share,
                "mean_ratio": mean_ratio([c for c in found.changes if c.collective is collective]),
            }
            for collective, extent in found.extents.items()
        },
        "changes": [_change_json(change) for change in found.changes],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "collective": change.collective.value,
        "nodes": change.shape.nodes,
        "ppn": change.shape.ppn,
        "first_bytes": change.first_bytes,
        "last_bytes": change.last_bytes,
        "old": change.old.id,
        "new": change.new.id,
        "at_bytes": change.at_bytes,
        "by_new": _judged_json(change.by_new),
        "by_old": _judged_json(change.by_old),
    }


def _judged_json(judged: Judged) -> dict[str, float | None]:
    return {"old_s": judged.old_s, "new_s": judged.new_s, "ratio": judged.ratio}


def _name(configuration: Configuration) -> str:
    return configuration.short


def _time(seconds: float | None) -> str:
    return "not known" if seconds is None else time_text(seconds)


def _ratio(judged: Judged) -> str:
    return "not known" if judged.ratio is None else f"{judged.ratio:.2f}x"
