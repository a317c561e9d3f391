"""What the service does where a site proves its bundles by production jobs.

It gives each job an arm, takes what jobs report, and judges it from time to time. Without
``[production] record = true`` in the site file nothing of this is imported.

Judged are summaries that agree with what the service knows to be possible.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from datetime import UTC, datetime
from itertools import chain
from threading import Event as Flag
from threading import Lock, Thread

import structlog

from colltune.dataset.profile import UNKNOWN_ARM, Use
from colltune.errors import ColltuneError, OutputError, say
from colltune.models.guard import Guard
from colltune.mpi.programs import Programs
from colltune.production.arms import Arm, ArmShares, Production, arm_of
from colltune.production.consequences import act
from colltune.production.judgement import Judgement, judge, latest
from colltune.production.status import ProductionStatus, status_of
from colltune.production.store import LATEST_S, SetAside, Store
from colltune.production.summary import Given, MpiRun, Summary, parse_summary
from colltune.registry import Event, Registry
from colltune.registry.events import in_force, trials
from colltune.registry.names import nearest_release
from colltune.server.answers import GivenArm
from colltune.server.metrics import Metrics
from colltune.server.schemas import Receipt
from colltune.server.settings import ServiceSettings
from colltune.server.state import LoadedBundle, ServiceState

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


_STOP_S, _BREATH_S = 5.0, 1.0
_MOST_JOBS = 20_000
_BY = "production (service)"


class ProductionJobs:
    """The loop of production in one worker; safe among threads.

    ``changed`` is called when something came into force. Of several workers, and of several
    services with one store, one judges at a time.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        site: Production,
        metrics: Metrics,
        changed: Callable[[], None],
    ) -> None:
        self._site = site
        self._machine = settings.machine
        self._judge_s = settings.judge_s
        self._guard = Guard(caution=settings.caution)
        self._programs = Programs.parse(settings.programs)
        self._metrics = metrics
        self._changed = changed
        self._log = structlog.get_logger("colltune.server.production")
        self.registry = Registry(settings.registry or "")
        self.store = Store(site.store, site.archive)
        self._admission = SummaryCheck(self.registry, self.store, self._machine, site)
        self._given: set[GivenArm] = set()
        self._seen: OrderedDict[GivenArm, None] = OrderedDict()
        self._lock = Lock()
        self._ended = Flag()
        self._thread: Thread | None = None
        self._merged = ""
        self._noted_share = False
        self.judgement: Judgement | None = None

    def arm(self, state: ServiceState, loaded: LoadedBundle, job: str) -> tuple[Arm, LoadedBundle]:
        """Return the arm of a job, and the bundle of that arm: the one in force or on trial."""
        trial = state.trials.get(loaded.slot)
        split = ArmShares(self._site.control, trial.share if trial else 0.0)
        arm = arm_of(self._machine, job, split)
        return arm, trial.loaded if trial and arm is Arm.CANDIDATE else loaded

    def note(self, given: GivenArm) -> None:
        """Remember what a job was given, by which its report is judged."""
        with self._lock:
            if given in self._seen:
                return
            self._seen[given] = None
            if len(self._seen) > _MOST_JOBS:
                self._seen.popitem(last=False)
            self._given.add(given)

    def flush(self) -> None:
        """Write down what jobs were given; what cannot be written is kept for later."""
        with self._lock:
            given, self._given = self._given, set()
        if not given:
            return
        try:
            self.store.note_given(given, time.time())
        except ColltuneError as error:
            self._failed("count", error)
            with self._lock:
                self._given |= given

    def take(self, content: bytes) -> Receipt:
        """Keep what a job reports, or set it aside with the reason; it is on disk at the end."""
        summary, now = parse_summary(content), time.time()
        self.flush()
        try:
            reason = self._admission.refusal(summary, now)
            if reason is not None:
                self.store.set_aside(reason, now)
            is_new = reason is None and self.store.add(summary, now)
        except OutputError as error:
            self._failed("store", error)
            why, mend = "the service cannot store reports now", "Send it again later."
            raise say("cannot-write", what="it", why=why, mend=mend) from error.__cause__
        if reason is not None:
            self._log.info("report set aside", job=summary.job, why=reason.text)
            told = Receipt(job=summary.job, outcome="set_aside", reason=reason, detail=reason.text)
        else:
            told = Receipt(job=summary.job, outcome="stored" if is_new else "known")
        self._metrics.summaries.labels(told.outcome).inc()
        return told

    def status(self) -> ProductionStatus:
        found = self.judgement or latest(self.store)
        return status_of(found, self._site, self.registry.history(), self._machine)

    def start(self) -> None:
        self._ended.clear()
        self._thread = Thread(target=self._work, name="production", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop judging; what is under way after a few seconds is given up and done later."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self.store.close()

    def _work(self) -> None:
        while not self._ended.is_set():
            self.look()
            waiting = self.judgement is not None and self.judgement.waiting
            self._ended.wait(_BREATH_S if waiting else self._judge_s)

    def look(self) -> None:
        """Judge what came in and act on it; a failure is logged, and the next look begins anew."""
        for name, step in (("share", self._share), ("judge", self._judge), ("merge", self._merge)):
            try:
                step()
            except Exception as error:
                self._failed(name, error)

    def _share(self) -> None:
        """Note the share of the control group, by which reports are checked later."""
        if not self._noted_share:
            self.store.split_since(self._site.control, time.time())
            self._noted_share = True

    def _judge(self) -> None:
        now = time.time()
        found = judge(
            self.store, self.registry, self._site, self._machine, now, self._guard, self._programs
        )
        self.judgement = found
        if found is None or datetime.fromisoformat(found.at_utc).timestamp() < int(now):
            # another process judged, and acts
            return
        consequences = act(found, self.registry, self._site, _BY, self._guard, self._programs)
        for one in consequences:
            self._log.warning(
                "production", kind=one.kind, slot=one.slot, bundle=one.bundle_id, what=one.text
            )
        if consequences:
            self._changed()

    def _merge(self) -> None:
        today = datetime.now(UTC).date().isoformat()
        if today != self._merged:
            self.store.merge_days(time.time(), self._site.months)
            self._merged = today

    def _failed(self, step: str, error: Exception) -> None:
        self._metrics.production_failures.labels(step).inc()
        is_known = isinstance(error, (ColltuneError, OSError))
        self._log.error("production failed", step=step, why=str(error), exc_info=not is_known)
