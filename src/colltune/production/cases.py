"""What the judgement remembers: takes in summaries, job by job, in the order of their receipt.

Kept are JSON values under these keys of the store:

``cells/SLOT/COLLECTIVE/NODES/PPN``
    by size and configuration (``1024|ID``) the bets on a decision (`Arms`), what its calls usually
    take, what it saved, which jobs used it, and its node-hours by month;
``strata/SLOT/SHAPE/PROGRAM``
    by collective, layout and size what calls usually take, which the next job is compared with;
``slots/SLOT``
    the trial, the level of what the library decides itself, and jobs by arm;
``judged``
    the version of the format, counts of the whole site, and what all decisions saved.

Format history
--------------
1. Differences of jobs and their neighbours; what rested on them is begun anew.
2. As above, each value with the fields that this module gives it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from colltune.dataset.profile import CallKind
from colltune.errors import say
from colltune.evidence.arms import Arms, BatchLevel, SavedHours, Seen, Total, Usual, usual_of
from colltune.production.arms import Arm, Draw, Production, Side
from colltune.production.observations import (
    HandedOut,
    Observed,
    ObservedCalls,
    RegistryDecisions,
    is_own,
    observed,
)
from colltune.production.summary import Given, Summary
from colltune.registry import Event

FORMAT_VERSION = 2
CELLS, STRATA, SLOTS, JUDGED = "cells/", "strata/", "slots/", "judged"
REST_DAYS = 30
"""What is compared with each other lies no further apart."""
_DAY_S = 86400.0
_FEW, _REFERENCE = 4, 16
_MOST_LABELS, _MOST_SHAPES, _MOST_BUNDLES, _MOST_DRIFTS = 4, 64, 20, 20
_MOST_MONTHS, _MOST_KINDS = 60, 512
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
    """What `colltune.production.store.StoredSummary` has."""

    @property
    def summary(self) -> Summary: ...
    @property
    def received(self) -> float: ...


def cell_key(slot: str, kind: CallKind) -> str:
    """Return where the decisions of a shape's class are kept."""
    if kind.shape is None:
        raise ValueError("only calls whose layout is known are judged")
    nodes = 1 << (kind.shape.nodes.bit_length() - 1)
    return f"{CELLS}{slot}/{kind.collective}/{nodes}/{kind.shape.ppn}"


Draws = Callable[[str, float], Draw]
"""Maps a slot and the time when a job started to how its arm was drawn."""


class Cases:
    """Takes in what jobs report; `close` keeps what came of it."""

    def __init__(
        self,
        values: Values,
        decisions: RegistryDecisions,
        settings: Production,
        in_force: Mapping[str, Event],
        trials: Mapping[str, Event],
        draws: Draws,
    ) -> None:
        self._store, self._decisions, self._settings = values, decisions, settings
        self._in_force, self._trials, self._draws = in_force, trials, draws
        self._values: dict[str, Any] = {}
        self._left_out: Counter[str] = Counter()
        self._betting: list[dict[str, Any]] = []

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
            place = "what the judgement remembers"
            raise say("format-version", place=place, version=version, known=FORMAT_VERSION)
        for one, several in told:
            self._count(one.summary, several)
            _Job(self, one.summary, one.received).take(several)

    def bets(self, known: dict[str, Any]) -> Arms:
        """Return the bets that are kept in `known`; until `close` they are one object."""
        found = known.get("bets")
        if not isinstance(found, Arms):
            found = known["bets"] = Arms.of(found or {})
            self._betting.append(known)
        return found

    def close(self) -> None:
        for known in self._betting:
            if isinstance(bets := known.get("bets"), Arms):
                known["bets"] = bets.as_json()
        self._betting.clear()
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

    def choice(
        self, bundle_id: str | None, found: Observed, row: ObservedCalls
    ) -> HandedOut | None:
        """Return what a bundle decides for calls; None for the default, and without a bundle."""
        if bundle_id is None:
            return None
        return self._decisions.choice(bundle_id, found.shape, row.kind)

    def draw(self, slot: str, summary: Summary) -> Draw:
        """Return how the arm of a job was drawn."""
        return self._draws(slot, summary.started)

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
            trial |= {"sequence": step.sequence, "jobs": 0, "ran": 0}
        return step, reference, trial

    def _count(self, summary: Summary, several: Sequence[Observed]) -> None:
        """Count a job by its arm, once for each slot, and those of a trial that fall silent."""
        judged = self.value(JUDGED)
        judged["jobs"] = judged.get("jobs", 0) + 1
        given = {self._decisions.slot(given.bundle_id): given for given in summary.given}
        for slot, one in given.items():
            if slot is None:
                continue
            arms = self.value(f"{SLOTS}{slot}").setdefault("arms", {})
            counts = arms.pop(f"{one.arm} {one.bundle_id}", [0, 0, 0])
            arms[f"{one.arm} {one.bundle_id}"] = counts
            counts[0] += 1
            counts[1] += not summary.runs
            counts[2] += is_own(summary)
            while len(arms) > _MOST_BUNDLES:
                del arms[next(iter(arms))]
            self._count_trial(slot, one, summary, several)

    def _count_trial(
        self, slot: str, given: Given, summary: Summary, several: Sequence[Observed]
    ) -> None:
        found, draw = self.trial(slot), self.draw(slot, summary)
        if found is None or not draw.fits(given.arm, given.bundle_id):
            return
        step, _, trial = found
        is_tried = given.arm is Arm.CANDIDATE and given.bundle_id == step.bundle_id
        trial["jobs"] += is_tried
        trial["ran"] += is_tried and any(one.slot == slot and one.rows for one in several)
        share = draw.split.candidate
        if not summary.runs and draw.trial == step.bundle_id and 0 < share < 1:
            logs = trial.setdefault("silent", [0.0] * len(SILENT_RATIOS))
            for at, ratio in enumerate(SILENT_RATIOS):
                more = 1 - share + share * ratio
                logs[at] += math.log((ratio if is_tried else 1.0) / more)


@dataclass
class _Compared:
    """What a job says of one decision, or of one trial: ``usual`` are kept for later jobs."""

    side: Side
    seen: list[Seen] = field(default_factory=list)
    usual: list[tuple[dict[str, Any], str, float, float]] = field(default_factory=list)
    seconds: float = 0.0

    def add(
        self,
        near: tuple[dict[str, Any], str],
        elsewhere: tuple[dict[str, Any], str],
        row: ObservedCalls,
        hours: float,
    ) -> Seen | None:
        """Compare calls with what is usual; None if nothing is known of it yet."""
        if row.log_s is None:
            raise ValueError("too few calls were timed")
        calls = hours / math.exp(row.log_s)
        told = usual_of(*(Usual(*place.get(name, ())) for place, name in (near, elsewhere)))
        self.usual += [(*place, row.log_s, calls) for place in (near, elsewhere)]
        if told is None:
            return None
        found = Seen(row.log_s, *told, row.process_s)
        self.seen.append(found)
        self.seconds += row.process_s
        return found

    def keep(self) -> None:
        """Let later jobs be compared with this one."""
        for place, name, log_s, calls in self.usual:
            usual = Usual(*place.pop(name, ()))
            usual.add(log_s, is_in=self.side.is_in, calls=calls)
            place[name] = list(astuple(usual))


class _Job:
    """One job, compared with those before it: once for each decision and trial."""

    def __init__(self, cases: Cases, summary: Summary, received: float) -> None:
        self._cases, self._summary, self._received = cases, summary, received
        self._month = utc(summary.ended)[:7]
        self._decided: dict[tuple[str, str], _Compared] = {}
        self._tried: dict[str, _Compared] = {}
        self._counted: set[tuple[str, str]] = set()
        self._saved: dict[tuple[str, str], SavedHours] = {}

    def take(self, several: Sequence[Observed]) -> None:
        residuals: dict[str, list[tuple[float, float]]] = {}
        for found in several:
            strata = self._cases.value(found.strata)
            strata["day"] = int(self._received // _DAY_S)
            rows = strata.setdefault("rows", {})
            draw: Draw | None = self._cases.draw(found.slot, self._summary)
            if draw is not None and not draw.fits(found.given.arm, found.given.bundle_id):
                self._cases.leave_out("what was in force changed as the job started")
                draw = None
            for row in found.rows:
                here = rows.setdefault(row.name, {})
                told = self._row(found, row, here, draw)
                residuals.setdefault(found.slot, []).extend(told)
        self._close()
        for slot, told in residuals.items():
            self._level(slot, told)

    def _row(
        self, found: Observed, row: ObservedCalls, here: dict[str, Any], draw: Draw | None
    ) -> list[tuple[float, float]]:
        """Take in one kind of calls; return by how much calls that the library decides differ."""
        choice = None
        if found.given.arm is not Arm.CONTROL:
            choice = self._cases.choice(found.given.bundle_id, found, row)
        if choice is not None:
            self._use(found, row, choice)
        if draw is not None:
            self._try(found, row, here, draw)
        if row.log_s is None:
            self._cases.leave_out("calls of a kind of which too few were timed")
            return []
        if draw is not None:
            self._compare(found, row, here, draw)
        if choice is not None:
            return []
        return self._residual(found.slot, row.log_s, row.process_s, here)

    def _use(self, found: Observed, row: ObservedCalls, choice: HandedOut) -> None:
        """Note that calls were decided so."""
        key, name = cell_key(found.slot, row.kind), _name(row, choice.configuration)
        cell = self._cell(key, name)
        arm, bundle_id = found.given.arm, found.given.bundle_id
        if choice.is_confirmed and cell.get("refuted") and bundle_id not in cell["refuted_in"]:
            # measured again since: production looks at it anew
            for part in ("bets", "usual", "refuted", "refuted_in", "refuted_by"):
                cell.pop(part, None)
        cell |= {"arm": arm.value, "bundle": bundle_id, "seen": int(self._received)}
        cell.setdefault("first", int(self._received))
        months = cell.setdefault("hours", {})
        months[self._month] = months.get(self._month, 0.0) + _hours(found, row)
        shape, shapes = str(row.kind.shape), cell.setdefault("shapes", [])
        if shape not in shapes and len(shapes) < _MOST_SHAPES:
            shapes.append(shape)
        self._count(key, name, arm)

    def _cell(self, key: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._cases.value(key).setdefault(name, {})
        return found

    def _count(self, key: str, name: str, arm: Arm) -> None:
        """Count a job that used a decision, or would have used it, once."""
        if (key, name) not in self._counted:
            self._counted.add((key, name))
            jobs = self._cell(key, name).setdefault("jobs", {})
            jobs[arm.value] = jobs.get(arm.value, 0) + 1

    def _compare(
        self, found: Observed, row: ObservedCalls, here: dict[str, Any], draw: Draw
    ) -> None:
        """Compare jobs with a decision and those of the control group."""
        choices = {
            bundle_id: choice.configuration
            for bundle_id in draw.bundles
            if (choice := self._cases.choice(bundle_id, found, row)) is not None
        }
        kept = here.setdefault("decided", {})
        for configuration in dict.fromkeys(choices.values()):
            deciding = {b for b, chosen in choices.items() if chosen == configuration}
            side = draw.decided(found.given.arm, deciding)
            if side is None:
                continue
            key, name = cell_key(found.slot, row.kind), _name(row, configuration)
            if found.given.arm is Arm.CONTROL:
                self._count(key, name, Arm.CONTROL)
            compared = self._decided.setdefault((key, name), _Compared(side))
            if compared.side != side:
                continue
            cell, hours = self._cell(key, name), _hours(found, row)
            seen = compared.add((kept, configuration), (cell, "usual"), row, hours)
            saved = seen and self._cases.bets(cell).saved(seen, **side._asdict())
            self._save(row.kind, key, name, hours, saved)
        while len(kept) > _MOST_LABELS:
            del kept[next(iter(kept))]

    def _save(
        self, kind: CallKind, key: str, name: str, hours: float, saved: SavedHours | None
    ) -> None:
        """Add up what a job says of the hours that decisions save."""
        judged = self._cases.value(JUDGED)
        if saved is None:
            judged["unjudged"] = judged.get("unjudged", 0.0) + hours
            return
        for of in (("all", ""), ("months", self._month), ("collectives", kind.collective)):
            self._saved[of] = saved.plus(self._saved.get(of, SavedHours(0.0, 0.0)))
        by = judged.setdefault("hours", {})
        by[kind.collective] = by.get(kind.collective, 0.0) + hours
        cell = self._cell(key, name)
        cell["saved"] = _plus(cell.get("saved"), saved)

    def _try(self, found: Observed, row: ObservedCalls, here: dict[str, Any], draw: Draw) -> None:
        """Compare jobs of a trial with those of the bundle in force, where these differ."""
        trial = self._cases.trial(found.slot)
        if trial is None or draw.trial != trial[0].bundle_id or draw.in_force != trial[1]:
            return
        side = draw.tried(found.given.arm)
        old = self._cases.choice(draw.in_force, found, row)
        new = self._cases.choice(draw.trial, found, row)
        if side is None or (old and old.configuration) == (new and new.configuration):
            return
        compared = self._tried.setdefault(found.slot, _Compared(side))
        known = trial[2]
        if side.is_in:
            known["differing_s"] = known.get("differing_s", 0.0) + row.process_s
        if row.log_s is None or compared.side != side:
            return
        label = f"{draw.trial[:16]} {(draw.in_force or '')[:16]}"
        if here.get("trial", {}).get("of") != label:
            here["trial"] = {"of": label}
        usual = known.setdefault("usual", {})
        seen = compared.add((here["trial"], "usual"), (usual, row.name), row, _hours(found, row))
        if side.is_in and seen is not None:
            known["compared_s"] = known.get("compared_s", 0.0) + row.process_s
        while len(usual) > _MOST_KINDS:
            del usual[next(iter(usual))]

    def _close(self) -> None:
        """Bet on the job, and let later ones be compared with it."""
        for (key, name), compared in self._decided.items():
            self._bet(self._cell(key, name), compared)
        for slot, compared in self._tried.items():
            trial = self._cases.trial(slot)
            if trial is not None:
                self._bet(trial[2], compared, self._cases.settings.user_share)
        judged = self._cases.value(JUDGED)
        for (kind, name), saved in self._saved.items():
            sums = judged.setdefault("saved", {}).setdefault(kind, {})
            sums[name] = _plus(sums.get(name), saved)
            while len(sums) > _MOST_MONTHS:
                del sums[min(sums)]

    def _bet(self, known: dict[str, Any], compared: _Compared, user_share: float = 1.0) -> None:
        settings = self._cases.settings
        bets = self._cases.bets(known)
        named = compared.side._asdict()
        bets.take(compared.seen, user=self._summary.user, user_share=user_share, **named)
        compared.keep()
        harm = bets.log_e_above(math.log(settings.harm))
        if "bundle" in known and harm >= -math.log(settings.alpha) and "refuted" not in known:
            known |= {"refuted": int(self._received), "refuted_in": [known["bundle"]]}
            told = bets.bounded(2 * settings.alpha)
            known["refuted_by"] = told and told.closed

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
        level = BatchLevel(state["batches"])
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


def _name(row: ObservedCalls, configuration: str) -> str:
    return f"{row.kind.first_bytes}|{configuration}"


def _hours(found: Observed, row: ObservedCalls) -> float:
    return row.process_s / found.shape.ppn / 3600


def _plus(sums: Sequence[float] | None, saved: SavedHours) -> list[float]:
    total = Total(*sums or ())
    total.add(saved)
    return list(astuple(total))


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
