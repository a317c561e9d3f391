"""`colltune site bundles …`: the registry of bundles, and which of them is in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import show, show_json
from colltune.cli.console.live import progress
from colltune.cli.options import Json, Quiet, parse_shape
from colltune.domain import parse_collective
from colltune.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from colltune.cli.console.live import Progress
    from colltune.domain import Collective, Shape
    from colltune.models.bundle import Bundle
    from colltune.registry import Event, Registry
    from colltune.registry.garbage import Item

bundles = typer.Typer(
    help="Keep bundles in a registry: list, compare, bring into force, go back, tidy up.",
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
_GO_ON = "what is in force is untouched, and the same command goes on"
_SEE_HISTORY = "`colltune site bundles history` tells what is in force"
Which = Annotated[
    str,
    typer.Argument(
        metavar="BUNDLE", help="The beginning of an id, or a slot such as openmpi-4.1.4."
    ),
]
By = Annotated[str | None, typer.Option(help="Who does it; default: you, on this host.")]
Note = Annotated[str, typer.Option(help="Why, for the history.")]
Expected = Annotated[
    str | None,
    typer.Option(
        metavar="BUNDLE",
        help="Do it only if this bundle is in force now; 'none' for none at all.",
    ),
]


@bundles.command("list")
def list_(registry: RegistryAt, quiet: Quiet = False, json: Json = False) -> None:
    """Show all bundles, and which are in force.

    Example: colltune site bundles list --registry /shared/colltune
    """
    from colltune.cli.bundles_text import listing, listing_json

    with progress("reading", quiet=quiet or json):
        opened = _opened(registry)
        found = listing_json(opened) if json else listing(opened)
    _print(found)


@bundles.command("show")
def show_(bundle: Which, registry: RegistryAt, quiet: Quiet = False, json: Json = False) -> None:
    """Show one bundle, after checking all of its hashes.

    It is named by how its id begins, or by the slot that it is in force in.

    Example: colltune site bundles show openmpi-4.1.4
    """
    from colltune.cli.bundles_text import facts_json, facts_text

    with progress("reading", quiet=quiet or json):
        opened = _opened(registry)
        loaded = opened.load(_id(opened, bundle))
        found = facts_json(opened, loaded) if json else facts_text(opened, loaded)
    _print(found)


@bundles.command("diff")
def diff_(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The beginning of an id, a slot, or a bundle's folder. If it is the only one: the"
            " new bundle, to be compared with what is in force in its slot.",
        ),
    ],
    registry: RegistryAt,
    new: Annotated[str | None, typer.Argument(metavar="NEW", help="Likewise.")] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODESxPPN", help="Only this shape; repeatable. Default: all trained on."
        ),
    ] = None,
    collective: Annotated[
        list[str] | None, typer.Option(help="Only this collective; repeatable.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show which decisions change from one bundle to another, and by how much predicted time.

    Each is the beginning of an id, a slot, or a bundle's folder. If only one is named, it is
    compared with what is in force in its slot.

    Examples: a candidate against what is in force; two bundles on one shape.

    colltune site bundles diff new-bundle/

    colltune site bundles diff 1f0c 93ab --shape 16x32 --collective bcast
    """
    from colltune.cli.bundles_text import diff_json, diff_text
    from colltune.selector.bundle_diff import diff

    shapes, collectives = _shapes(shape), _collectives(collective)
    with progress("reading", quiet=quiet or json) as shown:
        before, after = _pair(_opened(registry), old, new)
        shown.phase("comparing")
        found = diff(before, after, shapes, collectives)
    _print(diff_json(found) if json else diff_text(found, before, after))


@bundles.command("add")
def add(
    folders: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE…", help="Folders that `colltune fit` wrote.")
    ],
    registry: RegistryAt,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Put bundles into the registry; none comes into force by that.

    Example: colltune site bundles add bundle --registry /shared/colltune
    """
    ids: list[str] = []
    kept = "each bundle is added whole or not at all"
    with progress("adding", quiet=quiet or json, interrupted=kept) as shown:
        opened = _opened(registry)
        shown.phase("adding", "bundles")
        for folder in folders:
            shown.count(len(ids), len(folders), str(folder))
            ids.append(opened.add(folder))
    if json:
        show_json({"version": 1, "added": ids})
    else:
        for bundle_id in ids:
            show(f"added {bundle_id}")


@bundles.command("promote")
def promote(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="The beginning of an id of the registry.")
    ],
    registry: RegistryAt,
    by: By = None,
    note: Note = "",
    expected: Expected = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Bring a bundle into force for the MPI release that it was measured with.

    It is checked first. Servers take it up by themselves.

    Example: colltune site bundles promote 93ab --note "new cables"
    """
    with progress("checking the bundle", quiet=quiet or json, interrupted=_SEE_HISTORY):
        opened = _opened(registry)
        wanted = _expected(opened, expected)
        event = opened.promote(opened.find(bundle), by=by or _me(), note=note, expected=wanted)
    _show_event(event, json=json)


@bundles.command("rollback")
def rollback(
    registry: RegistryAt,
    slot: Annotated[
        str | None,
        typer.Argument(
            metavar="SLOT", help="Such as openmpi-4.1.4; may be left out if there is only one."
        ),
    ] = None,
    by: By = None,
    note: Note = "",
    expected: Expected = None,
    json: Json = False,
) -> None:
    """Undo the latest promotion: bring back what was in force before it.

    Example: colltune site bundles rollback openmpi-4.1.4 --note "slower on bcast"
    """
    opened = _opened(registry)
    if slot is None:
        slots = sorted(opened.current())
        if len(slots) != 1:
            raise typer.BadParameter(f"name the slot: {', '.join(slots) or 'none is in use'}")
        slot = slots[0]
    wanted = _expected(opened, expected)
    _show_event(opened.rollback(slot, by=by or _me(), note=note, expected=wanted), json=json)


@bundles.command("gc")
def gc(
    registry: RegistryAt,
    keep_events: Annotated[
        int,
        typer.Option(min=0, help="Keep what was in so many of the latest events of each slot."),
    ] = 5,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Keep what was added since: 30d, 12h.")
    ] = "30d",
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; without this, only show what would go.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Remove bundles that are not in force, cannot soon be rolled back to, and are not new.

    Example: colltune site bundles gc --older-than 90d --yes
    """
    from colltune.bench.durations import seconds
    from colltune.cli.bundles_text import collection, collection_json
    from colltune.registry.garbage import Collection

    min_age_s = seconds(older_than)
    with progress("looking for what nobody needs", quiet=quiet or json, interrupted=_GO_ON) as told:
        opened = _opened(registry)
        work = Collection(opened, keep_events=keep_events, min_age_s=min_age_s)
        plan = work.plan()
        removed = work.remove(_counted(plan.doomed, told)) if yes else None
        repointed = opened.repoint() if yes else ()
    shown = collection_json if json else collection
    _print(shown(plan, removed, repointed))


def _counted(items: Sequence[Item], shown: Progress) -> Iterator[Item]:
    shown.phase("removing", "items")
    for number, item in enumerate(items):
        shown.count(number, len(items), item.key)
        yield item


@bundles.command("history")
def history(
    registry: RegistryAt,
    slot: Annotated[
        str | None, typer.Argument(metavar="SLOT", help="Only this one, such as openmpi-4.1.4.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what came into force when, by whom and why; the latest last.

    Example: colltune site bundles history openmpi-4.1.4
    """
    from dataclasses import asdict

    from colltune.cli.bundles_text import history_text

    events = _opened(registry).history(slot)
    as_json = {"version": 1, "events": [asdict(event) for event in events]}
    _print(as_json if json else history_text(events))


def _print(found: str | dict[str, Any]) -> None:
    if isinstance(found, str):
        show(found)
    else:
        show_json(found)


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
        raise BundleError(f"{registry}: nothing is in force in {slot} to compare with; name two")
    return registry.load(event.bundle_id), after


def _expected(registry: Registry, text: str | None) -> str | None:
    from colltune.registry.registry import NOTHING

    if text is None:
        return None
    return NOTHING if text == "none" else registry.find(text)


def _shapes(texts: Sequence[str] | None) -> list[Shape] | None:

    return [parse_shape(text) for text in texts] if texts else None


def _collectives(texts: Sequence[str] | None) -> list[Collective] | None:

    return [parse_collective(text) for text in texts] if texts else None


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
    from colltune.cli.bundles_text import event_json, event_text

    _print(event_json(event) if json else event_text(event))
