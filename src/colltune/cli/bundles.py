"""`colltune site bundles …`: the registry of bundles, and which of them is in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import Mark, TextTable, marked, output
from colltune.cli.options import Json, Quiet, parse_shape
from colltune.cli.progress import progress
from colltune.domain import parse_collective
from colltune.errors import BundleError, say
from colltune.production.arms import FIRST_STEP
from colltune.text import bytes_text, counted, printable, range_text, time_text

if TYPE_CHECKING:
    from colltune.cli.progress import Progress
    from colltune.domain import Collective, Configuration, Shape
    from colltune.models.bundle import Bundle
    from colltune.registry import Event, Registry, RegistryEntry
    from colltune.registry.garbage import Item
    from colltune.selector.bundle_diff import BundleDiff, DecisionChange

_HEAD = (
    *("collective", "shape", "message size", "old", "new"),
    *("old takes", "new takes", "faster", "before"),
)


@dataclass(frozen=True)
class RegistryListing:
    """What `site bundles list` prints."""

    registry: str
    """the registry"""
    current: Mapping[str, str]
    """id of the bundle in force, by slot"""
    trials: Mapping[str, Event]
    """latest step of the bundle on trial, by slot"""
    bundles: tuple[RegistryEntry, ...]
    """all bundles that can be read"""
    damaged: Mapping[str, str]
    """why others cannot be read, by id"""


@dataclass(frozen=True)
class ShownModel:
    """The models of a collective, without what they predict."""

    learner: str
    """learner"""
    configurations: tuple[Configuration, ...]
    """ids of the configurations that it knows"""


@dataclass(frozen=True)
class ShownBundle:
    """What `site bundles show` prints."""

    bundle: RegistryEntry
    """the bundle"""
    in_force: bool
    """whether it is in force"""
    path: Path
    """where it lies"""
    colltune_version: str
    """release of colltune that fitted it"""
    shapes: tuple[Shape, ...]
    """shapes that it was fitted to"""
    models: Mapping[Collective, ShownModel]
    """by collective"""
    events: tuple[Event, ...]
    """its history"""


@dataclass(frozen=True)
class CollectedGarbage:
    """What `site bundles gc` prints."""

    kept: tuple[Item, ...]
    """what stays"""
    to_remove: tuple[Item, ...]
    """what goes, or went"""
    removed: tuple[Item, ...] | None
    """what went; null without --yes"""
    repointed: tuple[str, ...]
    """slots whose link was set right"""


def _diff_lines(found: BundleDiff, old: Bundle, new: Bundle) -> Iterator[str | TextTable]:
    for side, bundle in (("old", old), ("new", new)):
        about = f"{side} {bundle.id[:12]} of {bundle.context}, fitted {bundle.created_utc}"
        yield printable(about)
    yield ""
    if not found.changes:
        yield f"no decision changes on {counted(len(found.shapes), 'shape')}"
        return
    rows = [_row(change) for change in found.changes]
    yield TextTable(_HEAD, rows, ("old", "new"), ("before", "old takes", "new takes"))
    yield ""
    for collective, extent in found.extents.items():
        line = f"{collective}: {100 * extent.share:.1f} % of the decisions change"
        if extent.mean_ratio is not None:
            faster = f"{extent.mean_ratio:.2f}x faster in the geometric mean"
            line += f"; where they change, the new choice is {faster}"
        yield line
    yield ""
    yield (
        "'faster' and the times are predicted by the new bundle for the middle of each "
        "range; 'before' is the prediction of the old bundle for the same change"
    )


def _row(change: DecisionChange) -> list[object]:
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


bundles = typer.Typer(
    help="Keep bundles in a registry: list, compare, promote, roll back, clean up.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

RegistryAt = Annotated[
    str,
    typer.Option(
        "--registry",
        metavar="FOLDER",
        envvar="COLLTUNE_REGISTRY",
        help="The registry: a folder, or a URL such as s3://bucket/prefix.",
    ),
]
_GO_ON = "the bundle in force is unchanged; run the same command again to go on"
_SEE_HISTORY = "`colltune site bundles history` says which bundle is in force"
Which = Annotated[
    str,
    typer.Argument(
        metavar="BUNDLE",
        help="The first characters of a bundle's id, or a slot such as openmpi-4.1.4.",
    ),
]
By = Annotated[
    str | None,
    typer.Option(help="The name for the history; default: your user name and this host."),
]
Note = Annotated[str, typer.Option(help="The reason, for the history.")]
Expected = Annotated[
    str | None,
    typer.Option(
        metavar="BUNDLE",
        help="Do so only if this bundle is in force now; 'none': only if the slot is empty. A "
        "trial begins, or ends, only if this bundle is on trial now.",
    ),
]


@bundles.command("list")
def list_(registry: RegistryAt, quiet: Quiet = False, json: Json = False) -> None:
    """Show all bundles, and which are in force.

    Example: colltune site bundles list --registry /shared/colltune
    """
    with progress("reading", quiet=quiet or json):
        found = _listed(_opened(registry))
    output(found, _list_lines(found), json=json)


@bundles.command("show")
def show_(bundle: Which, registry: RegistryAt, quiet: Quiet = False, json: Json = False) -> None:
    """Show one bundle, after checking all of its hashes.

    It is named by how its id begins, or by the slot that it is in force in.

    Example: colltune site bundles show openmpi-4.1.4
    """
    with progress("reading", quiet=quiet or json):
        opened = _opened(registry)
        loaded = opened.load(_id(opened, bundle))
        found = _shown(opened, loaded)
    output(found, _shown_lines(found), json=json)


@bundles.command("diff")
def diff_(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The first characters of a bundle's id, a slot, or a bundle's folder. A single "
            "one is the new bundle; it is compared with the bundle in force in its slot.",
        ),
    ],
    registry: RegistryAt,
    new: Annotated[str | None, typer.Argument(metavar="NEW", help="Likewise.")] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODESxPPN",
            help="Compare only this shape; repeatable. Default: all shapes that were measured.",
        ),
    ] = None,
    collective: Annotated[
        list[str] | None, typer.Option(help="Compare only this collective; repeatable.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show which decisions change from one bundle to another, and the predicted gain.

    A bundle is named by the first characters of its id, by its slot, or by its folder. A single
    bundle is compared with the bundle in force in its slot.

    Examples: a candidate against the bundle in force; two bundles on one shape.

    colltune site bundles diff new-bundle/

    colltune site bundles diff 1f0c 93ab --shape 16x32 --collective bcast

    """
    from colltune.selector.bundle_diff import diff

    shapes = [parse_shape(text) for text in shape or ()] or None
    collectives = [parse_collective(text) for text in collective or ()] or None
    with progress("reading", quiet=quiet or json) as shown:
        before, after = _pair(_opened(registry), old, new)
        shown.phase("comparing")
        found = diff(before, after, shapes, collectives)
    output(found, _diff_lines(found, before, after), json=json)


@bundles.command("add")
def add(
    folders: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE…", help="Folders that `colltune fit` wrote.")
    ],
    registry: RegistryAt,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Add bundles to the registry. The bundles in force stay in force.

    Example: colltune site bundles add bundle --registry /shared/colltune
    """
    ids: list[str] = []
    kept = "each bundle is added as a whole or not at all"
    with progress("adding", quiet=quiet or json, interrupted=kept) as shown:
        opened = _opened(registry)
        shown.phase("adding", "bundles")
        for folder in folders:
            shown.count(len(ids), len(folders), str(folder))
            ids.append(opened.add(folder))
    output(ids, (f"added {each}" for each in ids), json=json)


@bundles.command("promote")
def promote(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="The first characters of a bundle's id.")
    ],
    registry: RegistryAt,
    by: By = None,
    note: Note = "",
    expected: Expected = None,
    by_steps: Annotated[
        bool,
        typer.Option(
            "--by-steps",
            help=f"Give it to {FIRST_STEP:.0%} of the jobs first. A service that records "
            "production then gives it to more, up to all, or ends the trial where it does harm.",
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Bring a bundle into force for the MPI release that it was measured with.

    The bundle is checked first. Running servers switch to it without a restart.

    Example: colltune site bundles promote 93ab --note "new cables"

    Example: colltune site bundles promote 93ab --by-steps
    """
    with progress("checking the bundle", quiet=quiet or json, interrupted=_SEE_HISTORY):
        opened = _opened(registry)
        wanted = _expected(opened, expected)
        bundle_id = opened.find(bundle)
        told: Mapping[str, Any] = {"by": by or _me(), "note": note}
        if by_steps:
            event = opened.step(bundle_id, FIRST_STEP, expected=wanted, **told)
        else:
            event = opened.promote(bundle_id, expected=wanted, **told)
    _show_event(event, json=json)


@bundles.command("rollback")
def rollback(
    registry: RegistryAt,
    slot: Annotated[
        str | None,
        typer.Argument(
            metavar="SLOT", help="A slot such as openmpi-4.1.4; not needed if there is only one."
        ),
    ] = None,
    by: By = None,
    note: Note = "",
    expected: Expected = None,
    json: Json = False,
) -> None:
    """End the trial in a slot; without one undo the latest promotion there.

    A trial that ends leaves the bundle in force as it is; what is promoted is undone by bringing
    the bundle before it back into force.

    Example: colltune site bundles rollback openmpi-4.1.4 --note "slower on bcast"
    """
    opened = _opened(registry)
    if slot is None:
        slots = sorted(opened.current())
        if len(slots) != 1:
            known = ", ".join(slots) or "no bundle in force"
            raise say("choose-one", where=opened, known=known, option="--slot")
        slot = slots[0]
    wanted, trial = _expected(opened, expected), opened.trials().get(slot)
    is_trial = trial is not None and wanted in (None, trial.bundle_id)
    undo = opened.stop if is_trial else opened.rollback
    _show_event(undo(slot, by=by or _me(), note=note, expected=wanted), json=json)


@bundles.command("gc")
def gc(
    registry: RegistryAt,
    keep_events: Annotated[
        int,
        typer.Option(min=0, help="Keep the bundles that the latest N events of each slot name."),
    ] = 5,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Keep bundles that were added within this time: 30d, 12h."
        ),
    ] = "30d",
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Remove the bundles; without this option they are only listed."),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Remove old bundles that are not in force and that no rollback needs.

    Example: colltune site bundles gc --older-than 90d --yes
    """
    from colltune.bench.durations import seconds
    from colltune.registry.garbage import Collection

    min_age_s = seconds(older_than)
    with progress("looking for unused bundles", quiet=quiet or json, interrupted=_GO_ON) as told:
        opened = _opened(registry)
        work = Collection(opened, keep_events=keep_events, min_age_s=min_age_s)
        plan = work.plan()
        removed = work.remove(_counted(plan.doomed, told)) if yes else None
        repointed = opened.repoint() if yes else ()
    collected = CollectedGarbage(plan.kept, plan.doomed, removed, tuple(repointed))
    output(collected, _collection_lines(collected), json=json)


def _counted(items: Sequence[Item], shown: Progress) -> Iterator[Item]:
    shown.phase("removing", "items")
    for number, item in enumerate(items):
        shown.count(number, len(items), item.key)
        yield item


@bundles.command("history")
def history(
    registry: RegistryAt,
    slot: Annotated[
        str | None,
        typer.Argument(metavar="SLOT", help="Show only this slot, such as openmpi-4.1.4."),
    ] = None,
    json: Json = False,
) -> None:
    """Show which bundle came into force or on trial when, by whom and why; the latest is the last.

    Example: colltune site bundles history openmpi-4.1.4
    """
    events = _opened(registry).history(slot)
    output(events, _history_lines(events), json=json)


def _opened(registry: str) -> Registry:
    from colltune.registry import Registry

    return Registry(registry)


def _id(registry: Registry, text: str) -> str:
    """Return the id of a slot's bundle in force, or the one that begins with `text`."""
    event = registry.current().get(text)
    return event.bundle_id if event else registry.find(text)


def _named(registry: Registry, text: str) -> Bundle:
    """Return a bundle of the registry, or of any folder."""
    from colltune.models.bundle import load

    folder = Path(text)
    if "/" in text or (folder / "manifest.json").exists():
        return load(folder)
    return registry.load(_id(registry, text))


def _pair(registry: Registry, old: str, new: str | None) -> tuple[Bundle, Bundle]:
    from colltune.registry import slot_of

    if new is not None:
        return _named(registry, old), _named(registry, new)
    after = _named(registry, old)
    slot = slot_of(after.context)
    event = registry.current().get(slot)
    if event is None:
        raise say("nothing-to", registry=registry, slot=slot, do="compare with")
    return registry.load(event.bundle_id), after


def _expected(registry: Registry, text: str | None) -> str | None:
    from colltune.registry.registry import NOTHING

    if text is None:
        return None
    return NOTHING if text == "none" else registry.find(text)


def _me() -> str:
    """Return user and host, whatever of them is known."""
    import getpass
    import os
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _show_event(event: Event, *, json: bool) -> None:
    state = "in force"
    instead = f" instead of {event.previous_id[:12]}" if event.previous_id else ""
    if event.share is not None:
        state = (
            f"on trial with {event.share:.0%} of the jobs" if event.share else "not on trial now"
        )
        instead = f"; {event.previous_id[:12]} is in force" if event.previous_id else ""
    line = (
        f"{event.bundle_id[:12]} is {state} in {event.slot}{instead}"
        f" (event {event.sequence}: {event.action} by {event.by})"
    )
    output(event, [printable(line)], json=json)


def _listed(registry: Registry) -> RegistryListing:
    good, damaged = [], {}
    for bundle_id in registry.ids():
        try:
            good.append(registry.entry(bundle_id))
        except BundleError as error:
            damaged[bundle_id] = str(error)
    return RegistryListing(
        str(registry),
        {slot: event.bundle_id for slot, event in sorted(registry.current().items())},
        dict(sorted(registry.trials().items())),
        tuple(sorted(good, key=lambda e: (e.slot, e.created_utc, e.id))),
        damaged,
    )


def _list_lines(found: RegistryListing) -> Iterator[str | TextTable]:
    if not found.bundles and not found.damaged:
        yield "no bundles yet; add one with `colltune site bundles add BUNDLE`"
    states = {e.bundle_id: f"on trial, {e.share:.0%} of the jobs" for e in found.trials.values()}
    states |= dict.fromkeys(found.current.values(), marked("in force", Mark.GOOD))
    rows = [
        [
            b.id[:12],
            b.slot,
            states.get(b.id, ""),
            b.created_utc,
            len(b.collectives),
            b.objective,
            bytes_text(b.size_bytes, rounded=True),
            b.context.machine,
        ]
        for b in found.bundles
    ]
    if rows:
        head = ("bundle", "slot", "state", "fitted", "collectives", "objective", "size", "machine")
        yield TextTable(head, rows, ("machine",), ("objective", "collectives", "size", "fitted"))
    for bundle_id, why in found.damaged.items():
        yield printable(f"damaged: {bundle_id[:12]}: {why}")


def _shown(registry: Registry, bundle: Bundle) -> ShownBundle:
    entry = registry.entry(bundle.id)
    current = registry.current().get(entry.slot)
    return ShownBundle(
        entry,
        current is not None and current.bundle_id == bundle.id,
        registry.path(bundle.id),
        bundle.colltune_version,
        bundle.training_shapes,
        {m.collective: ShownModel(m.learner, m.configurations) for m in bundle.models},
        tuple(e for e in registry.history() if bundle.id in (e.bundle_id, e.previous_id)),
    )


def _shown_lines(found: ShownBundle) -> Iterator[str | TextTable]:
    bundle = found.bundle
    yield printable(f"bundle {bundle.id}")
    yield printable(f"  of {bundle.context}, {bundle.objective} times")
    yield printable(
        f"  fitted {bundle.created_utc} by colltune {found.colltune_version},"
        f" {bytes_text(bundle.size_bytes, rounded=True)}, all hashes match"
    )
    yield printable(f"  {'in force' if found.in_force else 'not in force'} in {bundle.slot}")
    yield printable(f"  {found.path}")
    yield f"  shapes: {', '.join(map(str, found.shapes))}"
    for collective, m in found.models.items():
        yield printable(f"  {collective}: {len(m.configurations)} configurations, {m.learner}")
    if found.events:
        yield ""
        yield from _history_lines(found.events)


def _history_lines(events: Sequence[Event]) -> Iterator[str | TextTable]:
    if not events:
        yield "no bundle was promoted yet"
        return
    head = ("event", "time", "slot", "action", "bundle", "instead of", "by", "note")
    rows = [
        [
            e.sequence,
            e.at_utc,
            e.slot,
            e.action if e.share is None else f"{e.action}, {e.share:.0%} of the jobs",
            e.bundle_id[:12],
            e.previous_id[:12] if e.previous_id else "-",
            e.by,
            e.note,
        ]
        for e in events
    ]
    yield TextTable(head, rows, ("note", "by"), ("instead of", "event", "by"))


def _collection_lines(found: CollectedGarbage) -> Iterator[str | TextTable]:
    gone = found.to_remove if found.removed is None else found.removed
    verb = "remove" if found.removed is None else "removed"
    every = [("keep", item) for item in found.kept] + [(verb, item) for item in gone]
    rows = [
        [
            what,
            item.bundle_id[:12] if item.bundle_id else item.key,
            item.why,
            bytes_text(item.size_bytes, rounded=True) if item.bundle_id else "",
        ]
        for what, item in every
    ]
    if rows:
        yield TextTable(("", "what", "why", "size"), rows, wrap=("why", "what"))
    freed = bytes_text(sum(item.size_bytes for item in gone), rounded=True)
    yield (
        f"{counted(len(gone), 'bundle')} to remove, {freed}; add --yes to remove"
        if found.removed is None
        else f"{len(gone)} removed, {freed}"
    )
    for slot in found.repointed:
        yield printable(f"current/{slot} points to what is in force again")
