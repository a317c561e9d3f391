"""What the service does where a site proves its bundles by production jobs.

It gives each job an arm, takes what jobs report, and judges it from time to time. Without
``[production] record = true`` in the site file nothing of this is imported.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event, Lock, Thread

import structlog

from colltune.errors import ColltuneError, OutputError
from colltune.models.guard import Guard
from colltune.production.admission import SummaryCheck
from colltune.production.arms import Arm, ArmShares, arm_of
from colltune.production.consequences import act
from colltune.production.judgement import Judgement, judge, latest
from colltune.production.settings import Production
from colltune.production.status import ProductionStatus, status_of
from colltune.production.store import Store
from colltune.production.summary import parse_summary
from colltune.registry import Registry
from colltune.server.answers import GivenArm
from colltune.server.metrics import Metrics
from colltune.server.schemas import Receipt
from colltune.server.settings import ServiceSettings
from colltune.server.state import LoadedBundle, ServiceState

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
        self._metrics = metrics
        self._changed = changed
        self._log = structlog.get_logger("colltune.server.production")
        self.registry = Registry(settings.registry or "")
        self.store = Store(site.store, site.archive)
        self._admission = SummaryCheck(self.registry, self.store, self._machine, site)
        self._given: set[GivenArm] = set()
        self._seen: OrderedDict[GivenArm, None] = OrderedDict()
        self._lock = Lock()
        self._ended = Event()
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
            why = "the service cannot store reports now. Send it again later."
            raise OutputError(why) from error.__cause__
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
        found = judge(self.store, self.registry, self._site, self._machine, now, self._guard)
        self.judgement = found
        if found is None or datetime.fromisoformat(found.at_utc).timestamp() < int(now):
            # another process judged, and acts
            return
        consequences = act(found, self.registry, self._site, _BY, self._guard)
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
