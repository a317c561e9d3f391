"""The memory of a service that takes, judges and merges the reports of a large site's jobs.

One `colltune serve` on one core, with a store that has a part of a day to merge when it starts. It
gets reports of 20 rows as fast as it takes them, and judges every few seconds. Then it is killed at
random moments while reports are sent, each again until it is acknowledged. ``value`` is the peak of
the proportional set sizes of all its processes, ``ours`` how many reports a second it took and
``baseline`` how many a second 100,000 a day are.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from itertools import count
from pathlib import Path
from threading import Event, Thread

from colltune.models.fitting import fit
from colltune.production.database import DETAILS, JOBS, Database, sa
from colltune.production.judgement import latest
from colltune.production.store import Store
from colltune.registry import Registry
from colltune.server.auth.token_file import Scope, Token, digest, new_token, write
from figures.figure import Figure
from figures.production_jobs import CONTROL, JOBS_A_DAY, MACHINE, job, program, text
from tests.models.machines import measured
from tests.server.serving_process import COMMAND, Server

_SECONDS, _SENDERS = 60.0, 4
_TO_MERGE = 3000
_KILLS, _KILLED_AFTER_S = 5, (0.5, 4.0)
_PROGRAMS = 300
_DAY_S = 86400
_PATIENCE_S = 120.0
_RELEASE = ("openmpi", "4.1.4")
_SITE = f"""
[site]
machine = "{MACHINE}"
registry = "registry"
[data]
datasets = ["measurements"]
[cluster]
user = "root"
mpi = ["openmpi/4.1.4"]
nodes = [2]
ppn = [2]
collectives = ["bcast"]
[production]
record = true
control = {CONTROL}
"""
_ENVIRONMENT = {
    "COLLTUNE_SERVER_RATE_PER_S": "100000",
    "COLLTUNE_SERVER_JUDGE_S": "5",
}


class Site:
    """A service that is started anew after it was killed, and who reports to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = new_token()
        write(
            folder / "tokens", [Token("epilog", frozenset({Scope.SUMMARIES}), digest(self.token))]
        )
        registry = Registry(folder / "registry")
        self.bundle = registry.add(fit(measured(), "knn"))
        registry.promote(self.bundle, by="benchmark")
        (folder / "site.toml").write_text(_SITE)
        self.numbers = count(1)
        self.sent: list[int] = []
        self.server: Server | None = None

    @contextmanager
    def serving(self) -> Iterator[Server]:
        core = str(min(os.sched_getaffinity(0)))
        command = ("taskset", "-c", core, *COMMAND)
        words = ("--site", self.folder / "site.toml", "--tokens", self.folder / "tokens")
        with Server(*words, command=command, environment=_ENVIRONMENT) as server:
            server.await_ready()
            self.server = server
            yield server

    def store(self) -> Store:
        return Store(str(self.folder / "production" / "production.db"), self.folder / "production")

    def report(self, number: int) -> None:
        """Send what a job tells until it is acknowledged."""
        rng = random.Random(number)  # noqa: S311
        of = replace(program(rng.randrange(_PROGRAMS)), release=_RELEASE)
        content = text(job(number, of, int(time.time()), rng, self.bundle))
        headers = {"Authorization": f"Bearer {self.token}"}
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(OSError, HTTPException):
                assert self.server is not None
                answer = self.server.post("/v1/summaries", headers, content)
                if answer.status in (200, 201):
                    self.sent.append(number)
                    return
                if answer.status != 503:
                    sys.exit(f"a report was answered with {answer.status}: {answer.body!r}")
            time.sleep(0.05)
        sys.exit("a report was not taken in time")

    def send(self, until: Event) -> None:
        """Report one job after the other."""
        while not until.is_set():
            self.report(next(self.numbers))


def run() -> Figure:
    """Report jobs to a service as fast as it takes them, then kill it while it is reported to."""
    with tempfile.TemporaryDirectory() as name:
        site = Site(Path(name))
        _fill(site)
        with site.serving() as server:
            peak_mb, per_s = _under_load(site, server)
        _killed(site)
        facts = _counted(site)
    return Figure("loop_service_mb", peak_mb, "MB", per_s, JOBS_A_DAY / _DAY_S, facts)


def _fill(site: Site) -> None:
    """Give the store a part of a day that is to be merged."""
    with closing(site.store()) as store:
        long_ago, rng = time.time() - 5 * _DAY_S, random.Random(0)  # noqa: S311
        for number in range(_TO_MERGE):
            of = replace(program(rng.randrange(_PROGRAMS)), release=_RELEASE)
            # no job of the service's own has such a number
            store.add(job(10**9 + number, of, int(long_ago), rng, site.bundle), long_ago)
        with store.judging(long_ago) as judging:
            assert judging is not None
            judging.done(_TO_MERGE)


def _under_load(site: Site, server: Server) -> tuple[float, float]:
    """Return the peak of memory in MB, and how many reports a second were taken."""
    peak, over = [0.0], Event()

    def watch() -> None:
        while not over.wait(0.2):
            with suppress(OSError):
                peak[0] = max(peak[0], sum(map(_pss_mb, _processes(server.pid))))

    watching = Thread(target=watch)
    watching.start()
    started = time.monotonic()
    with ThreadPoolExecutor(_SENDERS) as pool:
        for _ in range(_SENDERS):
            pool.submit(site.send, over)
        time.sleep(_SECONDS)
        taken, seconds = len(site.sent), time.monotonic() - started
        over.set()
    watching.join()
    return peak[0], taken / seconds


def _killed(site: Site) -> None:
    over = Event()
    with ThreadPoolExecutor(_SENDERS) as pool:
        for _ in range(_SENDERS):
            pool.submit(site.send, over)
        for _ in range(_KILLS):
            # leaving kills it
            with site.serving():
                time.sleep(random.uniform(*_KILLED_AFTER_S))  # noqa: S311
        over.set()
        with site.serving():
            pool.shutdown()
            _await_judged(site)


def _await_judged(site: Site) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    with closing(site.store()) as store:
        while time.monotonic() < deadline:
            if _judged(store) >= len(set(site.sent)) and store.archive_rows(0, ["jobs"]).num_rows:
                return
            time.sleep(1)


def _judged(store: Store) -> int:
    found = latest(store)
    return sum(row.reported for row in found.arms) if found else 0


def _counted(site: Site) -> dict[str, object]:
    """Compare what was acknowledged with what is there."""
    database = Database(str(site.folder / "production" / "production.db"))
    with closing(database), database.reading() as db:
        known = {int(one) for one in db.scalars(sa.select(JOBS.c.job))}
        ours = DETAILS.c.number > _TO_MERGE
        details = db.scalar(sa.select(sa.func.count()).select_from(DETAILS).where(ours))
    with closing(site.store()) as store:
        merged = store.archive_rows(0, ["jobs"]).num_rows
        judged = _judged(store)
    sent = set(site.sent)
    return {
        "reports": len(sent),
        "kills": _KILLS + 1,
        "lost": len(sent - known),
        "twice": int(details or 0) - len({one for one in known if one < 10**9}),
        "judged": judged,
        "merged_rows": merged,
    }


def _processes(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def _pss_mb(pid: int) -> float:
    told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(told.partition("Pss:")[2].split()[0]) / 1024
