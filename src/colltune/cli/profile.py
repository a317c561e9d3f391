"""`colltune profile`: where an application's time goes, and what a bundle would change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import progress, show, show_json
from colltune.cli.options import Caution, Json, Quiet

if TYPE_CHECKING:
    from colltune.dataset.profile import Profile
    from colltune.selector.profiled import Outlook


def profile(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Profiles that libcolltune wrote: files, or folders of them.", metavar="PATH…"
        ),
    ],
    bundle: Annotated[
        Path | None,
        typer.Option(help="Bundle folder: tell what it would change for the application."),
    ] = None,
    program: Annotated[
        list[str] | None,
        typer.Option(help="Only runs of this program; repeatable; default: all.", metavar="NAME"),
    ] = None,
    top: Annotated[int, typer.Option(help="Lines to show, 0 for all.", min=0)] = 20,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the time by collective and message size: .png, .svg or .pdf.",
        ),
    ] = None,
    caution: Caution = 1.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show what an application spends in collectives, by communicator and message size.

    Profiles are written by jobs that run with libcolltune (`colltune interpose`) and
    COLLTUNE_PROFILE=FOLDER. Several are added up.

    Examples: where the time goes; and what a bundle would make of it.

    colltune profile profiles

    colltune profile profiles --program solver --bundle bundle --plot profile.png
    """
    from colltune.cli.profile_report import as_json, text
    from colltune.dataset.profile_file import read_profiles

    if plot is not None:
        from colltune.plots.saving import picture_format

        picture_format(plot)
    with progress("reading", quiet=quiet or json) as shown:
        found = read_profiles(paths, program or ())
        foreseen = None
        if bundle is not None:
            shown.phase("predicting")
            foreseen = _outlook(found, bundle, caution)
        if plot is not None:
            shown.phase("drawing")
            from colltune.plots.profile import times
            from colltune.plots.saving import saved

            saved(times(found, foreseen), plot)
    if json:
        show_json(as_json(found, foreseen))
        return
    show(text(found, foreseen, top))
    if plot is not None:
        show(f"\n-> {plot}")


def _outlook(profile: Profile, bundle: Path, caution: float) -> Outlook:
    from colltune.models.bundle import load
    from colltune.models.guard import Guard
    from colltune.selector.argmin import ModelSelector
    from colltune.selector.profiled import outlook

    return outlook(profile, ModelSelector(load(bundle), guard=Guard(caution=caution)))
