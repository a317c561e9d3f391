"""What `colltune site bundles diff` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from colltune.cli.console import Table
from colltune.text import counted, printable, range_text, time_text

if TYPE_CHECKING:
    from colltune.models.bundle import Bundle
    from colltune.selector.bundle_diff import BundleDiff, Change, Judged

_HEAD = (
    "collective",
    "shape",
    "message size",
    "old",
    "new",
    "old takes",
    "new takes",
    "faster",
    "before",
)


def diff_lines(found: BundleDiff, old: Bundle, new: Bundle) -> Iterator[str | Table]:
    for side, bundle in (("old", old), ("new", new)):
        about = f"{side} {bundle.id[:12]} of {bundle.context}, fitted {bundle.created_utc}"
        yield printable(about)
    yield ""
    if not found.changes:
        yield f"no decision changes on {counted(len(found.shapes), 'shape')}"
        return
    rows = [_row(change) for change in found.changes]
    yield Table(_HEAD, rows, ("old", "new"), ("before", "old takes", "new takes"))
    yield ""
    for collective, extent in found.extents.items():
        line = f"{collective}: {100 * extent.share:.1f} % of the decisions change"
        ratio = found.mean_ratio(collective)
        if ratio is not None:
            line += (
                f"; where they change, the new choice is {ratio:.2f}x faster in the geometric mean"
            )
        yield line
    yield ""
    yield (
        "'faster' and the times are predicted by the new bundle for the middle of each "
        "range; 'before' is the prediction of the old bundle for the same change"
    )


def _row(change: Change) -> list[object]:
    times = (change.by_new.old_s, change.by_new.new_s)
    ratios = (change.by_new.ratio, change.by_old.ratio)
    return [
        change.collective,
        change.shape,
        range_text(change.first_bytes, change.last_bytes),
        change.old.short,
        change.new.short,
        *("not known" if seconds is None else time_text(seconds) for seconds in times),
        *("not known" if ratio is None else f"{ratio:.2f}x" for ratio in ratios),
    ]


def diff_json(found: BundleDiff) -> dict[str, Any]:
    """Return the same for machines; times that are not known are null."""
    return {
        "version": 1,
        "old": found.old,
        "new": found.new,
        "shapes": found.shapes,
        "collectives": {
            collective: {
                "changed_share": extent.share,
                "mean_ratio": found.mean_ratio(collective),
            }
            for collective, extent in found.extents.items()
        },
        "changes": [
            {
                "collective": change.collective,
                "nodes": change.shape.nodes,
                "ppn": change.shape.ppn,
                "first_bytes": change.first_bytes,
                "last_bytes": change.last_bytes,
                "old": change.old,
                "new": change.new,
                "at_bytes": change.at_bytes,
                "by_new": _judged(change.by_new),
                "by_old": _judged(change.by_old),
            }
            for change in found.changes
        ],
    }


def _judged(judged: Judged) -> dict[str, float | None]:
    return {**vars(judged), "ratio": judged.ratio}
