"""Processes that use a store and are killed: ``python -m tests.production.reporting WHAT …``."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from colltune.production.store import Store
from tests.production.summaries import SUMMARY

NOW = 1_793_000_000.0
DAY_S = 86400.0
_STEPS = ("commit", "execute", "executemany", "fsync", "rename", "replace", "unlink", "rmdir")


def add(url: str, first: str, last: str) -> None:
    """Report jobs, and print each that was taken as new."""
    store = Store(url, Path("unused"))
    for number in range(int(first), int(last)):
        if store.add(replace(SUMMARY, job=str(number)), NOW):
            _tell(number)


def judge(url: str, now: str) -> None:
    """Judge a few at a time until none is left; how often each was judged is kept."""
    store = Store(url, Path("unused"))
    while True:
        with store.judging(float(now)) as judging:
            assert judging is not None
            _tell("begun")
            new = judging.new(3)
            times = judging.get(f"judged/{one.summary.job}" for one in new)
            keys = [f"judged/{one.summary.job}" for one in new]
            judging.put({key: times.get(key, 0) + 1 for key in keys})
            if not new:
                return
            judging.done(new[-1].number)


def merge(folder: str, every: str) -> None:
    """Merge a copy of the folder's store once for every so-many-th step, and die at that step."""
    at = 0
    while True:
        copy = Path(folder).with_name(f"died-at-{at}")
        shutil.copytree(folder, copy)
        child = os.fork()
        if not child:
            _die_at(at)
            Store(str(copy / "production.db"), copy / "archive").merge_days(NOW + 6 * DAY_S)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return
        at += int(every)


def _tell(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _die_at(step: int) -> None:
    steps = 0

    def count(frame: FrameType, event: str, what: Any) -> None:
        nonlocal steps
        ours = "/colltune/production/" in frame.f_code.co_filename and event in ("call", "return")
        writes = event in ("c_call", "c_return") and what.__name__ in _STEPS
        steps += ours or writes
        if steps > step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


if __name__ == "__main__":
    work: dict[str, Callable[..., None]] = {"add": add, "judge": judge, "merge": merge}
    work[sys.argv[1]](*sys.argv[2:])
