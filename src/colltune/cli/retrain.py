"""`colltune site retrain`: what a site does every night."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import Verbatim, output, warn
from colltune.cli.options import Backend, Jobs, Json, Quiet, Scheduler, workers_of
from colltune.cli.progress import progress
from colltune.errors import SiteError, say
from colltune.text import counted, printable, range_text

if TYPE_CHECKING:
    from colltune.cli.progress import Progress
    from colltune.retraining.contest import Contest
    from colltune.retraining.nightly import Night
    from colltune.retraining.slot_run import SlotResult


@dataclass(frozen=True)
class PrintedUnit:
    """What `site retrain --print-unit` prints."""

    unit: str
    """which text"""
    text: str
    """the text"""


_INTERRUPTED = "the bundles in force are unchanged"


def retrain(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Site file (TOML).")] = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Compare a candidate, but promote none.")
    ] = False,
    backend: Backend = None,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    print_unit: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Print an example and stop: of what starts a retraining every night (systemd, "
            "timer, scrontab or kubernetes), or of a site file (site).",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Fit new measurements, and promote the result unless it is worse than the bundle in force.

    The new bundle is promoted only if held-out decisions show that it is not worse, in regret and
    in harm, by more than the site file allows. Drift of runtimes is reported, too. Only one
    retraining of a registry runs at a time. If it is killed, the old bundle stays in force.

    Example: colltune site retrain --config site.toml

    Example: colltune site retrain --print-unit systemd >
    /etc/systemd/system/colltune-retrain.service
    """
    if print_unit is not None:
        from colltune.retraining.site_file import deploy_file

        text = deploy_file(print_unit).rstrip("\n")
        output(PrintedUnit(print_unit, text), [Verbatim(text)], json=json)
        return 0
    if config is None:
        give = "it with --config (--print-unit site prints an example)"
        raise say("missing", SiteError, what="the site file", give=give)

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
    output(night, lines(night), json=json)
    return night.exit_status


@contextmanager
def _phase(shown: Progress, what: str) -> Iterator[Callable[[int, int, str], None]]:
    shown.phase(what)
    yield shown.count


_SHOWN_CHANGES = 5


def lines(night: Night) -> Iterator[str]:
    """Yield what happened, line by line."""
    if night.took_over:
        yield printable(f"took over from {night.took_over}, which was interrupted")
    for result in night.results:
        for line in _of_slot(result):
            yield printable(line)
    for why in night.left_out:
        yield printable(f"left out: {why}")


def _of_slot(result: SlotResult) -> Iterator[str]:
    yield (
        f"{result.slot}: {result.outcome.replace('_', ' ')}: {result.reason}"
        f" ({result.measurements} measurements, {result.new_measurements} new)"
    )
    before, after = (_short(i) for i in (result.was_in_force, result.in_force))
    candidate = f", candidate {_short(result.candidate)}" if result.candidate else ""
    moved = f"was {before}, now {after}" if before != after else after
    yield f"  in force: {moved}{candidate}"
    for what, why in result.unfitted.items():
        yield f"  left out of the candidate: {what}: {why}"
    if result.comparison is not None:
        yield from _of_contest(result.comparison)
    if result.changes:
        yield from _of_changes(result.changes)
    if result.drift is not None:
        for shift in result.drift.alarms:
            yield f"  drift: {shift}"
    if "problem" in result.confirmed:
        yield f"  no confirmation: {result.confirmed['problem']}"
    elif result.confirmed:
        counts = (f"{result.confirmed[status]} {status}" for status in ("confirmed", "withdrawn"))
        yield f"  measured in turn with the default: {', '.join(counts)}"
    yield from _of_campaign(result.campaign)


def _of_contest(contest: Contest) -> Iterator[str]:
    sides = {"candidate": contest.candidate, "in force": contest.in_force}
    for name, scores in sides.items():
        if scores:
            score = scores["all"]
            share = score.log_gain_share
            yield (
                f"  {name}: {score.geometric_mean_speedup:.3f}x the default on "
                f"{counted(score.instances, 'held-out instance')}, "
                f"{'no' if share is None else f'{share:.1%}'} of the possible gain, regret "
                f"{score.mean_regret - 1:.1%}, harm {score.slower_share:.1%}"
            )
    yield f"  (the bundle in force: {contest.how})"


def _of_changes(changes: dict[str, Any]) -> Iterator[str]:
    ratio = changes["predicted_ratio"]
    effect = "" if ratio is None else f", predicted {ratio:.3f}x as fast on average"
    shares = ", ".join(f"{name} {share:.0%}" for name, share in changes["changed"].items())
    yield f"  changed decisions: {counted(changes['changes'], 'range')} ({shares}){effect}"
    for change in changes["largest"][:_SHOWN_CHANGES]:
        sizes = range_text(change["first_bytes"], change["last_bytes"])
        yield (
            f"    {change['collective']} {change['shape']}, {sizes}: {change['old']} ->"
            f" {change['new']}, predicted {change['predicted_ratio']:.2f}x"
        )


def _of_campaign(campaign: dict[str, Any]) -> Iterator[str]:
    if "problem" in campaign:
        yield f"  no next campaign: {campaign['problem']}"
    elif "path" in campaign:
        yield (
            f"  next campaign: {campaign['path']}; it covers {campaign['covered']:.0%} of "
            "what jobs asked for without a good answer"
        )


def _short(bundle_id: str | None) -> str:
    return "nothing" if bundle_id is None else bundle_id[:12]
