"""The stages of tuning, one after the other, within one wall-time budget.

What does not fit is left out, least important first: launches that confirm, the look at which
algorithm ran, all learners but one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from colltune import process
from colltune.bench.backends import Backend
from colltune.bench.backends.native import NativeBackend
from colltune.bench.campaign import Campaign
from colltune.bench.progress import CampaignProgress
from colltune.bench.runner import CampaignReport, run_campaign
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.decisions import AS_MEASURED, DecisionTable, Status
from colltune.domain import Instance, Shape
from colltune.errors import BudgetError, ColltuneError, ProgramError, say
from colltune.files import cache_folder, whole
from colltune.files.ownership import insist_preloadable
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.models.learners import AUTO, PREFERRED, learner_entry
from colltune.mpi import trace
from colltune.mpi.installation import Installation
from colltune.page.file import bundle_file, bundle_page
from colltune.page.gains import GainSummary
from colltune.selector.configuration import (
    Target,
    WrittenConfiguration,
    rendered,
    selector_for,
    table_for,
    write_rendered,
)
from colltune.selector.confirming import ContestState, confirmations
from colltune.text import UNPRINTED, computed, counted
from colltune.tune.job import TunedJob, TunedRange, Watched
from colltune.verify.confirm import ToConfirm, confirming, proposals
from colltune.verify.observing import watch_algorithms

_LEAST_BUDGET_S = 15.0
_AFTERWARDS_S = 8.0
_END_S = 0.8
_VERIFY_SHARE = 1 / 3
_LEAST_MEASURING_S = 10.0


@dataclass(frozen=True)
class TuneSettings:
    """What the user asked for; ``started`` is the monotonic time from which the budget counts."""

    campaign: Campaign
    out: Path
    learner: str
    seed: int | None
    started: float
    slowdown: float = 1.0

    def spent_s(self) -> float:
        return time.monotonic() - self.started

    def left_s(self) -> float:
        """Return the seconds that are left of the budget, without those to print and to exit."""
        return self.campaign.total_s - self.spent_s() - _END_S * self.slowdown

    def moment(self, share: float = 1.0) -> float:
        """Return the monotonic time at which a `share` of what is left will be spent."""
        return time.monotonic() + share * self.left_s() - process.GRACE_S

    def insist_on_enough(self) -> None:
        """Refuse a budget that cannot suffice, even on an idle machine."""
        if self.campaign.total_s < _LEAST_BUDGET_S:
            total_s, less = self.campaign.total_s, f"less than {_LEAST_BUDGET_S:g} s for all stages"
            raise say("too-small", BudgetError, name="--budget", value=total_s, less=less)

    @contextmanager
    def told_of_time(self) -> Iterator[None]:
        """Say of a program that failed in the block that there was no time, if so it was."""
        try:
            yield
        except ProgramError:
            self.measuring_s()
            raise

    def measuring_s(self) -> float:
        """Return the seconds that measuring may take now; none left is an error."""
        left_s = self.left_s()
        afterwards_s = min(_AFTERWARDS_S * self.slowdown, max(_AFTERWARDS_S, left_s / 2))
        measuring_s = (1 - _VERIFY_SHARE) * (left_s - afterwards_s)
        if measuring_s > 0:
            return measuring_s
        enough_s = self.spent_s() + self.total_for_s(_LEAST_MEASURING_S)
        spent_s, budget_s = self.spent_s(), self.campaign.total_s
        raise say("budget-spent", spent_s=spent_s, budget_s=budget_s, enough_s=enough_s)

    def total_for_s(self, measuring_s: float) -> float:
        """Return the seconds of all stages after the first, so that measuring has `measuring_s`."""
        return measuring_s / (1 - _VERIFY_SHARE) + (_AFTERWARDS_S + _END_S) * self.slowdown


def slowdown(began_s: float, began_cpu_s: float) -> float:
    """Return how many seconds went by for one that this process computed, since then; at least 1.

    The arguments are what `time.monotonic` and `time.process_time` said.
    """
    computed_s = time.process_time() - began_cpu_s
    return max(1.0, (time.monotonic() - began_s) / computed_s) if computed_s > 0 else 1.0


_QUICK = "knn"
_OVERRUN = 1.2
_FIT_SHARE = 1 / 3
_TRIED_SHARE, _HOPELESS = 1 / 4, 2.0
_WATCH_SHARE = 1 / 4
_ALTERNATING = "the default and the selected configurations in turn"
Tell = Callable[[str, CampaignProgress | str], None]
"""Is told which stage goes on, and how far its campaign is or what is under way."""


@dataclass(frozen=True)
class TuneResult:
    """Everything that was found and made."""

    mpirun: Path
    """launcher of the MPI that was measured"""
    shape: Shape = field(metadata=UNPRINTED)
    context: str
    """machine and library"""
    rows: tuple[TunedRange, ...]
    """ranges of message sizes, collective by collective"""
    gain: GainSummary
    """what the bundle brings"""
    dataset: Path
    """folder of the measurements"""
    bundle: Path
    """folder of the bundle"""
    page: Path
    """HTML file that shows it"""
    written: WrittenConfiguration = field(metadata=UNPRINTED)
    report: CampaignReport = field(metadata=UNPRINTED)
    wall_s: float
    """wall time of it all"""
    timed_s: float
    """time of it in timed loops"""
    phases_s: Mapping[str, float]
    """wall time by phase"""
    notes: tuple[str, ...]
    """remarks"""
    cores_shared: str
    """how many processes shared how many cores, empty if each had one"""
    unproven: str
    """why a job would gain nothing by the file; empty if something proved faster"""

    @computed
    def promise(self) -> str:
        """Which programs it is for: any-legal, same-types, builtin-operations."""
        return str(self.written.programs)

    @computed
    def nodes(self) -> int:
        """Nodes of the job."""
        return self.shape.nodes

    @computed
    def ppn(self) -> int:
        """Processes per node."""
        return self.shape.ppn

    @computed
    def launches(self) -> int:
        """Launches in which all configurations were measured."""
        return self.report.launches

    @computed
    def problems(self) -> tuple[str, ...]:
        """What went wrong while measuring."""
        return tuple(self.report.problems)

    @computed
    def configuration(self) -> Path:
        """File that MPI reads."""
        return self.written.rules_path

    @computed
    def parameters(self) -> Path | None:
        """File of parameters that goes with it."""
        return self.written.parameter_path

    @computed
    def environment(self) -> Mapping[str, str]:
        """Variables that put the file into effect."""
        return self.written.environment

    @computed
    def job_line(self) -> str | None:
        """The same as one line for a job; null: nothing proved faster."""
        return None if self.unproven else self.written.job_line


def tune(
    settings: TuneSettings,
    installation: Installation,
    backend: NativeBackend,
    tell: Tell,
    measuring: Backend | None = None,
) -> TuneResult:
    """Tune by `backend`; `measuring` takes its place where all configurations are measured."""
    if len(settings.campaign.shapes) != 1:
        raise say("one-shape", shapes=len(settings.campaign.shapes))
    library, release = installation.library, installation.release
    target = Target.named(
        f"{library}-table" if settings.campaign.interposed else library,
        release,
        programs=settings.campaign.programs,
    )
    folder = settings.out / f"{settings.campaign.machine}-{library}-{release}"
    with process.ending_by(settings.moment()):
        first = measuring or backend
        return _Tuning(settings, installation, target, backend, first, tell, folder).run()


def _unproven(rows: Sequence[TunedRange], judgements: Sequence[ContestState]) -> str:
    """Return why no row has anything but the default; empty if one has."""
    if any(not row.interval.configuration.is_default for row in rows):
        return ""
    tried = [row.measured for row in rows if row.measured is not None]
    if not judgements and not tried:
        return "no algorithm is predicted to be faster than the default"
    proved = sum(judgement.status is Status.CONFIRMED for judgement in judgements)
    if proved:
        return (
            f"{counted(proved, 'range')} of message sizes proved faster, but the file cannot say so"
        )
    if any(not one.launches for one in tried) or any(one.gain is None for one in judgements):
        return (
            "nothing proved faster, and not all could be measured in time: give a larger --budget"
        )
    return "what was predicted to be faster than the default did not prove so"


class _TooLateError(Exception):
    """The time for fitting is up."""


@dataclass
class _Tuning:
    """``ends_s`` are the times at which the phases ended, ``notes`` what is to be told of them."""

    settings: TuneSettings
    installation: Installation
    target: Target
    backend: NativeBackend
    measuring: Backend
    tell: Tell
    folder: Path
    ends_s: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(self) -> TuneResult:
        interposed = self._prepared()
        report = self._measure()
        self._ended("measure")
        dataset = read_parquet(self.folder / "dataset")
        began = time.monotonic(), time.process_time()
        bundle = self._fitted(dataset)
        self._ended("fit")
        self.settings = replace(self.settings, slowdown=slowdown(*began))

        tracer, watch_s, default_seen = self._watch_default(bundle)
        self._ended("prepare")
        confirmed = self._confirm(bundle, default_seen, self.settings.left_s() - watch_s)
        self._ended("verify")
        bundle, kept = self._kept(bundle, confirmed.judgements, default_seen)
        written = self._written(self.job.merged(kept), interposed)
        tuned_seen = self._watch_tuned(bundle, written, tracer, watch_s)
        self._ended("watch")
        rows = self.job.rows(kept, bundle, confirmed.judgements, default_seen, tuned_seen)
        selector = selector_for(bundle, self.target, cores=AS_MEASURED)
        shown = bundle_page(selector, self.target.programs)
        page = self.folder / "report.html"
        with whole(page) as temporary:
            temporary.write_text(bundle_file(bundle, shown), encoding="utf-8")
        self._ended("page")
        return TuneResult(
            mpirun=self.installation.mpirun,
            shape=self.job.shape,
            context=str(bundle.context),
            rows=tuple(rows),
            gain=shown.gains.summary,
            dataset=self.folder / "dataset",
            bundle=self.folder / "bundle",
            page=page,
            written=written,
            report=report,
            wall_s=self.settings.spent_s(),
            timed_s=report.timed_s + confirmed.timed_s,
            phases_s=dict(
                zip(self.ends_s, np.diff([0.0, *self.ends_s.values()]).tolist(), strict=True)
            ),
            notes=(*self.notes, *written.written.notes, *self._user_settings(written)),
            cores_shared=bundle.context.cores_shared,
            unproven=_unproven(rows, confirmed.judgements),
        )

    @property
    def job(self) -> TunedJob:
        campaign = self.settings.campaign
        shape, sizes = campaign.shapes[0], campaign.msizes_bytes
        return TunedJob(shape, sizes, self.target.mpi.at(self.installation.release))

    def _ended(self, phase: str) -> None:
        self.ends_s[phase] = self.settings.spent_s()

    def _prepared(self) -> Path | None:
        """Compile what is measured with; return libcolltune where it is to be used."""
        learner_entry(self.settings.learner)
        with self.settings.told_of_time():
            self.backend.program()
            interposed = self.backend.interposed() if self.target.form.interposed else None
        self._ended("start")
        return interposed

    def _measure(self) -> CampaignReport:
        budget_s = self.settings.measuring_s()
        campaign = self.settings.campaign.changed(total_s=budget_s)
        spent_s = self.settings.spent_s()
        try:
            return self._campaign(campaign, self.measuring, "measuring", _OVERRUN * budget_s)
        except BudgetError as error:
            if "enough_s" not in error.values:
                raise
            total_s = spent_s + self.settings.total_for_s(error.values["enough_s"])
            raise say("not-all-stages", why=error, enough_s=total_s) from None

    def _campaign(
        self, campaign: Campaign, backend: Backend, stage: str, within_s: float
    ) -> CampaignReport:
        with process.ending_by(time.monotonic() + within_s):
            return run_campaign(
                campaign,
                backend,
                self.folder / "dataset",
                seed=self.settings.seed,
                resume=False,
                progress=lambda progress: self.tell(stage, progress),
            )

    def _fitted(self, dataset: PerformanceDataset) -> Bundle:
        """Fit as asked, or in time by the quickest learner, with a note of that."""
        asked = self.settings.learner
        self.notes += filter(None, [self.installation.root_note()])
        for learner in (asked, *([_QUICK] if asked == AUTO else [])):
            share = _FIT_SHARE if learner == AUTO else 1.0
            with suppress(_TooLateError):
                bundle = self._fitted_within(dataset, learner, share * self.settings.left_s())
                if learner != asked:
                    self.notes.append(
                        f"fitted by {_QUICK}, because there was no time for {PREFERRED}"
                    )
                left_out = bundle.left_out.items()
                self.notes += [f"{what} is left out: {why}" for what, why in left_out]
                bundle.save(self.folder / "bundle")
                return bundle
        what = f"fitting by {learner} of the measurements in {self.settings.out}"
        raise say("budget-ended", budget_s=self.settings.campaign.total_s, what=what)

    def _fitted_within(self, dataset: PerformanceDataset, learner: str, within_s: float) -> Bundle:
        began_s = before_s = self.settings.spent_s()
        ends_s, longest_s = began_s + within_s, 0.0
        # it leaves its time to the quickest one as soon as it is seen to need far more
        tried_s = _TRIED_SHARE * within_s if learner == AUTO else math.inf

        def tell(done: int, total: int, what: str) -> None:
            nonlocal longest_s, before_s
            self.tell("fitting", what)
            now_s = self.settings.spent_s()
            longest_s, before_s = max(longest_s, now_s - before_s), now_s
            needs_s = (now_s - began_s) * total / done if done else 0.0
            hopeless = now_s - began_s >= tried_s and needs_s > _HOPELESS * within_s
            if done < total and (hopeless or now_s + longest_s >= ends_s):
                raise _TooLateError

        return fit(dataset, learner, progress=tell)

    def _confirm(self, bundle: Bundle, default_seen: Watched, budget_s: float) -> CampaignReport:
        """Measure what the bundle proposes beside the default, within `budget_s`."""
        campaign, job = self.settings.campaign, self.job
        asked = [
            ToConfirm(c, job.shape, campaign.msizes_of(c))
            for c in bundle.collectives
            if job.shape.nprocs > 1
        ]
        found = [
            # what is not measured will be withdrawn, however certain its prediction is
            replace(contest, followed=False, alike=job.alike(contest, default_seen))
            for contest in proposals(bundle, self.backend, asked, self.target.programs)
            if contest.gain > 1
            and not job.same(contest.candidates[0], [contest.instance], default_seen)
        ]
        self.tell("verifying", _ALTERNATING)
        if not found or budget_s <= 0:
            return CampaignReport()
        plan = confirming(campaign.changed(total_s=budget_s), tuple(found))
        try:
            within_s = budget_s - process.GRACE_S
            return self._campaign(plan, self.backend, "verifying", within_s)
        except (BudgetError, ProgramError) as error:
            self.notes.append(f"no decision could be measured again: {error}")
            return CampaignReport()

    def _kept(
        self, bundle: Bundle, judgements: Sequence[ContestState], default_seen: Watched
    ) -> tuple[Bundle, DecisionTable]:
        """Revise the bundle by what was measured, save it, and return what it decides then."""

        def revised(records: Sequence[Confirmation]) -> tuple[Bundle, DecisionTable]:
            changed = bundle.with_confirmations(records)
            selector = selector_for(changed, self.target, cores=AS_MEASURED)
            table = table_for(selector, self.job.shape, self.target)
            return changed, self.job.without_same(table, default_seen)

        now_utc = datetime.now(UTC).isoformat(timespec="seconds")
        bundle, table = revised(confirmations(judgements, now_utc))
        bundle, table = revised(self.job.unproven(table, now_utc))
        bundle.save(self.folder / "bundle")
        return bundle, table

    def _written(self, table: DecisionTable, interposed: Path | None) -> WrittenConfiguration:
        form = self.target.form
        kind = form.name.rpartition("-")[2]
        end = kind if kind in ("json", "table") else "rules"
        path = self.folder / f"{form.library}.{end}"
        return write_rendered(rendered(self.target, table), path, interposed)

    def _user_settings(self, written: WrittenConfiguration) -> list[str]:
        """Return a note if the user decides himself on what the file would decide."""
        theirs = self.target.mpi.in_effect(os.environ, self.installation)
        reason = self.target.mpi.user_overrides(written.environment, theirs).reason
        return [f"your own settings override the file: {reason}"] if reason else []

    def _watch_default(self, bundle: Bundle) -> tuple[Path | None, float, Watched]:
        """Return the call tracer, how long a look through it takes, and what runs by default."""
        self.tell("watching", "inspecting which algorithms run by default")
        with process.ending_by(self.settings.moment(_WATCH_SHARE)):
            try:
                tracer = insist_preloadable(trace.build(self.installation, cache_folder()))
            except ColltuneError as error:
                self.notes.append(f"the algorithms that ran could not be inspected: {error}")
                return None, 0.0, {}
            began = time.monotonic()
            seen = self._watch(bundle, {}, tracer, ends=True)
        return tracer, time.monotonic() - began, seen

    def _watch_tuned(
        self, bundle: Bundle, written: WrittenConfiguration, tracer: Path | None, watch_s: float
    ) -> Watched:
        """Return what runs with the file; nothing where it changes nothing, or the time is up."""
        chosen = (interval.configuration for _, interval in self.job.intervals(written.table))
        if tracer is None or all(configuration.is_default for configuration in chosen):
            return {}
        if self.settings.left_s() < watch_s:
            self.notes.append(
                "the algorithms that run with the file were not inspected, because there was "
                "no time left"
            )
            return {}
        self.tell("watching", "inspecting which algorithms run with the file")
        seen = self._watch(bundle, written.environment, tracer)
        if not seen:
            self.notes.append(
                "the algorithms that run with the file could not be inspected in time"
            )
        return seen

    def _watch(
        self, bundle: Bundle, environment: Mapping[str, str], tracer: Path, *, ends: bool = False
    ) -> Watched:
        """Return which function runs for each measured instance under `environment`.

        With `ends` also at the ends of the ranges around them, as far as these fit into memory.
        """
        campaign, job = self.settings.campaign, self.job
        instances = [
            Instance(c, job.shape, m)
            for c in bundle.collectives
            for m in (*job.msizes_bytes, *(job.ends(campaign.msizes_of(c)) if ends else ()))
            if m in job.msizes_bytes
            or m * (job.shape.nprocs if c.has_block_per_rank else 1) <= campaign.max_buffer_bytes
        ]
        return watch_algorithms(self.backend, job.shape, instances, environment, tracer)
