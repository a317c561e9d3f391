"""What `colltune site bundles` prints: tables for people, or JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from colltune.cli.console import Mark, columns, marked, range_text
from colltune.errors import BundleError
from colltune.text import printable, time_text

if TYPE_CHECKING:
    from colltune.domain import Collective
    from colltune.models.bundle import Bundle
    from colltune.registry import Entry, Event, Registry
    from colltune.registry.garbage import Item, Plan
    from colltune.selector.bundle_diff import BundleDiff, Change, Extent, Judged

_DIGITS = 12


def listing(registry: Registry) -> str:
    """Return a table of the registry's bundles."""
    found = listing_json(registry)
    if not found["bundles"] and not found["damaged"]:
        return "no bundles; add one with `colltune site bundles add BUNDLE`"
    rows = [
        [
            _short(b["id"]),
            printable(b["slot"]),
            marked("in force", Mark.GOOD) if b["in_force"] else "",
            printable(b["created_utc"]),
            str(len(b["collectives"])),
            printable(b["objective"]),
            _size(b["size_bytes"]),
            printable(b["context"]["machine"]),
        ]
        for b in found["bundles"]
    ]
    head = ("bundle", "slot", "state", "fitted", "collectives", "objective", "size", "machine")
    lines = [columns(head, rows)] if rows else []
    lines += [printable(f"damaged: {_short(b['id'])}: {b['why']}") for b in found["damaged"]]
    return "\n".join(lines)


def listing_json(registry: Registry) -> dict[str, Any]:
    """Return the same for machines."""
    current = registry.current()
    in_force = {event.bundle_id for event in current.values()}
    good: list[Entry] = []
    damaged = []
    for bundle_id in registry.ids():
        try:
            good.append(registry.entry(bundle_id))
        except BundleError as error:
            damaged.append({"id": bundle_id, "why": str(error), "in_force": bundle_id in in_force})
    return {
        "version": 1,
        "registry": str(registry),
        "current": {slot: event.bundle_id for slot, event in sorted(current.items())},
        "bundles": [
            {**asdict(entry), "in_force": entry.id in in_force}
            for entry in sorted(good, key=lambda e: (e.slot, e.created_utc, e.id))
        ],
        "damaged": damaged,
    }


def facts_json(registry: Registry, bundle: Bundle) -> dict[str, Any]:
    """Return what there is to know of a bundle, without its models."""
    entry = registry.entry(bundle.id)
    current = registry.current().get(entry.slot)
    return {
        "version": 1,
        **asdict(entry),
        "in_force": current is not None and current.bundle_id == bundle.id,
        "path": str(registry.path(bundle.id)),
        "colltune_version": bundle.colltune_version,
        "shapes": [str(shape) for shape in bundle.training_shapes],
        "models": {
            m.collective.value: {
                "learner": m.learner,
                "configurations": [c.id for c in m.configurations],
            }
            for m in bundle.models
        },
        "events": [
            asdict(e) for e in registry.history() if bundle.id in (e.bundle_id, e.previous_id)
        ],
    }


def facts_text(registry: Registry, bundle: Bundle) -> str:
    """Return the same for people."""
    facts = facts_json(registry, bundle)
    lines = [
        f"bundle {bundle.id}",
        f"  of {bundle.context}, {bundle.objective} times",
        f"  fitted {bundle.created_utc} by colltune {bundle.colltune_version},"
        f" {_size(facts['size_bytes'])}, all hashes fit",
        f"  {'in force' if facts['in_force'] else 'not in force'} in {facts['slot']}",
        f"  {facts['path']}",
        f"  shapes: {', '.join(facts['shapes'])}",
    ]
    lines += [
        f"  {m.collective}: {len(m.configurations)} configurations, {m.learner}"
        for m in bundle.models
    ]
    events = [e for e in registry.history() if bundle.id in (e.bundle_id, e.previous_id)]
    return _printable([*lines, *(["", history_text(events)] if events else [])])


def history_text(events: Sequence[Event]) -> str:
    """Return a table of events."""
    if not events:
        return "nothing was promoted yet"
    rows = [
        [
            str(e.sequence),
            e.at_utc,
            e.slot,
            e.action.value,
            _short(e.bundle_id),
            _short(e.previous_id) if e.previous_id else "-",
            printable(e.by),
            printable(e.note),
        ]
        for e in events
    ]
    head = ("event", "time", "slot", "action", "bundle", "instead of", "by", "note")
    return _printable([columns(head, rows)])


def event_text(event: Event) -> str:
    """Return a line on what was done."""
    instead = f" instead of {_short(event.previous_id)}" if event.previous_id else ""
    return printable(
        f"{_short(event.bundle_id)} is in force in {event.slot}{instead}"
        f" (event {event.sequence}: {event.action} by {event.by})"
    )


def event_json(event: Event) -> dict[str, Any]:
    """Return the same for machines."""
    return {"version": 1, **asdict(event)}


def collection(plan: Plan, removed: Sequence[Item] | None, repointed: Sequence[str]) -> str:
    """Return what stays and goes, or went; `removed` is None where nothing was to be removed."""
    gone = plan.doomed if removed is None else removed
    rows = [["keep", *_item(item)] for item in plan.kept]
    rows += [["remove" if removed is None else "removed", *_item(item)] for item in gone]
    lines = [columns(("", "what", "why", "size"), rows)] if rows else []
    freed = _size(sum(item.size_bytes for item in gone))
    lines.append(
        f"{len(gone)} to remove, {freed}; do it with --yes"
        if removed is None
        else f"{len(gone)} removed, {freed}"
    )
    lines += [f"current/{slot} points to what is in force again" for slot in repointed]
    return _printable(lines)


def collection_json(
    plan: Plan, removed: Sequence[Item] | None, repointed: Sequence[str]
) -> dict[str, Any]:
    """Return the same for machines."""
    return {
        "version": 1,
        "kept": [asdict(item) for item in plan.kept],
        "to_remove": [asdict(item) for item in plan.doomed],
        "removed": None if removed is None else [asdict(item) for item in removed],
        "repointed": list(repointed),
    }


def _printable(lines: Iterable[str]) -> str:
    """Return lines, which may quote any file, such that no terminal does anything but show them."""
    return "\n".join(printable(part) for line in lines for part in line.split("\n"))


def _item(item: Item) -> list[str]:
    size = _size(item.size_bytes) if item.bundle_id else ""
    return [_short(item.bundle_id) if item.bundle_id else item.key, item.why, size]


def _short(bundle_id: str) -> str:
    return bundle_id[:_DIGITS]


def _size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} B"


_HEAD = ("collective", "shape", "bytes", "old", "new", "old takes", "new takes", "faster", "before")


def diff_text(found: BundleDiff, old: Bundle, new: Bundle) -> str:
    return _printable(_lines(found, old, new))


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
        change.old.short,
        change.new.short,
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


def diff_json(found: BundleDiff) -> dict[str, Any]:
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


def _time(seconds: float | None) -> str:
    return "not known" if seconds is None else time_text(seconds)


def _ratio(judged: Judged) -> str:
    return "not known" if judged.ratio is None else f"{judged.ratio:.2f}x"
