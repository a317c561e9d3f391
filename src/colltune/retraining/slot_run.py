"""What a run does for one MPI release: drift, candidate, contest, promotion, next campaign."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from colltune.dataset.profile import Profile
from colltune.errors import (
    BundleError,
    ColltuneError,
    DataError,
    LibraryError,
    RegistryConflict,
    say,
)
from colltune.evaluation.folds import FoldSource
from colltune.json_text import plain
from colltune.models.bundle import Bundle
from colltune.models.confirmations import upheld
from colltune.models.fitting import Progress, fit_cells
from colltune.models.guard import Guard
from colltune.production.payback import usage
from colltune.registry import Action, Registry
from colltune.registry.registry import NOTHING
from colltune.retraining import backfill
from colltune.retraining.arrivals import Arrived
from colltune.retraining.contest import (
    Contest,
    Contestants,
    Measurements,
    Parts,
    PromotionVerdict,
    contest,
    decision_changes,
    judge,
    judged,
)
from colltune.retraining.drift import Drift, drift
from colltune.retraining.lease import Lease
from colltune.retraining.record import (
    RetrainRecord,
    SlotRecord,
    TrainingLaunches,
    training_launches,
)
from colltune.retraining.site_file import RunOutcome, Site
from colltune.selector.demand import read_demand
from colltune.text import UNPRINTED, computed, counted

_NOTE_CHARACTERS = 2000
_USED_S = 90 * 86400.0
"""What jobs did before is not what they do."""
Phase = Callable[[str], AbstractContextManager[Progress]]


def _by() -> str:
    return f"colltune site retrain on {socket.gethostname()}"


@dataclass(frozen=True, eq=False)
class SlotResult:
    """What became of one slot.

    ``seen`` are the tokens of the launches that the last run saw, as they came in; ``failure`` is
    set where the outcome is failed.
    """

    slot: str = field(metadata=UNPRINTED)
    outcome: RunOutcome
    """promoted, trial, kept, shadow, nothing_new or failed"""
    reason: str
    """why"""
    arrived: Arrived = field(metadata=UNPRINTED)
    settings: dict[str, Any] = field(metadata=UNPRINTED)
    seen: tuple[str, ...] = field(default=(), metadata=UNPRINTED)
    new_measurements: int = 0
    """measurements that the last run had not seen"""
    was_in_force: str | None = None
    """id of the bundle that was in force when the run began"""
    in_force: str | None = None
    """id of the bundle that is now"""
    candidate: str | None = None
    """id of the bundle that was fitted"""
    unfitted: dict[str, str] = field(default_factory=dict)
    """what the candidate has no models of, and why"""
    comparison: Contest | None = None
    """how the candidate and the bundle in force decide"""
    changes: dict[str, Any] = field(default_factory=dict)
    """decisions that the candidate changes"""
    drift: Drift | None = None
    """whether runtimes changed"""
    campaign: dict[str, Any] = field(default_factory=dict)
    """the next campaign, or why there is none"""
    confirmed: dict[str, Any] = field(default_factory=dict)
    """what was measured beside the default, or why nothing was"""
    contested: int = 0
    """measurements at the first contest with the bundle in force"""
    failure: ColltuneError | None = field(default=None, metadata=UNPRINTED)

    @computed
    def measurements(self) -> int:
        """All measurements."""
        return len(self.arrived.dataset)

    @property
    def ended(self) -> bool:
        """Whether the measurements were learned from, whatever came of it."""
        return self.outcome is not RunOutcome.FAILED and self.candidate is not None

    def record(self) -> SlotRecord:
        """Return what the next run has to know."""
        facts = {name: value for name, value in plain(self).items() if name != "in_force"}
        order = self.arrived.order(self.seen)
        tokens = tuple(self.arrived.tokens[launch] for launch in order)
        return SlotRecord(self.arrived.digest, self.settings, self.in_force, tokens, facts)


@dataclass(frozen=True)
class SlotRun:
    """What a run needs to retrain a slot, and what arrived for it."""

    site: Site
    registry: Registry
    lease: Lease
    known: RetrainRecord
    phase: Phase
    slot: str
    arrived: Arrived

    @property
    def _last(self) -> SlotRecord | None:
        return self.known.slots.get(self.slot)

    @property
    def _guard(self) -> Guard:
        return Guard(caution=self.site.examination.caution)

    @property
    def _usage(self) -> Profile | None:
        """What production jobs spent in collectives lately, where that is recorded."""
        production = self.site.production
        if not production.record:
            return None
        return usage(production, self.slot, time.time() - _USED_S)

    def run(self) -> SlotResult:
        """Retrain the slot; what goes wrong ends this slot, not the run."""
        arrived = self.arrived
        seen = () if self._last is None else self._last.tokens
        launches = arrived.without(frozenset(seen))
        new = int(arrived.dataset.frame["launch"].astype(str).isin(list(launches)).sum())
        event = self.registry.current().get(self.slot)
        in_force = None if event is None else event.bundle_id
        start = SlotResult(
            self.slot,
            RunOutcome.FAILED,
            "",
            arrived,
            self.site.settings(),
            seen,
            new,
            was_in_force=in_force,
            in_force=in_force,
            contested=self._contested(in_force),
        )
        try:
            return self._with_campaign(self._confirmed(self._retrained(start)))
        except (BundleError, DataError, LibraryError) as error:
            return replace(start, reason=str(error), failure=error)

    def _retrained(self, start: SlotResult) -> SlotResult:
        last, arrived = self._last, self.arrived
        bundle = self._in_force(start)
        is_same = start.in_force is None
        if last is not None:
            # settings and bundle in force are as the last run left them
            is_same = dict(last.settings) == start.settings and last.in_force == start.in_force
        if is_same and last is not None and last.data == arrived.digest:
            reason = "no measurements came in since the last run"
            return replace(start, outcome=RunOutcome.NOTHING_NEW, reason=reason)
        knows = None
        if bundle is not None:
            knows = training_launches(bundle, arrived, self.known)
            with self.phase(f"{self.slot}: looking for drift"):
                drifted = drift(
                    bundle,
                    arrived.comparable(knows.launches),
                    arrived.allocation_of,
                    knows.launches,
                    arrived.order(start.seen),
                    self.site.drift,
                )
            start = replace(start, drift=drifted)
        if is_same and 0 < start.new_measurements < self.site.min_new:
            reason = (
                f"there are {counted(start.new_measurements, 'new measurement')}, fewer than the "
                f"minimum of {self.site.min_new}"
            )
            return replace(start, outcome=RunOutcome.NOTHING_NEW, reason=reason)
        trial = self.registry.trials().get(self.slot)
        if trial is not None and not self.site.thresholds.shadow:
            reason = (
                f"{trial.bundle_id[:12]} is on trial with {trial.share or 0:.0%} of the jobs since "
                f"{trial.at_utc}. The new measurements are fitted when the trial has ended."
            )
            return replace(start, outcome=RunOutcome.TRIAL, reason=reason)
        objective = self.site.objective
        source = Measurements(
            arrived.fitted, arrived.allocation_of, objective=objective, judged_by=objective
        )
        candidate = self._fitted(source)
        if bundle is not None:
            records = upheld(bundle.confirmations, arrived.dataset)
            candidate = candidate.with_confirmations(records)
        start = replace(start, candidate=candidate.id, unfitted=candidate.left_out)
        if candidate.id == start.in_force:
            reason = "the bundle in force was fitted to these measurements already"
            return replace(start, outcome=RunOutcome.NOTHING_NEW, reason=reason)
        self.registry.add(candidate)
        if bundle is not None:
            start = replace(start, changes=decision_changes(bundle, candidate))
        try:
            found = self._contest(replace(source, programs=self.site.programs), bundle, knows)
        except DataError as error:
            return replace(start, outcome=RunOutcome.KEPT, reason=f"it cannot be judged: {error}")
        found = replace(found, attempt=self._attempt(start))
        verdict = judge(found, self.site.thresholds, candidate, bundle)
        return self._decided(replace(start, comparison=found), candidate.id, verdict)

    def _contested(self, in_force: str | None) -> int:
        """Return with how many measurements the bundle in force was first contested."""
        last = self._last
        if (
            last is not None
            and last.in_force == in_force
            and last.facts.get("outcome") != "promoted"
        ):
            return int(last.facts.get("contested", 0)) or len(self.arrived.dataset)
        return len(self.arrived.dataset)

    def _attempt(self, start: SlotResult) -> int:
        """Return the how manieth contest it is with the bundle in force."""
        if self.site.production.record or not start.contested:
            return 1
        return 1 + max(0, int(math.log2(len(self.arrived.dataset) / start.contested)))

    def _in_force(self, start: SlotResult) -> Bundle | None:
        if start.in_force is None:
            return None
        bundle = self.registry.load(start.in_force)
        self.site.insist_own(bundle)
        return bundle

    def _fitted(self, source: FoldSource) -> Bundle:
        with self.phase(f"{self.slot}: fitting") as progress:
            matrices = source.matrices
            if not matrices:
                raise say("nothing-usable", what="the data")
            return fit_cells(
                source.dataset.context,
                matrices,
                self.site.learner,
                jobs=self.site.workers.jobs,
                progress=progress,
            )

    def _contest(
        self, source: FoldSource, bundle: Bundle | None, knows: TrainingLaunches | None
    ) -> Contest:
        site = self.site
        parts = Parts(site.examination.held_out, site.examination.folds)
        of = Contestants(source, parts, site.learner, self._guard, site.workers.jobs)
        with self.phase(f"{self.slot}: comparing") as progress:
            if bundle is None or knows is None:
                return contest(of, None, "no bundle was in force", progress)
            rival = judged(bundle, self.arrived, knows.launches, self._guard, source.programs)
            how = "as it is" if rival.cells is None else f"fitted again to {knows.how}"
            return contest(of, rival, how, progress)

    def _decided(self, start: SlotResult, candidate: str, verdict: PromotionVerdict) -> SlotResult:
        if self.site.thresholds.shadow:
            would = "would be promoted" if verdict.promote else "would be kept back"
            reason = f"compared only; it {would}: {verdict.text}"
            return replace(start, outcome=RunOutcome.SHADOW, reason=reason)
        against = self._undone(candidate) if verdict.promote else verdict.text
        if not against:
            try:
                if start.in_force and self.site.production.record:
                    return self._tried(start, candidate, verdict)
                self._promote(candidate, verdict.text, start.in_force or NOTHING)
            except RegistryConflict as error:
                against = str(error)
        if against:
            return replace(start, outcome=RunOutcome.KEPT, reason=against)
        return replace(start, outcome=RunOutcome.PROMOTED, reason=verdict.text, in_force=candidate)

    def _tried(self, start: SlotResult, candidate: str, verdict: PromotionVerdict) -> SlotResult:
        """Begin a trial: production decides whether the candidate comes into force."""
        self.lease.check()
        share, note = self.site.production.steps[0], verdict.text[:_NOTE_CHARACTERS]
        self.registry.step(candidate, share, by=_by(), note=note, expected=NOTHING)
        reason = f"on trial with {share:.0%} of the jobs: {verdict.text}"
        return replace(start, outcome=RunOutcome.TRIAL, reason=reason)

    def _promote(self, bundle_id: str, note: str, expected: str) -> None:
        self.lease.check()
        self.registry.promote(bundle_id, by=_by(), note=note[:_NOTE_CHARACTERS], expected=expected)

    def _undone(self, candidate: str) -> str:
        """Return that this very bundle was taken out of force, or its trial ended, if so."""
        for event in reversed(self.registry.history(self.slot)):
            if event.action is Action.PROMOTE and event.bundle_id == candidate:
                break
            if event.action is Action.STOP and event.bundle_id == candidate:
                return (
                    f"{event.by} ended its trial at {event.at_utc}: {event.note or 'no note'}. New "
                    "measurements make another bundle; `colltune site bundles promote --by-steps` "
                    "tries this one again."
                )
            if event.action is Action.ROLLBACK and event.previous_id == candidate:
                return (
                    f"{event.by} rolled this bundle back at {event.at_utc}. New measurements "
                    "make another one; `colltune site bundles promote` brings this one back."
                )
        return ""

    def _confirmed(self, result: SlotResult) -> SlotResult:
        """Measure what jobs asked for most of the bundle in force, and promote what that makes."""
        wishes = self.site.backfill
        if wishes is None or result.in_force is None:
            return result
        if not wishes.confirm_s or self.site.thresholds.shadow:
            return result
        if self.slot in self.registry.trials():
            # a revision of the bundle in force would end the trial
            return result
        try:
            old = self.registry.load(result.in_force)
            with self.phase(f"{self.slot}: confirming"):
                bundle, facts = backfill.confirmed(old, wishes, self.site.programs, self._usage)
            if bundle.id != result.in_force:
                self.registry.add(bundle)
                note = (
                    f"{counted(facts['confirmed'], 'decision')} confirmed, {facts['withdrawn']} "
                    "withdrawn"
                )
                self._promote(bundle.id, note, result.in_force)
        except ColltuneError as error:
            # what was promoted before stays so
            return replace(result, confirmed={"problem": str(error)})
        return replace(result, in_force=bundle.id, confirmed=facts)

    def _with_campaign(self, result: SlotResult) -> SlotResult:
        """Plan the next campaign from what is in force now."""
        wishes, dataset = self.site.backfill, self.arrived.dataset
        if wishes is None or result.in_force is None:
            return result
        path = backfill.path_for(wishes.campaigns, dataset.context)
        try:
            bundle = self.registry.load(result.in_force)
            demand = read_demand(wishes.demand)
            cells = backfill.wanted(
                bundle, demand, self._guard, dataset.shapes(), self._usage, self.site.programs
            )
            planned = backfill.plan(
                bundle, cells, wishes.budget_s, wishes.launch_s, self.site.programs
            )
            if planned is None:
                backfill.remove(path)
                return replace(result, campaign={"wanted": []})
            backfill.write(planned.campaign, path)
        except ColltuneError as error:
            # the campaign is a by-product: what was promoted stays so
            return replace(result, campaign={"problem": str(error)})
        return replace(result, campaign={"path": str(path), **planned.as_dict()})
