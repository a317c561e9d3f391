"""What is counted, for Prometheus, by all workers together; and what holds at this moment."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import stat
import statistics
import tempfile
import time
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from colltune.decisions import Status
from colltune.errors import say
from colltune.server.answers import ResponseDocument
from colltune.server.state import ServiceState

if TYPE_CHECKING:
    from colltune.production.judgement import Judgement

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
"""The route of requests that have none."""
_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)
_MOST_ROWS = 200


class Metrics:
    """Counters of one worker."""

    def __init__(self) -> None:
        if folder := os.environ.get(MULTIPROCESS):
            try:
                reserve(Path(folder))
            except OSError as error:
                why = error.strerror
                structlog.get_logger().warning("no room to count in", folder=folder, why=why)
        self.registry = CollectorRegistry()
        self.requests = self._counter(
            "colltune_http_requests", "Requests answered.", "route", "method", "status"
        )
        self.seconds = Histogram(
            "colltune_http_request_seconds",
            "Time to answer a request.",
            ("route",),
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self.answers = self._counter(
            "colltune_answers",
            "Answers that depend on a bundle: kept ready (hit), or computed (miss).",
            "cache",
        )
        self.decisions = self._counter(
            "colltune_decisions",
            "Collectives in answers: all left to the library's default, or something replaced.",
            "collective",
            "outcome",
        )
        self.jobs = self._counter(
            "colltune_jobs",
            "Requests for jobs' files: tuned, or why the default was kept.",
            "slot",
            "outcome",
        )
        self.loads = self._counter("colltune_bundle_loads", "Bundles that came into force.", "slot")
        self.refusals = self._counter(
            "colltune_bundle_refusals",
            "Bundles refused: damaged, of a newer version, a symlink.",
            "slot",
        )
        self.registry_errors = self._counter(
            "colltune_registry_errors", "Reads of the registry that failed."
        )
        self.summaries = self._counter(
            "colltune_production_summaries",
            "Reports of ended jobs: stored, known before, or set aside.",
            "outcome",
        )
        self.production_failures = self._counter(
            "colltune_production_failures",
            "Work on jobs' reports that failed and is tried again: count, store, share, judge, "
            "merge.",
            "step",
        )
        self.hit = self.answers.labels("hit")
        self.miss = self.answers.labels("miss")

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, registry=self.registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def answered(self, document: ResponseDocument, times: int) -> None:
        """Count the decisions of a document that went out so many times."""
        for outcome, names in (("default", document.kept), ("replaced", document.replaced)):
            for name in names:
                self.decisions.labels(name, outcome).inc(times)

    def text(self, facts: Iterable[Metric]) -> bytes:
        """Return everything as Prometheus reads it, with `facts` that hold at this moment."""
        counted: Iterable[Metric] = self.registry.collect()
        if os.environ.get(MULTIPROCESS):
            counted = MultiProcessCollector(CollectorRegistry()).collect()  # type: ignore[no-untyped-call]
        everything = CollectorRegistry()
        everything.register(_Several(chain(counted, facts)))
        return generate_latest(everything)


class _Several(Collector):
    """Metrics that were made already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


Rows = Iterable[tuple[Sequence[str], float]]
_Described = tuple[str, str, tuple[str, ...], Rows]
"""Name, meaning, labels and values of a gauge."""


def gauges(
    state: ServiceState,
    reachable: bool,
    looked_at: float,
    reports: Mapping[str, Any],
    retrained_at: float | None = None,
    judgement: Judgement | None = None,
) -> list[Metric]:
    """Return what holds now; a report that is not understood is left out."""
    loaded = state.loaded.items()
    slots = sorted({*state.loaded, *state.problems})
    drift, verified = (content_of(reports, kind) for kind in ("drift", "verify"))
    rows: tuple[_Described, ...] = (
        ("ready", "Whether requests are answered.", (), [((), bool(state.loaded))]),
        ("registry_reachable", "Whether the registry is read.", (), [((), reachable)]),
        (
            "registry_look_age_seconds",
            "Time since the last read of the registry ended; grows if its file system hangs.",
            (),
            [((), time.monotonic() - looked_at)],
        ),
        (
            "bundle_info",
            "Bundles in force.",
            ("slot", "bundle"),
            [((slot, one.bundle.id), 1) for slot, one in loaded],
        ),
        (
            "bundle_age_seconds",
            "Time since a bundle was fitted.",
            ("slot",),
            [((slot,), _age_s(one.bundle.created_utc)) for slot, one in loaded],
        ),
        (
            "bundle_in_force_seconds",
            "Time since it came into force.",
            ("slot",),
            [((slot,), _age_s(one.since_utc)) for slot, one in loaded],
        ),
        (
            "bundle_refused",
            "Whether a bundle was refused and is due.",
            ("slot",),
            [((slot,), slot in state.problems) for slot in slots],
        ),
        (
            "retraining_age_seconds",
            "Time since a retraining was last at work.",
            (),
            [] if retrained_at is None else [((), max(0.0, time.time() - retrained_at))],
        ),
        (
            "measured_decisions",
            "Decisions in force that were measured beside the default, by what came of it.",
            ("slot", "status"),
            [
                ((slot, status), sum(c.status is status for c in one.bundle.confirmations))
                for slot, one in loaded
                for status in (Status.CONFIRMED, Status.WITHDRAWN)
            ],
        ),
        (
            "confirmed_gain",
            "Geometric mean of the confirmed gains of a bundle.",
            ("slot",),
            _confirmed_gains(state),
        ),
        (
            "drift_alarm",
            "Whether runtimes drifted beyond chance.",
            ("slot",),
            [((slot,), bool(told.get("alarm"))) for slot, told in _pairs(drift.get("slots"))],
        ),
        (
            "drift_ratio",
            "New over old runtime, as last judged.",
            ("slot", "collective"),
            _drift_ratios(drift),
        ),
        (
            "verified_rules",
            "Rules by what `colltune verify` last saw of them.",
            ("library", "release", "collective", "status"),
            _verified(verified),
        ),
        *_production(state, judgement),
    )
    return [_gauge(*one) for one in rows]


def _production(state: ServiceState, found: Judgement | None) -> Iterator[_Described]:
    """Yield what production told by the last look."""
    jobs: Counts[tuple[str, ...]] = Counts()
    for row in found.arms if found else ():
        for what in ("asked", "reported", "silent", "own"):
            jobs[row.slot, row.arm.value, what] += getattr(row, what)
    yield (
        "production_jobs",
        "Jobs by arm: given it in the last 30 days (asked); and in all that reported, that "
        "recorded no MPI run (silent), that had settings of their own (own).",
        ("slot", "arm", "what"),
        jobs.items(),
    )
    yield (
        "production_saved_node_hours",
        "Node-hours that tuned jobs saved so far: expected, and the 95 % interval.",
        ("bound",),
        [((name,), value) for name, value in found.saved._asdict().items()]
        if found and any(found.saved)
        else [],
    )
    decisions = (
        {
            "proven": found.proven,
            "refuted": found.refuted,
            "open": found.undecided,
            "not_compared": found.not_compared,
        }
        if found
        else {}
    )
    yield (
        "production_decisions",
        "Decisions by what production says of them.",
        ("verdict",),
        [((verdict,), count) for verdict, count in decisions.items()],
    )
    yield (
        "production_trial_share",
        "Share of jobs that a bundle on trial gets.",
        ("slot",),
        [((slot,), trial.share) for slot, trial in state.trials.items()],
    )
    yield (
        "production_judged_age_seconds",
        "Time since jobs' reports were last judged.",
        (),
        [((), _age_s(found.at_utc))] if found else [],
    )
    yield (
        "production_set_aside",
        "Reports of the last 30 days that were set aside, by reason.",
        ("reason",),
        [((reason,), jobs) for reason, jobs in found.set_aside.items()] if found else [],
    )
    yield (
        "production_drift",
        "New over old runtime of calls that the library decides itself, where it drifted.",
        ("slot",),
        [((drift.slot,), drift.ratio) for drift in found.drifts] if found else [],
    )


def content_of(reports: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return what the registry's latest report of a kind says, nothing if there is none."""
    found: Mapping[str, Any] = (reports.get(kind) or ("", {}))[1]
    return found


def _gauge(name: str, what: str, labels: Sequence[str], rows: Rows) -> Metric:
    found = GaugeMetricFamily(f"colltune_{name}", what, labels=labels)
    for values, value in rows:
        found.add_metric(values, float(value))
    return found


def _age_s(iso: str) -> float:
    """Return the time since then; a clock that went back makes no age negative."""
    try:
        then = datetime.fromisoformat(iso)
    except ValueError:
        return math.nan
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (datetime.now(UTC) - then).total_seconds())


def _confirmed_gains(state: ServiceState) -> Rows:
    for slot, one in state.loaded.items():
        confirmed = (c for c in one.bundle.confirmations if c.status is Status.CONFIRMED)
        gains = [c.gain for c in confirmed if c.gain is not None]
        if gains:
            yield (slot,), statistics.geometric_mean(gains)


def _drift_ratios(report: Mapping[str, Any]) -> Rows:
    for slot, told in _pairs(report.get("slots")):
        shifts = told.get("shifts")
        if shifts:
            yield (slot, ""), _number(told.get("ratio"))
        for shift in shifts[:_MOST_ROWS] if isinstance(shifts, list) else ():
            if isinstance(shift, Mapping) and shift.get("since") == "fit":
                name = str(shift.get("of", ""))
                if ":" not in name:
                    yield (slot, name), _number(shift.get("ratio"))


def _verified(report: Mapping[str, Any]) -> Rows:
    release = (str(report.get("library", "")), str(report.get("release", "")))
    for collective, counts in _pairs(report.get("collectives")):
        for status, count in list(counts.items())[:_MOST_ROWS]:
            yield (*release, collective, str(status)), _number(count)


def _pairs(value: object) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, Mapping):
        return []
    found = [(str(k), v) for k, v in value.items() if isinstance(v, Mapping)]
    return found[:_MOST_ROWS]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


_PREFIX = "colltune-metrics-"
_LOCK = "lock"
_KINDS = ("counter", "histogram")
_RESERVED_BYTES = 1 << 18
"""Of each kind, per worker; some thousand series."""
_IN_MEMORY = "/dev/shm"  # noqa: S108


@contextmanager
def folder_to_count_in(workers: int) -> Iterator[Path]:
    """Make a folder with room for so many workers: among temporary files, else in memory.

    It is removed at the end; those of services that were killed are removed, too.
    """
    folder = _made(workers)
    try:
        with (folder / "new").open("w") as lock:
            # nobody sees the lock before it is held
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new").rename(folder / _LOCK)
            _sweep(folder.parent)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(workers: int) -> Path:
    reasons = []
    for parent in (None, _IN_MEMORY):
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        except OSError as error:
            reasons.append(error.strerror)
            continue
        try:
            _allocate(folder / "room", workers * len(_KINDS) * _RESERVED_BYTES)
            (folder / "room").unlink()
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            reasons.append(error.strerror)
        else:
            return folder
    what, mend = "counts that workers share", "Name a folder with free space in TMPDIR."
    raise say("cannot-write", what=what, why=reasons[0], mend=mend)


def _sweep(parent: Path) -> None:
    """Remove this user's folders whose lock nobody holds any more."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def reserve(folder: Path) -> None:
    """Take the room for what this process will count."""
    for kind in _KINDS:
        _allocate(folder / f"{kind}_{os.getpid()}.db", _RESERVED_BYTES)


def _allocate(file: Path, size_bytes: int) -> None:
    with file.open("ab") as stream:
        os.posix_fallocate(stream.fileno(), 0, size_bytes)
