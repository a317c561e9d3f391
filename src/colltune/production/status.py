"""What production jobs proved: all that the page, `site status` and the report tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.errors import DataError, unknown
from colltune.json_text import DescribedRecord
from colltune.production.arms import Arm, Production
from colltune.production.judgement import (
    ArmJobs,
    Judgement,
    ProductionDrift,
    ProductionFinding,
    ProductionVerdict,
    SavedNodeHours,
    TrialStep,
    TrialVerdict,
    latest,
)
from colltune.registry import Registry
from colltune.registry.events import Action, Event, stopped, trials

SWITCH_ON = "colltune site init FOLDER; sudo sh FOLDER/install"
"""What is run after ``record = true`` was written below ``[production]`` in the site file."""
_MOST_DECISIONS = 200
_TO_SECONDS = len("2026-11-23T11:00:00")


@dataclass(frozen=True)
class Period(DescribedRecord):
    """Node-hours that tuned jobs saved in a month (``2026-11``), or in ``all`` of them."""

    period: str
    """A month, or all"""
    node_hours: float
    """that were saved"""
    lower: float
    """of the 95 % interval"""
    upper: float
    """of the 95 % interval"""


@dataclass(frozen=True)
class ProductionGain(DescribedRecord):
    """How much faster a collective's tuned calls were than those of the control group."""

    mpi_name: str
    """its MPI function"""
    decisions: int
    """how many it is of"""
    gain: float
    """the default's time over the arm's"""
    lower: float
    """of the 95 % interval"""
    upper: float
    """of the 95 % interval"""
    saved_node_hours: float
    """by all of its decisions"""


@dataclass(frozen=True)
class JudgedDecision(DescribedRecord):
    """A decision that was proven or refuted; the rest is empty where nobody withdrew it."""

    slot: str
    """library and release"""
    mpi_name: str
    """MPI function"""
    nodes_first: int
    """fewest nodes"""
    nodes_last: int
    """most nodes"""
    ppn: int
    first_bytes: int
    last_bytes: int | None
    """null: no end"""
    configuration: str
    """algorithm and parameters"""
    arm: str
    """tuned or candidate"""
    bundle_id: str
    """bundle that decides so"""
    jobs: int
    """of the arm"""
    control_jobs: int
    """of the control group"""
    gain: float
    """the default's time over the arm's"""
    lower: float
    """of the 95 % interval"""
    upper: float
    """of the 95 % interval"""
    since_utc: str
    """when it was proven or refuted"""
    withdrawn_utc: str = ""
    """empty: it was not"""
    revision: str = ""
    """the bundle without it; empty: none"""
    note: str = ""
    """what the registry's history says of it"""


@dataclass(frozen=True)
class RollOut(DescribedRecord):
    """A bundle on trial: its share of the jobs, and what its jobs showed at this share.

    ``lower`` to ``upper`` is their time over that of jobs with the bundle in force.
    """

    slot: str
    """library and release"""
    bundle_id: str
    """the bundle on trial"""
    share: float
    """of the jobs"""
    shares: tuple[float, ...]
    """of all steps"""
    jobs: int
    """judged at this step"""
    jobs_wanted: int
    """for a step on"""
    lower: float | None
    """time over that of the bundle in force"""
    upper: float | None
    """likewise"""
    compared: float | None
    """share of the time in calls that it changes, of which jobs were compared; null: it changed
    none"""
    showed: TrialVerdict
    """harm, no_harm, alike (it decides as before), not_compared"""
    harmed: bool
    """whether its jobs were harmed"""
    why: str
    """what it showed, in words"""
    since_utc: str
    """since when it has this share"""
    by: str
    """who gave it this share"""


@dataclass(frozen=True)
class NotJudged(DescribedRecord):
    """How often something was not judged for a reason."""

    reason: str
    """why"""
    times: int
    """how often"""


@dataclass(frozen=True)
class ProductionStatus(DescribedRecord):
    """All of it; without ``recording`` nothing is known, ``judged_utc`` is empty before a look.

    Of decisions the latest are listed, and all are counted.
    """

    machine: str
    """name of the site's machine"""
    recording: bool
    """false: nothing is recorded"""
    switch_on: str
    """how, where it is off"""
    control: float
    """share of jobs without tuning"""
    judged_utc: str = ""
    """when last; empty: never"""
    jobs: int = 0
    """that were judged"""
    waiting: bool = False
    """whether reports wait for the next look"""
    saved: Period | None = None
    """since the beginning; null: no job was judged"""
    months: tuple[Period, ...] = ()
    """the latest first"""
    collectives: tuple[ProductionGain, ...] = ()
    """gains by collective"""
    proven_count: int = 0
    """decisions that were proven"""
    refuted_count: int = 0
    """decisions that were refuted"""
    open_count: int = 0
    """on which nothing is sure yet"""
    not_compared_count: int = 0
    """no jobs of two arms to compare"""
    proven: tuple[JudgedDecision, ...] = ()
    """the latest first"""
    refuted: tuple[JudgedDecision, ...] = ()
    """the latest first"""
    roll_outs: tuple[RollOut, ...] = ()
    """bundles on trial"""
    stopped: tuple[Event, ...] = ()
    """trials that ended so"""
    drifts: tuple[ProductionDrift, ...] = ()
    """what slowed jobs down whatever the bundle"""
    arms: tuple[ArmJobs, ...] = ()
    """jobs by arm"""
    set_aside: tuple[NotJudged, ...] = ()
    """reports that were refused"""
    left_out: tuple[NotJudged, ...] = ()
    """what could not be compared"""


@dataclass(frozen=True)
class PrintedStatus(ProductionStatus):
    """What production jobs proved, and the report that was written."""

    version: int = 1
    """of this document"""
    report: Path | None = None
    """HTML file of a month; null: none was asked for"""


def read(settings: Production, registry: Registry, machine: str) -> ProductionStatus:
    """Return what the site's store tells; one that is not there yet is not made."""
    from colltune.production.store import Store

    is_there = "://" in settings.store or Path(settings.store).exists()
    if not settings.record or not is_there:
        return status_of(None, settings, (), machine)
    with closing(Store(settings.store, settings.archive)) as store:
        return status_of(latest(store), settings, registry.history(), machine)


def status_of(
    judgement: Judgement | None,
    settings: Production,
    events: Sequence[Event],
    machine: str,
) -> ProductionStatus:
    """Return what is known; `events` are those of the registry, in order."""
    if not settings.record:
        return ProductionStatus(machine, False, SWITCH_ON, 0.0)
    if judgement is None:
        on_trial = tuple(_roll_outs((), settings, events))
        return ProductionStatus(machine, True, "", settings.control, roll_outs=on_trial)
    decisions = sorted(judgement.findings, key=lambda f: f.since_utc, reverse=True)
    proven = [f for f in decisions if f.verdict is ProductionVerdict.PROVEN and f.gain is not None]
    # a verdict of an earlier colltune can be without its figures
    refuted = [
        f for f in decisions if f.verdict is ProductionVerdict.REFUTED and f.gain is not None
    ]
    return ProductionStatus(
        machine,
        True,
        "",
        settings.control,
        judged_utc=judgement.at_utc,
        jobs=judgement.jobs,
        waiting=judgement.waiting,
        saved=Period("all", *judgement.saved) if any(judgement.saved) else None,
        months=tuple(Period(*of) for of in _latest_first(judgement.months)),
        collectives=tuple(_gains(judgement)),
        proven_count=judgement.proven,
        refuted_count=judgement.refuted,
        open_count=judgement.undecided,
        not_compared_count=judgement.not_compared,
        proven=tuple(_decision(f, None) for f in proven[:_MOST_DECISIONS]),
        refuted=tuple(_decision(f, _withdrawal(f, events)) for f in refuted[:_MOST_DECISIONS]),
        roll_outs=tuple(_roll_outs(judgement.steps, settings, events)),
        stopped=tuple(event for _, event in sorted(stopped(events).items())),
        drifts=judgement.drifts,
        arms=judgement.arms,
        set_aside=_not_judged(judgement.set_aside),
        left_out=_not_judged(judgement.left_out),
    )


def of_month(status: ProductionStatus, month: str = "") -> ProductionStatus:
    """Return what was judged in a month, by default the latest, and what goes for all of them."""
    known = {one.period: one for one in status.months}
    if month not in known and (month or not known):
        months = list(known) or ["none, wait for the first jobs"]
        raise unknown("month of judged jobs", month, months, DataError)
    month = month or max(known)
    proven, refuted = (
        tuple(one for one in decisions if one.since_utc.startswith(month))
        for decisions in (status.proven, status.refuted)
    )
    others = tuple(one for one in status.months if one.period != month)
    return replace(
        status, months=(known[month], *others), proven=proven, refuted=refuted,
        proven_count=len(proven), refuted_count=len(refuted),
    )  # fmt: skip


def _latest_first(
    months: Mapping[str, SavedNodeHours],
) -> Iterator[tuple[str, float, float, float]]:
    for month in sorted(months, reverse=True):
        yield month, *months[month]


def _not_judged(counts: Mapping[str, int]) -> tuple[NotJudged, ...]:
    return tuple(NotJudged(reason, counts[reason]) for reason in sorted(counts))


def _gains(judgement: Judgement) -> Iterator[ProductionGain]:
    for collective in Collective:
        gain = judgement.collectives.get(collective.value)
        of = [f for f in judgement.findings if f.range.collective is collective]
        if gain is not None:
            saved = sum(f.saved_node_hours for f in of)
            yield ProductionGain(collective.mpi_name, len(of), *gain, saved)


def _decision(one: ProductionFinding, withdrawal: Event | None) -> JudgedDecision:
    where = one.range
    gain, lower, upper = one.gain, one.lower, one.upper
    if gain is None or lower is None or upper is None:
        raise ValueError("a verdict without an interval")
    revision = withdrawal is not None and withdrawal.bundle_id != one.bundle_id
    return JudgedDecision(
        slot=one.slot,
        mpi_name=where.collective.mpi_name,
        nodes_first=where.nodes_first,
        nodes_last=where.nodes_last,
        ppn=where.ppn,
        first_bytes=where.first_bytes,
        last_bytes=where.last_bytes,
        configuration=Configuration.parse(one.configuration).short,
        arm=one.arm,
        bundle_id=one.bundle_id,
        jobs=one.jobs.get(one.arm, 0),
        control_jobs=one.jobs.get(Arm.CONTROL, 0),
        gain=gain,
        lower=lower,
        upper=upper,
        since_utc=one.since_utc,
        withdrawn_utc=withdrawal.at_utc if withdrawal else "",
        revision=withdrawal.bundle_id if withdrawal and revision else "",
        note=withdrawal.note if withdrawal else "",
    )


def _withdrawal(one: ProductionFinding, events: Iterable[Event]) -> Event | None:
    """Return what took the bundle of a refuted decision away from jobs: a revision, or a stop."""
    for event in events:
        if event.slot != one.slot or event.at_utc[:_TO_SECONDS] < one.since_utc[:_TO_SECONDS]:
            continue
        stopped = event.action is Action.STOP and event.bundle_id == one.bundle_id
        replaced = event.previous_id == one.bundle_id != event.bundle_id
        if stopped or (replaced and not event.action.is_of_trial):
            return event
    return None


def _roll_outs(
    steps: Iterable[TrialStep], settings: Production, events: Sequence[Event]
) -> Iterator[RollOut]:
    judged = {(step.slot, step.bundle_id, step.share): step for step in steps}
    for slot, event in sorted(trials(events).items()):
        share = event.share or 0.0
        step = judged.get((slot, event.bundle_id, share))
        yield RollOut(
            slot,
            event.bundle_id,
            share,
            settings.steps,
            step.jobs if step else 0,
            settings.jobs_per_step,
            step.lower if step else None,
            step.upper if step else None,
            step.compared if step else None,
            step.showed if step else TrialVerdict.NOT_COMPARED,
            step is not None and step.harmed,
            step.why if step else "no job reported yet",
            event.at_utc,
            event.by,
        )
