"""Ends a night with SIGKILL before each thing that it does to the file system, in turn.

Started as a program of its own with a site's folder: prints one JSON line per point, with what was
in force after the kill, and what the next night did. Copies of the folder are made, and each night
runs in a forked child, since importing takes longer than a night.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from colltune.registry import Registry
from tests.retraining.site import SHAPES, launch, retrain, site_of

_LENIENT = (
    "[promote]\nregret_worse_by = 9\nshare_worse_by = 9\nharm_worse_by = 1\nharm_at_most = 1\n"
)
_CALLS = ("link", "rename", "replace", "unlink", "fsync", "symlink", "mkdir")


def main(root: Path, every: int) -> None:
    """Kill at every so many-th point until a night ends by itself."""
    retrain(site_of(root, _LENIENT))
    launch(root / "data", "new", seed=50, shapes=SHAPES[::2])
    at = 1
    while True:
        copy = root.with_name(f"{root.name}-{at}")
        shutil.copytree(root, copy, symlinks=True)
        status = _in_child(copy, at)
        after_kill = _state(copy)
        mended = _in_child(copy, None)
        line = {
            "at": at,
            "killed": os.WIFSIGNALED(status),
            "after_kill": after_kill,
            "mended": os.waitstatus_to_exitcode(mended),
            "after_mending": _state(copy),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        shutil.rmtree(copy)
        if not os.WIFSIGNALED(status):
            return
        at += every


def _in_child(root: Path, kill_at: int | None) -> int:
    """Return the wait status of a forked child that runs a night."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(_night(root, kill_at))
        finally:
            os._exit(99)
    return os.waitpid(pid, 0)[1]


def _night(root: Path, kill_at: int | None) -> int:
    if kill_at is not None:
        _count_down([kill_at])
    return retrain(site_of(root, _LENIENT)).exit_status


def _count_down(left: list[int]) -> None:
    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def function(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return function

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))


def _state(root: Path) -> dict[str, Any]:
    registry = Registry(root / "registry")
    event = registry.current()["openmpi-4.1.4"]
    registry.load(event.bundle_id)
    damaged = [i for i in registry.ids() if i not in {e.id for e in registry.entries()}]
    return {"in_force": event.bundle_id, "events": event.sequence, "damaged": damaged}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
