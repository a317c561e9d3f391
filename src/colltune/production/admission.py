"""Which summaries are judged: those that agree with what the service knows to be possible."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from itertools import chain
from threading import Lock

from colltune.dataset.profile import UNKNOWN_ARM, Use
from colltune.production.arms import Arm, ArmShares, arm_of
from colltune.production.settings import Production
from colltune.production.store import LATEST_S, SetAside, Store
from colltune.production.summary import Given, MpiRun, Summary
from colltune.registry import Event, Registry
from colltune.registry.events import in_force, trials
from colltune.registry.names import nearest_release

AHEAD_S = 300.0
"""By how much clocks of nodes and of the service may differ."""
_SLACK_S = 600.0
"""Before and after the start of a job, in which what it was given may have been in force."""
_SHORTEST_S = 50e-9
_MOST_PER_NODE = 4096
_ROUNDING, _ESTIMATED = 1.01, 1.5
"""What is measured adds up but for rounding; what is estimated from a sample may be this off."""
_KNOWN_S = 5.0
_LEAST_S = 1e-3
_NO_JOB = "-"


class SummaryCheck:
    """Compares summaries with the registry's history and with what is possible at all.

    Safe among threads. What was in force is read anew every few seconds.
    """

    def __init__(
        self, registry: Registry, store: Store, machine: str, settings: Production
    ) -> None:
        self._registry = registry
        self._store = store
        self._machine = machine
        self._settings = settings
        self._lock = Lock()
        self._read_at = -math.inf
        self._events: tuple[Event, ...] = ()
        self._ids: frozenset[str] = frozenset()

    def refusal(self, summary: Summary, now: float) -> SetAside | None:
        """Return why a summary that came `now` is not to be judged, None if it is."""
        if not _clock_is_right(summary, now):
            return SetAside.CLOCK_OFF
        self._read_registry()
        kept = self._store.given(summary.job)
        releases = {(given.library, given.release): given for given in summary.given}
        reasons = chain(
            (self._refused(given, summary, kept) for given in summary.given),
            (_refused_run(run, releases, summary) for run in summary.runs),
        )
        return next((reason for reason in reasons if reason is not None), None)

    def _read_registry(self) -> None:
        with self._lock:
            if time.monotonic() - self._read_at > _KNOWN_S:
                self._events = self._registry.history()
                self._ids = frozenset(self._registry.ids())
                self._read_at = time.monotonic()

    def _refused(
        self, given: Given, summary: Summary, kept: Set[tuple[str, str, str]]
    ) -> SetAside | None:
        """Compare what a job says that it was given with what the service answered it.

        Of a job that the service does not know (any more), with what it can have been given.
        """
        slots = {e.slot for e in self._events if e.bundle_id == given.bundle_id}
        if not slots and given.bundle_id not in self._ids:
            return SetAside.UNKNOWN_BUNDLE
        fitting = [slot for slot in slots if _serves(slot, given)]
        answered = {(arm, bundle_id) for slot, arm, bundle_id in kept if slot in fitting}
        possible = (found for slot in fitting for found in self._possible(slot, summary))
        is_possible = (given.arm, given.bundle_id) in (answered or possible)
        return None if is_possible else SetAside.ARM_NOT_GIVEN

    def _possible(self, slot: str, summary: Summary) -> Iterator[tuple[Arm, str]]:
        """Yield the arms and bundles that the job can have been given when it started."""
        first, last = summary.started - _SLACK_S, summary.started + _SLACK_S
        control_at = self._store.controls()
        shares = {control_at(moment) for moment in (first, summary.started, last)}
        controls = {self._settings.control if share is None else share for share in shares}
        for now, trial in self._states(slot, first, last):
            for control in controls:
                split = ArmShares(control, trial.share or 0.0 if trial else 0.0)
                arm = arm_of(self._machine, summary.job, split)
                if arm is Arm.CANDIDATE and trial is not None:
                    yield arm, trial.bundle_id
                elif now is not None:
                    yield arm, now.bundle_id

    def _states(
        self, slot: str, first: float, last: float
    ) -> Iterator[tuple[Event | None, Event | None]]:
        """Yield what was in force, and what on trial, at any time from `first` to `last`."""
        events = [event for event in self._events if event.slot == slot]
        begins = [-math.inf, *map(_seconds, events)]
        ends = [*begins[1:], math.inf]
        for count, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if begin <= last and end >= first:
                past = events[:count]
                yield in_force(past).get(slot), trials(past).get(slot)


def _serves(slot: str, given: Given) -> bool:
    """Tell whether a bundle of `slot` is what jobs of this release may be given."""
    library, _, release = slot.partition("-")
    return library == given.library and nearest_release(given.release, [release]) is not None


def _seconds(event: Event) -> float:
    """Return when it happened; an event whose time is no time counts as past."""
    try:
        moment = datetime.fromisoformat(event.at_utc)
    except ValueError:
        return -math.inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _clock_is_right(summary: Summary, now: float) -> bool:
    """Tell whether the job ended after it started, not in the future, and not long ago."""
    in_order = summary.started <= summary.ended <= now + AHEAD_S
    longest_s = summary.ended - summary.started + AHEAD_S
    runs_fit = all(run.job.wall_s <= longest_s for run in summary.runs)
    return in_order and runs_fit and summary.ended >= now - LATEST_S


def _refused_run(
    run: MpiRun, releases: Mapping[tuple[str, str], Given], summary: Summary
) -> SetAside | None:
    job = run.job
    given = releases.get((job.library, job.release))
    if given is None:
        return SetAside.OTHER_LIBRARY
    if job.job not in (summary.job, _NO_JOB):
        return SetAside.OTHER_JOB
    if job.arm not in (given.arm, "own", UNKNOWN_ARM):
        return SetAside.ARM_NOT_GIVEN
    return None if _is_possible(run, summary) else SetAside.IMPOSSIBLE


def _is_possible(run: MpiRun, summary: Summary) -> bool:
    """Tell whether such numbers can have been measured in such a job."""
    job, most = run.job, summary.nodes * _MOST_PER_NODE
    nodes = job.shape.nodes if job.shape else 1
    longest_s = summary.ended - summary.started + AHEAD_S
    timed_s = math.fsum(use.timed_s for use in run.uses)
    estimated_s = max(
        math.fsum(use.process_s for use in run.uses), job.nprocs * job.collectives_s[0]
    )
    return (
        nodes <= summary.nodes
        and job.nprocs <= most
        and timed_s <= job.process_s * _ROUNDING + _LEAST_S
        and estimated_s <= job.process_s * _ESTIMATED + _LEAST_S
        and all(use.kind.nprocs <= most and _call_is_possible(use, longest_s) for use in run.uses)
    )


def _call_is_possible(use: Use, longest_s: float) -> bool:
    sketched = sum(use.times.values())
    if use.timed > use.process_calls or (use.times and sketched != use.timed):
        return False
    # a process alone has nobody to wait for
    shortest_s = _SHORTEST_S if use.kind.nprocs > 1 else 0.0
    return not use.timed or shortest_s <= use.least_s <= use.most_s <= longest_s
