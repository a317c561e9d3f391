"""`colltune confirm`: prediction proposes, measurement decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import Mark, TextTable, marked, output, warn
from colltune.cli.options import (
    BundleArgument,
    BundleAt,
    ForPrograms,
    ForResults,
    Fresh,
    Json,
    MeasuringBackend,
    Mpi,
    Profiles,
    Quiet,
    Replay,
    Seed,
    SiteUsage,
    StartedBy,
    bundle_to_read,
    programs_of,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.errors import UNFINISHED, say
from colltune.text import counted, range_text

if TYPE_CHECKING:
    from colltune.bench.campaign import Campaign
    from colltune.bench.runner import CampaignReport
    from colltune.models.bundle import Bundle
    from colltune.selector.confirming import ContestState

_INTERRUPTED = "the measurements are kept. Run the same command again to go on."


@dataclass(frozen=True)
class ConfirmedBundle:
    """What `confirm` prints."""

    bundle: Path
    """folder of the bundle"""
    id: str
    """its id"""
    campaign: CampaignReport
    """what was measured, and what became of the decisions"""


def confirm(
    named: BundleArgument = None,
    bundle: BundleAt = None,
    campaign: Annotated[
        Path | None,
        typer.Option(
            help="Campaign file (TOML) with shapes, collectives, message sizes and launcher."
        ),
    ] = None,
    nodes: Annotated[
        list[int] | None, typer.Option(help="Nodes of the shapes; repeatable.", min=1)
    ] = None,
    ppn: Annotated[
        list[int] | None, typer.Option(help="Processes per node; repeatable.", min=1)
    ] = None,
    demand: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder written by `colltune serve --demand`: confirm the shapes that jobs asked "
            "for, the most frequent first.",
        ),
    ] = None,
    profile: Profiles = None,
    site: SiteUsage = None,
    budget: Annotated[str, typer.Option(help="Hard limit of wall time: 90, 30m, 4h.")] = "10m",
    out: Annotated[
        Path,
        typer.Option(help="Dataset folder to add the measurements to.", callback=writable_folder),
    ] = Path("dataset"),
    out_bundle: Annotated[
        Path | None, typer.Option(help="Bundle folder to write; default: replace the one read.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Also measure decisions that were already confirmed or withdrawn."
        ),
    ] = False,
    programs: ForPrograms = None,
    results: ForResults = None,
    backend: MeasuringBackend = None,
    replay: Replay = None,
    mpi: Mpi = None,
    launcher: StartedBy = None,
    fresh: Fresh = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure a bundle's decisions and the default in turn, and keep what is faster.

    A launch of a shape alternates between the default, the predicted best and its nearest
    runners-up. A decision that is faster beyond doubt, in two launches at least, is confirmed. A
    decision that is not confirmed in six launches is withdrawn. The rest stays predicted. The
    bundle records which is which, and the measurements join a dataset for the next fit.

    Example: colltune confirm --bundle bundle --nodes 34 --ppn 32 --budget 10m --out dataset

    Example: colltune confirm --bundle bundle --campaign hydra.toml --demand demand --budget 1h

    With --site, what production jobs refuted is measured first, then what they spend most on.

    Example: colltune confirm --bundle bundle --site site.toml --budget 1h
    """
    from colltune.bench.campaign import focused
    from colltune.bench.runner import CampaignReport
    from colltune.cli.campaigns import backend_of, run_here, usage_of
    from colltune.models.bundle import insist_savable, load
    from colltune.selector.demand import read_demand
    from colltune.verify.confirm import (
        asked_by_campaign,
        asked_by_jobs,
        confirming,
        insist_on_context,
        proposals,
        revised,
        unconfirmed,
        with_refuted,
    )

    if not (campaign or nodes or demand or profile or site):
        raise say("no-shapes")
    bundle = bundle_to_read(bundle, named, writes=True, quiet=json)
    target = out_bundle or bundle
    insist_savable(target)
    with progress("preparing", quiet=quiet or json, interrupted=_INTERRUPTED) as shown:
        old = load(bundle)
        plan = _campaign(old, campaign, budget, backend, nodes, ppn, profile)
        plan = plan.changed(
            programs=programs_of(programs, results, otherwise=plan.programs),
            launcher_program=launcher,
        )
        if site is not None:
            plan = focused(plan, usage_of(site, old.context))
        measures = backend_of(plan, replay, mpi)
        insist_on_context(old, plan, measures)
        asked = asked_by_campaign(old, plan)
        if demand is not None:
            asked = asked_by_jobs(old, read_demand(demand))
        if site is not None:
            asked = with_refuted(old, asked)
        found = proposals(old, measures, asked if again else unconfirmed(old, asked), plan.programs)
        if not found:
            _show(old, CampaignReport(), target, as_json=json)
            return
        plan = confirming(plan, found)
        report = run_here(
            plan, measures, out, shown, seed=seed, resume=not fresh, replayed=replay is not None
        )
        new = revised(old, report.judgements) if report.finished else old
        if new.id != old.id or target != bundle:
            new.save(target)
    _show(new, report, target, as_json=json)
    if not report.finished:
        raise typer.Exit(UNFINISHED)


def _campaign(
    bundle: Bundle,
    path: Path | None,
    budget: str,
    backend: str | None,
    nodes: Sequence[int] | None,
    ppn: Sequence[int] | None,
    profiles: list[Path] | None,
) -> Campaign:
    """Return the campaign in `path`, or one for the machine of the bundle."""
    from colltune.bench import durations
    from colltune.bench.campaign import focused
    from colltune.cli.campaigns import campaign_of
    from colltune.dataset.profile import read_profiles
    from colltune.verify.confirm import campaign_for

    if path is not None:
        plan = campaign_of(path, budget, backend, None, None, None)
    else:
        plan = campaign_for(bundle, durations.seconds(budget)).changed(backend=backend)
    plan = plan.changed(nodes=tuple(nodes) if nodes else None, ppn=tuple(ppn) if ppn else None)
    return focused(plan, read_profiles(profiles)) if profiles else plan


def _show(bundle: Bundle, report: CampaignReport, target: Path, *, as_json: bool) -> None:
    for problem in report.problems:
        warn(problem)
    facts = ConfirmedBundle(target, bundle.id, report)
    output(facts, _lines(bundle, report, target), json=as_json)


def _lines(bundle: Bundle, report: CampaignReport, target: Path) -> Iterator[str | TextTable]:
    if not report.judgements:
        yield (
            "nothing to confirm: no decision is worth measuring, or all were measured before "
            "(--again measures them again)"
        )
        return
    yield str(bundle.context)
    yield TextTable(_HEADER, [_row(each) for each in report.judgements], _WRAP, _DROP)
    if not report.finished:
        yield "the time of this job is over. Run the same command again to go on"
        return
    yield (
        f"{counted(report.measurements, 'measurement')} in "
        f"{counted(report.launches, 'launch', 'es')}, {report.wall_s:.1f} s; bundle "
        f"{bundle.id[:12]} -> {target}"
    )


_HEADER = (
    *("collective", "shape", "message size", "proposed", "predicted", "measured", "launches"),
    "status",
)
_WRAP = ("proposed", "status")
_DROP = ("launches", "predicted")
_MARKS = {"confirmed": Mark.GOOD, "withdrawn": Mark.DOUBTFUL}


def _row(judgement: ContestState) -> list[object]:
    contest, gain = judgement.contest, judgement.gain
    proposed, used = contest.candidates[0], judgement.configuration
    instead = "" if used.is_default or used == proposed else f": {used.short} instead"
    return [
        contest.collective,
        contest.shape,
        range_text(judgement.first_bytes, judgement.last_bytes),
        proposed.short,
        f"{contest.gain:.2f}x",
        gain.text if gain else "",
        gain.launches if gain else "",
        marked(f"{judgement.status}{instead}", _MARKS.get(judgement.status)),
    ]
