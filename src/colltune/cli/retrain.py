"""`colltune retrain`: what a site does every night."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import progress, show, show_json, warn
from colltune.cli.options import Jobs, Json, Quiet
from colltune.cli.workers_options import Backend, Scheduler
from colltune.errors import SiteError

if TYPE_CHECKING:
    from colltune.cli.console import Progress

_INTERRUPTED = "what was in force stays in force"


def retrain(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Site file (TOML).")] = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Compare a candidate, but promote nothing.")
    ] = False,
    backend: Backend = None,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    print_unit: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Print what starts this every night: systemd, timer, scrontab or kubernetes; or"
            " an example of a site file: site.",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Fit what was measured, compare it with the bundle in force, promote it if it is not worse.

    The bundle in force stays unless held-out decisions show that the new one is not worse, in
    regret and in harm, by more than the site file allows. Runtimes that changed are told, too. Only
    one retraining of a registry runs at a time; one that was killed leaves the old bundle in force.

    Example: colltune retrain --config site.toml

    Example: colltune retrain --print-unit systemd > /etc/systemd/system/colltune-retrain.service
    """
    from colltune.cli.retrain_report import lines
    from colltune.cli.workers_options import workers_of

    if print_unit is not None:
        from colltune.retraining.units import unit

        text = unit(print_unit).rstrip("\n")
        show_json({"unit": print_unit, "text": text}) if json else show(text)
        return 0
    if config is None:
        raise SiteError("name the site file with --config; --print-unit site prints an example")

    from dataclasses import replace

    from colltune.retraining.lease import LeaseTakenError
    from colltune.retraining.nightly import retrain as run
    from colltune.retraining.site_file import load

    site = load(config)
    site = replace(site, workers=workers_of(site.workers, backend, scheduler, jobs))
    if shadow:
        site = replace(site, thresholds=replace(site.thresholds, shadow=True))
    try:
        with progress("reading", quiet=quiet or json, interrupted=_INTERRUPTED) as shown:
            night = run(site, lambda what: _phase(shown, what), lines)
    except LeaseTakenError as error:
        warn(str(error))
        return error.exit_status
    for why in night.left_out:
        warn(f"left out: {why}")
    for hook, fared in night.hooks.items():
        if fared != "sent":
            warn(f"hook {hook} {fared}")
    if json:
        show_json(night.as_dict())
    else:
        for line in lines(night):
            show(line)
    return night.exit_status


@contextmanager
def _phase(shown: Progress, what: str) -> Iterator[Callable[[int, int, str], None]]:
    shown.phase(what)
    yield shown.count
