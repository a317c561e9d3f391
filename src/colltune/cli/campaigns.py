"""The campaign that options describe, its backend, and how it is run and shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colltune.cli.console import warn
from colltune.cli.options import programs_of
from colltune.errors import CampaignError, ProgramError, say, unknown
from colltune.text import bytes_text

if TYPE_CHECKING:
    from colltune.bench.backends import Backend
    from colltune.bench.campaign import Campaign
    from colltune.bench.progress import CampaignProgress
    from colltune.bench.runner import CampaignReport
    from colltune.cli.progress import Progress
    from colltune.dataset.profile import Profile
    from colltune.domain import Context
    from colltune.mpi.installation import Installation


_JOB_END_S = 10.0


def campaign_of(
    path: Path | None,
    budget: str | None,
    backend: str | None,
    strategy: str | None,
    only: list[str] | None,
    skip: list[str] | None,
    *,
    interposed: bool = False,
    profiles: list[Path] | None = None,
    programs: str | None = None,
    results: str | None = None,
) -> Campaign:
    """Return the campaign in `path` (default: this machine), changed by what the user says.

    With `profiles`, or those that the campaign names, it measures what their application uses.
    """
    from colltune.bench import campaign_file, durations, strategies
    from colltune.bench.backends import BACKENDS

    if backend is not None and backend not in BACKENDS:
        raise unknown("backend", backend, BACKENDS, CampaignError)
    campaign = campaign_file.load(path) if path else campaign_file.laptop()
    changed = campaign.changed(
        total_s=durations.seconds(budget) if budget else None,
        backend=backend,
        strategy=strategy and strategies.known(strategy),
        only=tuple(only) if only else None,
        skip=tuple(skip) if skip else None,
        interposed=interposed or None,
        programs=programs_of(programs, results, otherwise=campaign.programs),
    )
    if not profiles and campaign.profile is None:
        return changed
    from colltune.bench.campaign import focused
    from colltune.dataset.profile import read_profiles

    return focused(changed, read_profiles(profiles or [Path(campaign.profile or "")]))


def usage_of(path: Path, context: Context) -> Profile:
    """Return what jobs of the site file `path` spend in collectives, as a profile."""
    from colltune.production.payback import usage
    from colltune.registry import slot_of
    from colltune.retraining.site_file import load

    found = usage(load(path).production, slot_of(context))
    if found is None:
        raise say("no-job-reported", path=path, slot=slot_of(context))
    return found


def installation_of(campaign: Campaign, mpi: str | None) -> Installation:
    """Return the MPI that the campaign, or `mpi`, names."""
    from colltune.mpi import DEFAULT_LIBRARY, installation

    # whoever names an MPI need not write a campaign file for its library
    library = None if mpi and campaign.library == DEFAULT_LIBRARY else campaign.library
    found = installation.find(mpi or campaign.mpi, library, campaign.launcher_program)
    if campaign.release is not None and found.release != campaign.release:
        wanted, mpi = f"library.release {campaign.release}", f"{found.library} {found.release}"
        mpirun = found.mpirun
        raise say("mpirun-of-another-mpi", CampaignError, mpirun=mpirun, mpi=mpi, wanted=wanted)
    return found


def on_named_mpi(campaign: Campaign, mpi: str | None) -> Campaign:
    """Return `campaign` for the library of `mpi`, where it leaves the processes to the library."""
    from colltune.mpi import DEFAULT_LIBRARY, installation

    if campaign.ppn or mpi is None or campaign.library != DEFAULT_LIBRARY:
        return campaign
    return campaign.changed(library=installation.find_launcher(mpi).library)


def backend_of(campaign: Campaign, replay: Path | None, mpi: str | None) -> Backend:
    """Return the campaign's backend, ready to measure; `replay` names a dataset to replay."""
    from colltune.bench.backends import BACKENDS, Means
    from colltune.bench.launchers import Placed, launcher_of

    means = Means(
        installation=lambda: installation_of(campaign, mpi),
        launcher=lambda found: Placed(
            launcher_of(found, campaign.launcher),
            cores=campaign.cores_per_node,
            hostfile=Path(campaign.hostfile) if campaign.hostfile else None,
            options=campaign.launcher_options,
        ),
        recorded=replay,
    )
    return BACKENDS["replay" if replay else campaign.backend].made_for(campaign, means)


def planned_backend(campaign: Campaign, mpi: str | None) -> Backend:
    """Return the campaign's backend for planning: the MPI that it names need not be there.

    What is to be replayed is planned as if it were measured anew.
    """
    from colltune.bench.backends import BACKENDS, Means
    from colltune.bench.launchers import Mpirun
    from colltune.mpi.installation import Installation

    simulated = campaign.backend == "smpi"
    release = "" if simulated else campaign.release
    if release is None:
        try:
            release = installation_of(campaign, mpi).release
        except ProgramError as error:
            raise error.of("without library.release") from None
    nowhere = Path("mpirun")
    imagined = Installation(campaign.library, release, nowhere, nowhere, nowhere, "")
    means = Means(lambda: imagined, lambda _found: Mpirun(nowhere), imagined=True)
    name = "native" if campaign.backend == "replay" else campaign.backend
    return BACKENDS[name].made_for(campaign, means)


def run_here(
    plan: Campaign,
    backend: Backend,
    out: Path,
    shown: Progress,
    *,
    seed: int | None,
    resume: bool,
    replayed: bool,
) -> CampaignReport:
    """Run a campaign, in a batch job so that it ends in order before its job does."""
    from colltune.bench.runner import run_campaign
    from colltune.bench.slurm import allocation

    granted = None if replayed else allocation()
    within_s = None
    if granted is not None:
        granted.check(plan.shapes)
        within_s = None if granted.left_s is None else max(0.0, granted.left_s - _JOB_END_S)

    def tell(progress: CampaignProgress) -> None:
        if shown.title != "measuring":
            shown.phase("measuring")
        facts, now = cells_done(progress), under_way(progress)
        spent_s, budget_s, ends_s = progress.spent_s, progress.budget_s, progress.ends_s
        if progress.note:
            warn(progress.note)
        shown.spend(spent_s, budget_s, ends_s=ends_s, facts=facts, now=now)

    return run_campaign(
        plan, backend, out, seed=seed, resume=resume, within_s=within_s, progress=tell
    )


def cells_done(progress: CampaignProgress) -> tuple[str, ...]:
    """Return how many cells are done of all, in two ways, the longer first."""
    done = f"{progress.measured}/{progress.cells}"
    return f"{done} cells", done


def under_way(progress: CampaignProgress) -> str:
    """Return what is measured now: ``bcast chain:fanout=4, 64 KiB on 4x32 (launch 2, survey)``."""
    where = f"launch {progress.launch}, {progress.what}"
    if progress.now is None:
        return f"on {progress.shape} ({where})"
    configuration, instance = progress.now.configuration, progress.now.instance
    words = filter(None, (configuration.stored_algorithm, configuration.parameter_text))
    size = bytes_text(instance.msize_bytes)
    return f"{instance.collective} {':'.join(words)}, {size} on {instance.shape} ({where})"
