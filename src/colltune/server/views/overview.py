"""Which bundles are in force, what they know, and how they came into force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from colltune import __version__
from colltune.domain import Context
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.formats import FORMATS, format_for, reads
from colltune.registry.events import Event
from colltune.server.schemas import (
    CollectiveSummary,
    FormatView,
    HistoryView,
    OverviewView,
    SlotView,
)
from colltune.server.state import Loaded

MOST_EVENTS = 200
_LONGEST_TEXT = 400


def overview_view(
    in_force: Iterable[Loaded],
    events: Sequence[Event],
    warnings: Iterable[str],
    looked_at: Loaded | None = None,
) -> OverviewView:
    """Return what is in force, how it came there, and what is wrong."""
    loaded = {one.slot: one for one in in_force}
    return OverviewView(
        colltune_version=__version__,
        slots=tuple(slot_view(loaded[slot]) for slot in sorted(loaded)),
        looked_at=None if looked_at is None else slot_view(looked_at),
        warnings=tuple(warnings),
        history=tuple(_history(loaded, events))[:MOST_EVENTS],
        history_left_out=max(0, len(events) - MOST_EVENTS),
    )


def _history(loaded: Mapping[str, Loaded], events: Sequence[Event]) -> Iterator[HistoryView]:
    """Yield the events, the latest first."""
    seen: set[str] = set()
    for event in reversed(events):
        serving = loaded.get(event.slot)
        is_latest = event.slot not in seen
        seen.add(event.slot)
        yield HistoryView(
            sequence=event.sequence,
            slot=event.slot,
            action=event.action.value,
            bundle=event.bundle_id,
            previous=event.previous_id,
            at_utc=event.at_utc,
            by=_shortened(event.by),
            note=_shortened(event.note),
            in_force=is_latest and serving is not None and serving.bundle.id == event.bundle_id,
            is_latest=is_latest,
        )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def slot_view(loaded: Loaded) -> SlotView:
    """Return what the page says about what is in force in a slot."""
    bundle = loaded.bundle
    context = bundle.context
    formats, not_written = _formats(context)
    library = LIBRARIES.get(context.library)
    return SlotView(
        slot=loaded.slot,
        library=context.library,
        library_title=library.title if library else context.library,
        release=context.library_version,
        machine=context.machine,
        fabric=context.fabric,
        objective=bundle.objective,
        bundle=bundle.id,
        since_utc=loaded.since_utc,
        created_utc=bundle.created_utc,
        colltune_version=bundle.colltune_version,
        nodes=_range(shape.nodes for shape in bundle.training_shapes),
        ppn=_range(shape.ppn for shape in bundle.training_shapes),
        collectives=tuple(
            CollectiveSummary(
                name=model.collective.value,
                mpi_name=model.collective.mpi_name,
                learner=model.learner,
                configurations=len(model.configurations),
                shapes=len(model.coverage.shapes),
                default_measured=model.default_column is not None,
                held_out=bundle.held_out_text(model.collective),
            )
            for model in bundle.models
        ),
        formats=formats,
        not_written=not_written,
    )


def _range(counts: Iterable[int]) -> tuple[int, int]:
    known = sorted(counts)
    return known[0], known[-1]


def _formats(context: Context) -> tuple[tuple[FormatView, ...], str]:
    """Return the formats that a release reads, the preferred one first, or why there is none."""
    try:
        preferred = format_for(context.library, context.library_version)
        reason = preferred.unreadable_by(context.library_version)
    except LibraryError as error:
        return (), str(error)
    if reason:
        return (), reason
    ours = [f for f in FORMATS.values() if f.library == context.library]
    readable = [f for f in ours if f is not preferred and reads(f, context.library_version)]
    views = (FormatView(name=f.name, title=f.title) for f in (preferred, *readable))
    return tuple(views), ""
