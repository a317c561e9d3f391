"""What is counted, for Prometheus; with several workers, across all of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from colltune.errors import OutputError
from colltune.server.answers import Document

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
"""The route of requests that have none."""
_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)


def _reserve() -> None:
    folder = os.environ.get(MULTIPROCESS)
    if folder is None:
        return
    try:
        reserve(Path(folder))
    except OSError as error:
        structlog.get_logger().warning("no room to count in", folder=folder, why=error.strerror)


class Metrics:
    """Counters of one worker."""

    def __init__(self) -> None:
        _reserve()
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "colltune_http_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "colltune_http_request_seconds",
            "Time to answer a request.",
            ("route",),
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self.answers = Counter(
            "colltune_answers",
            "Answers that depend on a bundle: kept ready (hit), or computed (miss).",
            ("cache",),
            registry=self.registry,
        )
        self.decisions = Counter(
            "colltune_decisions",
            "Collectives in answers: all left to the library's default, or something replaced.",
            ("collective", "outcome"),
            registry=self.registry,
        )
        self.loads = Counter(
            "colltune_bundle_loads", "Bundles taken into force.", ("slot",), registry=self.registry
        )
        self.refusals = Counter(
            "colltune_bundle_refusals",
            "Bundles refused: damaged, of a newer version, a symlink.",
            ("slot",),
            registry=self.registry,
        )
        self.registry_errors = Counter(
            "colltune_registry_errors",
            "Looks at the registry that failed.",
            registry=self.registry,
        )
        self.hit = self.answers.labels("hit")
        self.miss = self.answers.labels("miss")

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def answered(self, document: Document, times: int = 1) -> None:
        """Count the decisions of a document that went out so many times."""
        for name in document.kept:
            self.decisions.labels(name, "default").inc(times)
        for name in document.replaced:
            self.decisions.labels(name, "replaced").inc(times)

    def text(self, facts: Iterable[Metric]) -> bytes:
        """Return everything as Prometheus reads it, with `facts` that hold at this moment."""
        everything = CollectorRegistry()
        if os.environ.get(MULTIPROCESS):
            MultiProcessCollector(everything)  # type: ignore[no-untyped-call]
        else:
            everything.register(_Several(self.registry.collect()))
        everything.register(_Several(facts))
        return generate_latest(everything)


class _Several(Collector):
    """Metrics that were made already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


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
    raise OutputError(
        f"several workers need a folder to count in together: {reasons[0]}; name one that is"
        " writable and has room by TMPDIR, or have one worker"
    )


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
