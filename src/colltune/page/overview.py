"""Which bundles are in force, what they know, and how they came into force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from colltune import __version__
from colltune.domain import Context
from colltune.errors import LibraryError
from colltune.json_text import DescribedRecord
from colltune.models.bundle import Bundle
from colltune.mpi import LIBRARIES

if TYPE_CHECKING:
    from colltune.registry.events import Event

MOST_EVENTS = 200
_LONGEST_TEXT = 400


class InForce(NamedTuple):
    """A bundle, the slot that it is for, and since when it is in force there (ISO time)."""

    slot: str
    bundle: Bundle
    since_utc: str


@dataclass(frozen=True)
class CollectiveSummary(DescribedRecord):
    """What a bundle knows of one collective."""

    name: str
    mpi_name: str
    learner: str
    configurations: int
    """how many were measured"""
    shapes: int
    """how many shapes were measured"""
    default_measured: bool
    held_out: str
    """how good decisions were on what was left out of the fit; empty: not known"""


@dataclass(frozen=True)
class FormatView(DescribedRecord):
    """A format of configuration files."""

    name: str
    title: str


@dataclass(frozen=True)
class SlotView(DescribedRecord):
    """One release of an MPI library and the bundle that is in force for it."""

    slot: str
    library: str
    library_title: str
    release: str
    machine: str
    fabric: str
    """empty where it was not stated"""
    objective: str
    """the statistic of the runtime"""
    bundle: str
    """its id, a SHA-256"""
    since_utc: str
    """since when it is in force"""
    created_utc: str
    """when it was fitted"""
    colltune_version: str
    """of the colltune that fitted it"""
    nodes: tuple[int, int]
    """fewest and most measured"""
    ppn: tuple[int, int]
    """fewest and most measured"""
    collectives: tuple[CollectiveSummary, ...]
    formats: tuple[FormatView, ...]
    """that the release reads, the best first"""
    not_written: str
    """why no configuration file can be written; empty if one can"""


@dataclass(frozen=True)
class HistoryView(DescribedRecord):
    """A promotion, a rollback, or a step or the end of a trial, as the registry recorded it."""

    sequence: int
    slot: str
    action: str
    bundle: str
    """in force, or on trial, from then on"""
    previous: str | None
    """in force before"""
    at_utc: str
    by: str
    note: str
    """shortened"""
    in_force: bool
    """whether this service answers from it"""
    is_latest: bool
    """whether it is what brought the slot's bundle into force"""
    share: float | None
    """of the jobs that get it on trial; null: it came into force"""
    on_trial: bool
    """whether the trial is at this step"""


@dataclass(frozen=True)
class OverviewView(DescribedRecord):
    """Everything that the page needs before anything is chosen."""

    colltune_version: str
    slots: tuple[SlotView, ...]
    looked_at: SlotView | None
    """the bundle that was asked for, in force or not"""
    warnings: tuple[str, ...]
    """what is wrong although requests are answered"""
    history: tuple[HistoryView, ...]
    """the latest first"""
    history_left_out: int
    """older events that are not listed"""


def overview_view(
    loaded_now: Iterable[InForce],
    events: Sequence[Event],
    warnings: Iterable[str],
    looked_at: InForce | None = None,
    *,
    with_formats: bool = True,
) -> OverviewView:
    """Return what is in force; without formats where no configuration can be asked for."""
    loaded = {one.slot: one for one in loaded_now}
    return OverviewView(
        colltune_version=__version__,
        slots=tuple(_slot(loaded[slot], with_formats) for slot in sorted(loaded)),
        looked_at=None if looked_at is None else _slot(looked_at, with_formats),
        warnings=tuple(warnings),
        history=tuple(_history(loaded, events))[:MOST_EVENTS],
        history_left_out=max(0, len(events) - MOST_EVENTS),
    )


def _history(loaded: Mapping[str, InForce], events: Sequence[Event]) -> Iterator[HistoryView]:
    if not events:
        return
    from colltune.registry.events import in_force, trials

    now, on_trial = in_force(events).values(), trials(events).values()
    for event in reversed(events):
        serving = loaded.get(event.slot)
        is_latest = event in now
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
            share=event.share,
            on_trial=event in on_trial,
        )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _slot(loaded: InForce, with_formats: bool) -> SlotView:
    bundle = loaded.bundle
    context = bundle.context
    formats, not_written = _formats(context) if with_formats else ((), "")
    library = LIBRARIES.get(context.library)
    nodes = [shape.nodes for shape in bundle.training_shapes]
    ppn = [shape.ppn for shape in bundle.training_shapes]
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
        nodes=(min(nodes), max(nodes)),
        ppn=(min(ppn), max(ppn)),
        collectives=tuple(_summaries(bundle)),
        formats=formats,
        not_written=not_written,
    )


def _summaries(bundle: Bundle) -> Iterator[CollectiveSummary]:
    for model in bundle.models:
        yield CollectiveSummary(
            name=model.collective.value,
            mpi_name=model.collective.mpi_name,
            learner=model.learner,
            configurations=len(model.configurations),
            shapes=len(model.coverage.shapes),
            default_measured=model.default_column is not None,
            held_out=bundle.held_out_text(model.collective),
        )


def _formats(context: Context) -> tuple[tuple[FormatView, ...], str]:
    """Return the formats that a release reads, the preferred one first, or why there is none."""
    from colltune.mpi.formats import FORMATS, format_for, reads

    try:
        preferred = format_for(context.library, context.library_version)
        reason = preferred.unreadable_by(context.library_version)
    except LibraryError as error:
        return (), str(error)
    if reason:
        return (), reason
    ours = [f for f in FORMATS.values() if f.library == context.library]
    readable = [f for f in ours if f is not preferred and reads(f, context.library_version)]
    return tuple(FormatView(name=f.name, title=f.title) for f in (preferred, *readable)), ""
