"""What the store takes for a year of a site with 10,000 nodes and 100,000 jobs a day.

A tenth of a day is reported and merged as the service does it, which tells what a summary takes in
the database and what merging needs. Whole days are merged without the database; their mean
stands for the 365 of a year. Beside them the database has four days of summaries, and the ids of
two weeks.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

from colltune.production.archive import Archive, ArchivePart
from colltune.production.store import DAYS_KEPT, LATEST_S, Store
from figures.figure import Figure
from figures.production_jobs import BEGUN, JOBS_A_DAY, jobs

_REPORTED = JOBS_A_DAY // 10
_DAYS = (1, 2, 3)
_DAY_S = 86400
_MERGING = """
import json, sys, time
from pathlib import Path
from colltune.production.store import Store
def kib(name):
    status = Path("/proc/self/status").read_text()
    return int(status.partition(name + ":")[2].split()[0])
store = Store(sys.argv[1], Path(sys.argv[2]))
store.read("")
before, started = kib("VmRSS"), time.perf_counter()
store.merge_days(float(sys.argv[3]))
seconds = time.perf_counter() - started
print(json.dumps({"merging_mb": (kib("VmHWM") - before) / 1024, "merging_s": seconds}))
"""


def run() -> Figure:
    """Extrapolate the store's size after a year from days that were really kept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ProcessPoolExecutor(1) as pool:
            merged = pool.map(_merged_bytes, [folder] * len(_DAYS), _DAYS)
            facts = _reported(folder)
            sizes = list(merged)
    days_kept = {"summary_bytes": DAYS_KEPT + 1, "id_bytes": LATEST_S / _DAY_S}
    database = sum(days * JOBS_A_DAY * float(str(facts[what])) for what, days in days_kept.items())
    archive = 365 * sum(sizes) / len(sizes)
    facts |= {
        "day_mb": [round(size / 1e6, 2) for size in sizes],
        "archive_gb": round(archive / 1e9, 2),
        "database_gb": round(database / 1e9, 2),
    }
    return Figure("loop_storage_gb", (archive + database) / 1e9, "GB", archive / 1e9, 5.0, facts)


def _merged_bytes(folder: Path, day: int) -> int:
    """Return what a whole day takes in the archive."""
    archive = Archive(folder / "archive")
    part = ArchivePart(f"2026-11-{day:02}", 1, 1, JOBS_A_DAY)
    with archive.merging(part) as merged:
        for summary in jobs(day):
            merged.take(summary)
    return (folder / "archive" / part.file).stat().st_size


def _reported(folder: Path) -> dict[str, object]:
    """Report and merge a part of a day; return what it took."""
    path, archive = folder / "production.db", folder / "reported"
    store = Store(str(path), archive)
    taking_s = 0.0
    for summary in jobs(0, _REPORTED):
        started = time.perf_counter()
        store.add(summary, BEGUN)
        taking_s += time.perf_counter() - started
    with store.judging(BEGUN) as judging:
        assert judging is not None
        judging.done(_REPORTED)
    store.close()
    whole = path.stat().st_size
    command = [sys.executable, "-c", _MERGING, str(path), str(archive), str(BEGUN + 5 * _DAY_S)]
    told = subprocess.run(command, check=True, capture_output=True, timeout=600)
    # the ids are left
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    ids = path.stat().st_size
    return {
        "summary_bytes": round((whole - ids) / _REPORTED),
        "id_bytes": round(ids / _REPORTED),
        "taken_per_s": round(_REPORTED / taking_s),
        **json.loads(told.stdout),
    }
