"""What a run does for one MPI release: drift, candidate, contest, promotion, next campaign."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from colltune.errors import BundleError, ColltuneError, DataError, LibraryError, RegistryConflict
from colltune.evaluation.folds import Source
from colltune.models.bundle import Bundle
from colltune.models.confirmations import upheld
from colltune.models.fitting import Progress, fit_cells
from colltune.models.guard import Guard
from colltune.registry import Action, Registry
from colltune.registry.registry import NOTHING
from colltune.retraining import backfill
from colltune.retraining.arrivals import Arrived
from colltune.retraining.backfill import confirmed
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
from colltune.retraining.site_file import Outcome, Site
from colltune.selector.demand import read_demand

_NOTE_CHARACTERS = 2000
Phase = Callable[[str], AbstractContextManager[Progress]]


@dataclass(frozen=True, eq=False)
class SlotResult:
    """What became of one slot.

    ``seen`` are the tokens of the launches that the last run saw, as they came in;
    ``judged_bundle`` was in force when the run began, ``in_force`` is now; ``new`` counts
    measurements that the last run had not seen; ``failure`` is set where the outcome is failed.
    """

    slot: str
    outcome: Outcome
    reason: str
    arrived: Arrived
    settings: dict[str, Any]
    seen: tuple[str, ...] = ()
    new: int = 0
    judged_bundle: str | None = None
    in_force: str | None = None
    candidate: str | None = None
    contest: Contest | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    drift: Drift | None = None
    campaign: dict[str, Any] = field(default_factory=dict)
    confirmed: dict[str, Any] = field(default_factory=dict)
    failure: ColltuneError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything, JSON-able."""
        return {
            "outcome": self.outcome.value,
            "reason": self.reason,
            "measurements": len(self.arrived.dataset),
            "new_measurements": self.new,
            "was_in_force": self.judged_bundle,
            "in_force": self.in_force,
            "candidate": self.candidate,
            "comparison": None if self.contest is None else self.contest.as_dict(),
            "changes": self.changes,
            "drift": None if self.drift is None else self.drift.as_dict(),
            "campaign": self.campaign,
            "confirmed": self.confirmed,
        }

    @property
    def ended(self) -> bool:
        """Whether the measurements were learned from, whatever came of it."""
        return self.outcome is not Outcome.FAILED and self.candidate is not None

    def record(self) -> SlotRecord:
        """Return what the next run has to know."""
        facts = {name: value for name, value in self.as_dict().items() if name != "in_force"}
        order = self.arrived.order(self.seen)
        tokens = tuple(self.arrived.tokens[launch] for launch in order)
        return SlotRecord(self.arrived.digest, self.settings, self.in_force, tokens, facts)


@dataclass(frozen=True)
class SlotRun:
    """What a run needs to retrain a slot."""

    site: Site
    registry: Registry
    lease: Lease
    known: RetrainRecord
    phase: Phase

    def run(self, slot: str, arrived: Arrived) -> SlotResult:
        """Retrain `slot`; what goes wrong ends this slot, not the run."""
        last = self.known.slots.get(slot)
        seen = () if last is None else last.tokens
        launches = arrived.without(frozenset(seen))
        new = sum(arrived.dataset.frame["launch"].astype(str).isin(list(launches)))
        event = self.registry.current().get(slot)
        in_force = None if event is None else event.bundle_id
        start = SlotResult(
            slot,
            Outcome.FAILED,
            "",
            arrived,
            self.site.settings(),
            seen,
            int(new),
            in_force,
            in_force,
        )
        try:
            return self._with_campaign(self._confirmed(self._retrained(start, last)))
        except (BundleError, DataError, LibraryError) as error:
            return replace(start, reason=str(error), failure=error)

    def _retrained(self, start: SlotResult, last: SlotRecord | None) -> SlotResult:
        bundle = self._in_force(start)
        if self._same(start, last) and last is not None and last.data == start.arrived.digest:
            reason = "no measurements came in since the last run"
            return replace(start, outcome=Outcome.NOTHING_NEW, reason=reason)
        knows = None if bundle is None else training_launches(bundle, start.arrived, self.known)
        if bundle is not None and knows is not None:
            start = replace(start, drift=self._drift(start, bundle, knows, last))
        if self._same(start, last) and 0 < start.new < self.site.min_new:
            reason = f"{start.new} new measurements came in; {self.site.min_new} are waited for"
            return replace(start, outcome=Outcome.NOTHING_NEW, reason=reason)
        source = self._source(start.arrived)
        with self.phase(f"{start.slot}: fitting") as progress:
            candidate = self._fitted(source, progress)
        if bundle is not None:
            records = upheld(bundle.confirmations, start.arrived.dataset)
            candidate = candidate.with_confirmations(records)
        if candidate.id == start.in_force:
            reason = "the bundle in force was fitted to these very measurements"
            return replace(
                start, outcome=Outcome.NOTHING_NEW, reason=reason, candidate=candidate.id
            )
        self.registry.add(candidate)
        start = replace(start, candidate=candidate.id)
        if bundle is not None:
            start = replace(start, changes=decision_changes(bundle, candidate))
        return self._decided(start, source, candidate, bundle, knows)

    def _in_force(self, start: SlotResult) -> Bundle | None:
        if start.in_force is None:
            return None
        bundle = self.registry.load(start.in_force)
        theirs, ours = bundle.context, start.arrived.dataset.context
        if theirs.machine != ours.machine:
            raise BundleError(
                f"{self.registry}: {bundle.id[:12]} is in force, a bundle of {theirs}, and the"
                f" measurements are of {ours}; each machine has its own registry"
            )
        return bundle

    def _same(self, start: SlotResult, last: SlotRecord | None) -> bool:
        """Tell whether settings and bundle in force are as the last run left them."""
        if last is None:
            return start.in_force is None
        return dict(last.settings) == start.settings and last.in_force == start.in_force

    def _drift(
        self, start: SlotResult, bundle: Bundle, knows: TrainingLaunches, last: SlotRecord | None
    ) -> Drift:
        arrived = start.arrived
        with self.phase(f"{start.slot}: looking for drift"):
            return drift(
                bundle,
                arrived.dataset,
                arrived.allocation_of,
                knows.launches,
                arrived.order(() if last is None else last.tokens),
                self.site.drift,
            )

    def _source(self, arrived: Arrived) -> Source:
        objective = self.site.objective
        return Measurements(
            arrived.dataset, arrived.allocation_of, objective=objective, judged_by=objective
        )

    def _fitted(self, source: Source, progress: Progress) -> Bundle:
        matrices = source.matrices
        if not matrices:
            raise DataError("no measurement is usable: none has status ok; measure again")
        return fit_cells(
            source.dataset.context,
            matrices,
            self.site.learner,
            jobs=self.site.workers.jobs,
            progress=progress,
        )

    def _decided(
        self,
        start: SlotResult,
        source: Source,
        candidate: Bundle,
        bundle: Bundle | None,
        knows: TrainingLaunches | None,
    ) -> SlotResult:
        try:
            found = self._contest(start, source, bundle, knows)
        except DataError as error:
            reason = f"it cannot be judged: {error}"
            return replace(start, outcome=Outcome.KEPT, reason=reason)
        verdict = judge(found, self.site.thresholds, candidate, bundle)
        start = replace(start, contest=found)
        if self.site.thresholds.shadow:
            would = "would be promoted" if verdict.promote else "would be kept back"
            reason = f"compared only; it {would}: {verdict.text}"
            return replace(start, outcome=Outcome.SHADOW, reason=reason)
        if not verdict.promote:
            return replace(start, outcome=Outcome.KEPT, reason=verdict.text)
        return self._promoted(start, verdict)

    def _contest(
        self,
        start: SlotResult,
        source: Source,
        bundle: Bundle | None,
        knows: TrainingLaunches | None,
    ) -> Contest:
        site = self.site
        guard = Guard(caution=site.examination.caution)
        parts = Parts(site.examination.held_out, site.examination.folds)
        of = Contestants(source, parts, site.learner, guard, site.workers.jobs)
        with self.phase(f"{start.slot}: comparing") as progress:
            if bundle is None or knows is None:
                return contest(of, None, "nothing was in force", progress)
            rival = judged(bundle, start.arrived, knows.launches, guard)
            how = "as it is" if rival.cells is None else f"fitted again to {knows.how}"
            return contest(of, rival, how, progress)

    def _promoted(self, start: SlotResult, verdict: PromotionVerdict) -> SlotResult:
        assert start.candidate is not None
        undone = self._undone(start.slot, start.candidate)
        if undone:
            return replace(start, outcome=Outcome.KEPT, reason=undone)
        self.lease.check()
        by = f"colltune site retrain on {socket.gethostname()}"
        note = verdict.text[:_NOTE_CHARACTERS]
        expected = start.in_force or NOTHING
        try:
            self.registry.promote(start.candidate, by=by, note=note, expected=expected)
        except RegistryConflict as error:
            return replace(start, outcome=Outcome.KEPT, reason=str(error))
        return replace(
            start, outcome=Outcome.PROMOTED, reason=verdict.text, in_force=start.candidate
        )

    def _undone(self, slot: str, candidate: str) -> str:
        """Return that someone took this very bundle out of force, if they did."""
        for event in reversed(self.registry.history(slot)):
            if event.action is Action.PROMOTE and event.bundle_id == candidate:
                break
            if event.action is Action.ROLLBACK and event.previous_id == candidate:
                return (
                    f"{event.by} rolled this very bundle back at {event.at_utc}; new measurements"
                    " make another one, `colltune site bundles promote` brings it back"
                )
        return ""

    def _confirmed(self, result: SlotResult) -> SlotResult:
        """Measure what jobs asked for most of the bundle in force, and promote what that makes."""
        wishes = self.site.backfill
        ends = wishes is None or not wishes.confirm_s or self.site.thresholds.shadow
        if ends or wishes is None or result.in_force is None:
            return result
        try:
            with self.phase(f"{result.slot}: confirming"):
                bundle, facts = confirmed(self.registry.load(result.in_force), wishes)
            if bundle.id == result.in_force:
                return replace(result, confirmed=facts)
            self.registry.add(bundle)
            self.lease.check()
            by = f"colltune site retrain on {socket.gethostname()}"
            note = f"{facts['confirmed']} decisions confirmed, {facts['withdrawn']} withdrawn"
            self.registry.promote(bundle.id, by=by, note=note, expected=result.in_force)
        except ColltuneError as error:
            # what was promoted before stays so
            return replace(result, confirmed={"problem": str(error)})
        return replace(result, in_force=bundle.id, confirmed=facts)

    def _with_campaign(self, result: SlotResult) -> SlotResult:
        """Plan the next campaign from what is in force now."""
        wishes = self.site.backfill
        if wishes is None or result.in_force is None:
            return result
        path = backfill.path_for(wishes.campaigns, result.arrived.dataset.context)
        try:
            bundle = self.registry.load(result.in_force)
            demand = read_demand(wishes.demand)
            guard = Guard(caution=self.site.examination.caution)
            measured = result.arrived.dataset.shapes()
            cells = backfill.wanted(bundle, demand, guard, measured)
            planned = backfill.plan(bundle, cells, wishes.budget_s, wishes.launch_s)
            if planned is None:
                backfill.remove(path)
                return replace(result, campaign={"wanted": []})
            backfill.write(planned.campaign, path)
        except ColltuneError as error:
            # the campaign is a by-product: what was promoted stays so
            return replace(result, campaign={"problem": str(error)})
        return replace(result, campaign={"path": str(path), **planned.as_dict()})
