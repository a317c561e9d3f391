"""What the judgement remembers: takes in summaries, job by job, in the order of their receipt.

Kept are JSON values under these keys of the store:

``cells/SLOT/COLLECTIVE/NODES/PPN``
    by size and configuration (``1024|ID``) the `Evidence` of a decision, who used it, and its
    node-hours by month;
``strata/SLOT/SHAPE/PROGRAM``
    by collective, layout and size the latest jobs, which the next one is compared with;
``slots/SLOT``
    the trial, the level of what the library decides itself, and jobs by arm;
``judged``
    the version of the format, and counts of the whole site.

Format history
--------------
1. As above, each value with the fields that this module gives it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

from colltune.dataset.profile import Kind
from colltune.errors import DataError
from colltune.production.arms import Arm
from colltune.production.evidence import Difference, Evidence, Level, Neighbours
from colltune.production.observations import (
    Choice,
    Decisions,
    Observed,
    Row,
    group_of,
    is_own,
    observed,
)
from colltune.production.settings import Production
from colltune.production.summary import Given, Summary
from colltune.registry import Event

FORMAT_VERSION = 1
CELLS, STRATA, SLOTS, JUDGED = "cells/", "strata/", "slots/", "judged"
REST_DAYS = 30
"""What is compared with each other lies no further apart."""
_DAY_S = 86400.0
_FEW, _REFERENCE = 4, 16
_MOST_LABELS, _MOST_SHAPES, _MOST_BUNDLES, _MOST_DRIFTS = 4, 64, 20, 20
_BATCH_JOBS = 20
_LEAST_BATCH_S, _MOST_BATCH_S, _BATCHES = 300.0, 6 * 3600.0, 100
_LARGEST_RESIDUAL = 0.7
SILENT_RATIOS = (1.5, 2.0, 4.0)
"""Times as many jobs that report nothing: what the test of them looks for."""


class Values(Protocol):
    """What `colltune.production.store.Judging` gives."""

    def get(self, keys: Iterable[str]) -> dict[str, Any]: ...
    def put(self, values: Mapping[str, Any]) -> None: ...


class Received(Protocol):
    """What `colltune.production.store.Stored` has."""

    @property
    def summary(self) -> Summary: ...
    @property
    def received(self) -> float: ...


def cell_key(slot: str, kind: Kind) -> str:
    """Return where the decisions of a shape's class are kept."""
    if kind.shape is None:
        raise ValueError("only calls whose layout is known are judged")
    nodes = 1 << (kind.shape.nodes.bit_length() - 1)
    return f"{CELLS}{slot}/{kind.collective}/{nodes}/{kind.shape.ppn}"


class Cases:
    """Takes in what jobs report; `close` keeps what came of it."""

    def __init__(
        self,
        values: Values,
        decisions: Decisions,
        settings: Production,
        in_force: Mapping[str, Event],
        trials: Mapping[str, Event],
    ) -> None:
        self._store, self._decisions, self._settings = values, decisions, settings
        self._in_force, self._trials = in_force, trials
        self._values: dict[str, Any] = {}
        self._left_out: Counter[str] = Counter()

    def take(self, received: Sequence[Received]) -> None:
        """Take in summaries, all of which are in memory."""
        told = [(one, observed(one.summary, self._decisions, self._left_out)) for one in received]
        slots = {
            slot
            for one in received
            for given in one.summary.given
            if (slot := self._decisions.slot(given.bundle_id)) is not None
        }
        keys = {f"{SLOTS}{slot}" for slot in slots | set(self._trials)} | {JUDGED}
        for found in (found for _, several in told for found in several):
            keys.add(found.strata)
            keys |= {cell_key(found.slot, row.kind) for row in found.rows}
        self._values |= self._store.get(keys - set(self._values))
        version = self.value(JUDGED).setdefault("format", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise DataError(
                f"what the judgement remembers has format {version}, but this colltune reads "
                f"{FORMAT_VERSION}. Upgrade colltune."
            )
        for one, several in told:
            self._count(one.summary)
            job = _Job(self, one.summary, one.received)
            for found in several:
                job.take(found)

    def close(self) -> None:
        judged = self.value(JUDGED)
        counts = Counter(judged.get("left_out", {}))
        counts.update(self._left_out)
        judged["left_out"] = dict(counts)
        self._store.put(self._values)
        self._left_out.clear()

    def value(self, key: str) -> Any:
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = {}
        return found

    @property
    def settings(self) -> Production:
        return self._settings

    def leave_out(self, reason: str) -> None:
        self._left_out[reason] += 1

    def choice(self, bundle_id: str, found: Observed, row: Row) -> Choice | None:
        return self._decisions.choice(bundle_id, found.shape, row.kind)

    def trial(self, slot: str) -> tuple[Event, str | None, dict[str, Any]] | None:
        """Return the trial of a slot, the bundle that it is compared with, and what is known."""
        step = self._trials.get(slot)
        if step is None:
            return None
        now = self._in_force.get(slot)
        reference = None if now is None else now.bundle_id
        known = self.value(f"{SLOTS}{slot}")
        of = [step.bundle_id, reference]
        if known.get("trial", {}).get("of") != of:
            known["trial"] = {"of": of}
        trial: dict[str, Any] = known["trial"]
        if trial.get("sequence") != step.sequence:
            trial |= {"sequence": step.sequence, "jobs": 0}
        return step, reference, trial

    def _count(self, summary: Summary) -> None:
        """Count a job by its arm, and test whether those of a trial fall silent more often."""
        judged = self.value(JUDGED)
        judged["jobs"] = judged.get("jobs", 0) + 1
        for given in summary.given:
            slot = self._decisions.slot(given.bundle_id)
            if slot is None:
                continue
            arms = self.value(f"{SLOTS}{slot}").setdefault("arms", {})
            counts = arms.pop(f"{given.arm} {given.bundle_id}", [0, 0, 0])
            arms[f"{given.arm} {given.bundle_id}"] = counts
            counts[0] += 1
            counts[1] += not summary.runs
            counts[2] += is_own(summary)
            while len(arms) > _MOST_BUNDLES:
                del arms[next(iter(arms))]
            self._count_trial(slot, given, is_silent=not summary.runs)

    def _count_trial(self, slot: str, given: Given, *, is_silent: bool) -> None:
        found = self.trial(slot)
        if found is None:
            return
        step, _, trial = found
        is_tried = given.arm is Arm.CANDIDATE and given.bundle_id == step.bundle_id
        trial["jobs"] += is_tried
        if is_silent and 0 < (share := step.share or 0.0) < 1:
            logs = trial.setdefault("silent", [0.0] * len(SILENT_RATIOS))
            for at, ratio in enumerate(SILENT_RATIOS):
                more = 1 - share + share * ratio
                logs[at] += math.log((ratio if is_tried else 1.0) / more)


class _Job:
    """One job, compared with those before it."""

    def __init__(self, cases: Cases, summary: Summary, received: float) -> None:
        self._cases, self._summary, self._received = cases, summary, received
        self._group = group_of(summary.job)
        self._month = utc(summary.ended)[:7]

    def take(self, found: Observed) -> None:
        strata = self._cases.value(found.strata)
        strata["day"] = int(self._received // _DAY_S)
        rows = strata.setdefault("rows", {})
        residuals: list[tuple[float, float]] = []
        tried: list[tuple[Difference, float]] = []
        for row in found.rows:
            choice = None
            if found.given.arm is not Arm.CONTROL:
                choice = self._cases.choice(found.given.bundle_id, found, row)
            if choice is not None:
                self._use(found, row, choice)
            if row.log_s is None:
                self._cases.leave_out("calls of a kind of which too few were timed")
                continue
            here = rows.setdefault(row.name, {})
            self._compare(found, row, row.log_s, choice, here)
            self._try(found, row, row.log_s, here, tried)
            if choice is None:
                residuals += self._residual(found.slot, row.log_s, row.process_s, here)
        self._tried(found.slot, tried)
        self._level(found.slot, residuals)

    def _use(self, found: Observed, row: Row, choice: Choice) -> None:
        """Note that calls were decided so."""
        cell = self._cell(found.slot, row, choice.configuration)
        arm, bundle_id = found.given.arm, found.given.bundle_id
        if choice.is_confirmed and cell.get("refuted") and bundle_id not in cell["refuted_in"]:
            # measured again since: production looks at it anew
            for name in ("evidence", "refuted", "refuted_in"):
                cell.pop(name, None)
        cell |= {"arm": arm.value, "bundle": bundle_id, "seen": int(self._received)}
        cell.setdefault("first", int(self._received))
        hours = row.process_s / found.shape.ppn / 3600
        months = cell.setdefault("hours", {})
        months[self._month] = months.get(self._month, 0.0) + hours
        shape, shapes = str(row.kind.shape), cell.setdefault("shapes", [])
        if shape not in shapes and len(shapes) < _MOST_SHAPES:
            shapes.append(shape)
        self._count(cell, arm)

    def _cell(self, slot: str, row: Row, configuration: str) -> dict[str, Any]:
        cells = self._cases.value(cell_key(slot, row.kind))
        found: dict[str, Any] = cells.setdefault(f"{row.kind.first_bytes}|{configuration}", {})
        return found

    def _count(self, cell: dict[str, Any], arm: Arm) -> None:
        jobs = cell.setdefault("jobs", {})
        jobs[arm.value] = jobs.get(arm.value, 0) + 1

    def _compare(
        self, found: Observed, row: Row, log_s: float, choice: Choice | None, here: dict[str, Any]
    ) -> None:
        """Compare jobs with a decision and those of the control group."""
        pairs = here.setdefault("pairs", {})
        if choice is not None:
            pairs[choice.configuration] = pairs.pop(choice.configuration, None)
            while len(pairs) > _MOST_LABELS:
                del pairs[next(iter(pairs))]
            self._next(found, row, log_s, choice.configuration, pairs)
        elif found.given.arm is Arm.CONTROL:
            for configuration in pairs:
                cell = self._cell(found.slot, row, configuration)
                self._count(cell, Arm.CONTROL)
                self._next(found, row, log_s, configuration, pairs)

    def _next(
        self, found: Observed, row: Row, log_s: float, configuration: str, pairs: dict[str, Any]
    ) -> None:
        settings, user = self._cases.settings, self._summary.user
        cell = self._cell(found.slot, row, configuration)
        evidence = Evidence(**cell.get("evidence", {}))
        if evidence.is_full_of(user, settings.user_share):
            self._cases.leave_out("jobs of a user who carries the most weight allowed")
            return
        neighbours = Neighbours(**pairs[configuration] or {})
        is_control = found.given.arm is Arm.CONTROL
        told = neighbours.take(log_s, is_rarer=is_control, group=self._group, user=user)
        pairs[configuration] = asdict(neighbours)
        if told is None:
            return
        # control less tuned: harm is what makes tuned jobs slower
        _note(evidence, told, -told.value)
        cell["evidence"] = asdict(evidence)
        is_slower = evidence.mean > math.log(settings.harm)
        if not told.is_same and is_slower and evidence.log_e(1) >= -math.log(settings.alpha):
            cell.setdefault("refuted", int(self._received))
            cell.setdefault("refuted_in", [cell["bundle"]])

    def _try(
        self,
        found: Observed,
        row: Row,
        log_s: float,
        here: dict[str, Any],
        tried: list[tuple[Difference, float]],
    ) -> None:
        """Compare jobs of a trial with those of the bundle in force, where these differ."""
        trial = self._cases.trial(found.slot)
        if trial is None:
            return
        step, reference, _ = trial
        given = found.given
        is_tried = given.arm is Arm.CANDIDATE and given.bundle_id == step.bundle_id
        is_other = given.arm is (Arm.CONTROL if reference is None else Arm.TUNED)
        if reference is not None and given.bundle_id != reference:
            is_other = False
        if not is_tried and not is_other:
            return
        old = None if reference is None else self._cases.choice(reference, found, row)
        new = self._cases.choice(step.bundle_id, found, row)
        if (old and old.configuration) == (new and new.configuration):
            return
        label = f"{step.bundle_id[:16]} {(reference or '')[:16]}"
        kept = here.get("trial", {})
        neighbours = Neighbours(**kept.get("jobs", {}) if kept.get("of") == label else {})
        user = self._summary.user
        told = neighbours.take(log_s, is_rarer=is_tried, group=self._group, user=user)
        here["trial"] = {"of": label, "jobs": asdict(neighbours)}
        if told is not None:
            tried.append((told, row.process_s))

    def _tried(self, slot: str, tried: Sequence[tuple[Difference, float]]) -> None:
        """Take in one difference per job of a trial, by the time that its calls take."""
        trial = self._cases.trial(slot)
        if trial is None or not tried:
            return
        evidence = Evidence(**trial[2].get("evidence", {}))
        for is_same in (True, False):
            some = [(told, weight) for told, weight in tried if told.is_same is is_same]
            total = math.fsum(weight for _, weight in some)
            if not total:
                continue
            value = math.fsum(told.value * weight for told, weight in some) / total
            users = {user for told, _ in some for user in told.users}
            share = self._cases.settings.user_share
            if any(evidence.is_full_of(user, share) for user in users):
                self._cases.leave_out("jobs of a user who carries the most weight allowed")
                continue
            told = Difference(value, is_same, some[0][0].group, tuple(sorted(users)))
            _note(evidence, told, value)
        trial[2]["evidence"] = asdict(evidence)

    def _residual(
        self, slot: str, log_s: float, weight: float, here: dict[str, Any]
    ) -> list[tuple[float, float]]:
        """Return by how much calls that the library decides differ from those before them."""
        level = self._cases.value(f"{SLOTS}{slot}").get("level", {}).get("now", 0.0)
        count, mean = here.get("usual", (0, 0.0))
        if count < _REFERENCE:
            here["usual"] = [count + 1, mean + (log_s - level - mean) / (count + 1)]
        return [(log_s - mean, weight)] if count >= _FEW else []

    def _level(self, slot: str, residuals: Sequence[tuple[float, float]]) -> None:
        """Add a job to the batch that tells the level, and look whether the level shifted."""
        total = math.fsum(weight for _, weight in residuals)
        if not total:
            return
        value = math.fsum(residual * weight for residual, weight in residuals) / total
        known = self._cases.value(f"{SLOTS}{slot}")
        now = int(self._received)
        state = known.setdefault("level", {"begun": now, "now": 0.0, "starts": [], "batches": []})
        jobs, sum_, since = state.get("batch", (0, 0.0, now))
        around = state["now"]
        tamed = max(around - _LARGEST_RESIDUAL, min(around + _LARGEST_RESIDUAL, value))
        state["batch"] = [jobs + 1, sum_ + tamed, since]
        longest = min(_MOST_BATCH_S, max(_LEAST_BATCH_S, (now - state["begun"]) / _BATCHES))
        if jobs + 1 < _BATCH_JOBS or now - since < longest:
            return
        level = Level(state["batches"])
        shifted = level.add((sum_ + tamed) / (jobs + 1))
        starts = [*state["starts"], since][-len(level.batches) :]
        del state["batch"]
        state |= {"batches": level.batches, "starts": starts, "now": level.mean}
        if shifted is not None:
            told = known.setdefault("drifts", [])
            before = level.mean - shifted
            told.append({"before": before, "now": level.mean, "since": starts[0], "told": now})
            del told[:-_MOST_DRIFTS]
        elif known.get("drifts"):
            known["drifts"][-1]["now"] = level.mean


def _note(evidence: Evidence, told: Difference, value: float) -> None:
    if told.is_same:
        evidence.add_same(value)
    else:
        evidence.add(value, told.group, told.users)


def forget(values: Iterable[tuple[str, Any]], now: float, months: int) -> dict[str, Any]:
    """Return what to put in place of `values` that nobody used for long: None, or less."""
    oldest = now - months * 31 * _DAY_S
    changed: dict[str, Any] = {}
    for key, value in values:
        if key.startswith(STRATA):
            if value.get("day", 0) < now // _DAY_S - REST_DAYS:
                changed[key] = None
        elif key.startswith(CELLS):
            kept = {name: cell for name, cell in value.items() if cell.get("seen", 0) >= oldest}
            if len(kept) < len(value):
                changed[key] = kept or None
    return changed


def utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
