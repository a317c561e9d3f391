"""Finds and ends the processes that a launch leaves behind.

Launchers start daemons and programs in process groups and sessions of their own, so that some can
outlive them. All of them have inherited the environment of their launch, in which a variable marks
it (Linux, ``/proc/PID/environ``). The mark names the process that made the launch, so that a later
run tells what nobody waits for any more from what another run is measuring with.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "COLLTUNE_LAUNCH"
"""The environment variable that marks a launch."""
_PROC = Path("/proc")
_POLL_S = 0.02
_WAITS_S = ((0, 0.3), (signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))
"""What a process is sent, and how long it may then take; 0: it may be about to end by itself."""
_SCRIPT = (
    'for p in /proc/[0-9]*; do if grep -qzxF "$0" "$p/environ" 2>/dev/null; '
    'then kill -9 "${p#/proc/}" 2>/dev/null; fi; done; exit 0'
)


class _Owner(NamedTuple):
    """Who made a launch: a process of a host, within a namespace of process ids."""

    host: str
    namespace: int
    pid: int
    started: str


def new_mark() -> str:
    """Return the mark of a launch that this process makes now."""
    owner = _Owner(socket.gethostname(), _namespace(), os.getpid(), _started(os.getpid()))
    return "/".join((*map(str, owner), secrets.token_hex(8)))


def ending_words(mark: str) -> tuple[str, ...]:
    """Return the words of a program that ends on its node all that has `mark`."""
    return ("/bin/sh", "-c", _SCRIPT, f"{MARK}={mark}")


def end_marked(mark: str) -> tuple[int, ...]:
    """End the processes of this user and node that have `mark`; return their ids."""
    return _ended(lambda found: found == mark)


def end_orphans() -> tuple[int, ...]:
    """End what is left of launches whose process was killed; return the ids of processes."""
    return _ended(_is_orphan)


def _ended(is_wanted: Callable[[str], bool]) -> tuple[int, ...]:
    found = {pid: handle for pid in _own() if (handle := _handle(pid, is_wanted)) is not None}
    try:
        left = dict(found)
        for number, wait_s in _WAITS_S:
            for handle in left.values():
                with suppress(OSError):
                    signal.pidfd_send_signal(handle, number)
            ends = time.monotonic() + wait_s
            while (left := _alive(left)) and time.monotonic() < ends:
                time.sleep(_POLL_S)
        return tuple(found)
    finally:
        for handle in found.values():
            os.close(handle)


def _own() -> list[int]:
    """Return the processes of this user, without this one."""
    found = []
    with suppress(OSError):
        for entry in _PROC.iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and entry.stat().st_uid == os.geteuid():
                    found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def _handle(pid: int, is_wanted: Callable[[str], bool]) -> int | None:
    """Return a handle of the process if its mark is wanted, so that none is mistaken for it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return None
    prefix = f"{MARK}=".encode()
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            if entry.startswith(prefix) and is_wanted(entry.removeprefix(prefix).decode("latin-1")):
                return handle
    os.close(handle)
    return None


def _alive(handles: dict[int, int]) -> dict[int, int]:
    """Return those of `handles` whose process has not ended; one that nobody waited for has."""
    alive = {}
    for pid, handle in handles.items():
        with suppress(OSError):
            signal.pidfd_send_signal(handle, 0)
            if _stat(pid)[:1] not in (["Z"], []):
                alive[pid] = handle
    return alive


def _is_orphan(mark: str) -> bool:
    """Tell whether the process that made a launch is dead, as far as it can be seen from here."""
    words = mark.split("/")
    if len(words) != len(_Owner._fields) + 1 or not (words[1] + words[2]).isdecimal():
        return False
    owner = _Owner(words[0], int(words[1]), int(words[2]), words[3])
    here = (owner.host, owner.namespace) == (socket.gethostname(), _namespace())
    return here and _started(owner.pid) != owner.started


def _namespace() -> int:
    try:
        return (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _stat(pid: int) -> list[str]:
    """Return the words of a process's ``stat`` behind its name."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _started(pid: int) -> str:
    """Return when a process started, in ticks since the boot; empty if there is none."""
    words = _stat(pid)
    return words[19] if len(words) > 19 else ""
