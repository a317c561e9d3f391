"""Which bundles are in force, what they know, and how they came into force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import Field

from colltune import __version__
from colltune.domain import Context
from colltune.errors import LibraryError
from colltune.models.bundle import Bundle
from colltune.mpi import LIBRARIES
from colltune.mpi.formats import FORMATS, format_for, reads
from colltune.registry.events import Event, in_force, trials
from colltune.server.schemas import BundleId, MpiName, Objective, Slot, Time, View
from colltune.server.state import LoadedBundle

MOST_EVENTS = 200
_LONGEST_TEXT = 400


class CollectiveSummary(View):
    """What a bundle knows of one collective."""

    name: str = Field(examples=["allreduce"])
    mpi_name: MpiName
    learner: str = Field(examples=["regret_trees"])
    configurations: int = Field(description="how many were measured", examples=[9])
    shapes: int = Field(description="how many shapes were measured", examples=[44])
    default_measured: bool = Field(examples=[True])
    held_out: str = Field(
        description="how good decisions were on what was left out of the fit; empty: not known",
        examples=[
            "held out: 97% of the possible gain, 1% slower than the default, in 90 decisions"
        ],
    )


class FormatView(View):
    """A format of configuration files."""

    name: str = Field(examples=["openmpi-classic"])
    title: str = Field(examples=["Open MPI's classic rules file"])


class SlotView(View):
    """One release of an MPI library and the bundle that is in force for it."""

    slot: Slot
    library: str = Field(examples=["openmpi"])
    library_title: str = Field(examples=["Open MPI"])
    release: str = Field(examples=["4.1.6"])
    machine: str = Field(examples=["leonardo"])
    fabric: str = Field(description="empty where it was not stated", examples=["HDR InfiniBand"])
    objective: Objective = Field(description="the statistic of the runtime")
    bundle: BundleId = Field(description="its id, a SHA-256")
    since_utc: Time = Field(description="since when it is in force")
    created_utc: Time = Field(description="when it was fitted")
    colltune_version: str = Field(
        description="of the colltune that fitted it", examples=[__version__]
    )
    nodes: tuple[int, int] = Field(description="fewest and most measured", examples=[(4, 2048)])
    ppn: tuple[int, int] = Field(description="fewest and most measured", examples=[(1, 32)])
    collectives: tuple[CollectiveSummary, ...]
    formats: tuple[FormatView, ...] = Field(description="that the release reads, the best first")
    not_written: str = Field(
        description="why no configuration file can be written; empty if one can", examples=[""]
    )


class HistoryView(View):
    """A promotion, a rollback, or a step or the end of a trial, as the registry recorded it."""

    sequence: int = Field(examples=[7])
    slot: Slot
    action: str = Field(examples=["promote"])
    bundle: BundleId = Field(description="in force, or on trial, from then on")
    previous: str | None = Field(description="in force before", examples=[None])
    at_utc: Time
    by: str = Field(examples=["colltune-retrain"])
    note: str = Field(description="shortened", examples=["regret 1.031, was 1.044"])
    in_force: bool = Field(description="whether this service answers from it", examples=[True])
    is_latest: bool = Field(
        description="whether it is what brought the slot's bundle into force", examples=[True]
    )
    share: float | None = Field(
        description="of the jobs that get it on trial; null: it came into force", examples=[None]
    )
    on_trial: bool = Field(description="whether the trial is at this step", examples=[False])


class OverviewView(View):
    """Everything that the page needs before anything is chosen."""

    colltune_version: str = Field(examples=[__version__])
    slots: tuple[SlotView, ...]
    looked_at: SlotView | None = Field(
        description="the bundle that was asked for, in force or not", examples=[None]
    )
    warnings: tuple[str, ...] = Field(
        description="what is wrong although requests are answered", examples=[()]
    )
    history: tuple[HistoryView, ...] = Field(description="the latest first")
    history_left_out: int = Field(description="older events that are not listed", examples=[0])


def overview_view(
    loaded_now: Iterable[LoadedBundle],
    events: Sequence[Event],
    warnings: Iterable[str],
    looked_at: LoadedBundle | None = None,
) -> OverviewView:
    loaded = {one.slot: one for one in loaded_now}
    return OverviewView(
        colltune_version=__version__,
        slots=tuple(_slot(loaded[slot]) for slot in sorted(loaded)),
        looked_at=None if looked_at is None else _slot(looked_at),
        warnings=tuple(warnings),
        history=tuple(_history(loaded, events))[:MOST_EVENTS],
        history_left_out=max(0, len(events) - MOST_EVENTS),
    )


def _history(loaded: Mapping[str, LoadedBundle], events: Sequence[Event]) -> Iterator[HistoryView]:
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


def _slot(loaded: LoadedBundle) -> SlotView:
    bundle = loaded.bundle
    context = bundle.context
    formats, not_written = _formats(context)
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
