"""One retraining at a time, wherever the registry lies: a lease made of numbered files.

``retraining/00000007.json`` in the registry is the lease of whoever made it; the highest number
counts. Each file is made exclusively (link(2), or a conditional put), so that of several who want
the next number exactly one gets it; nothing that counts is ever replaced or removed by others, as a
lock file that is broken and made again would be. ``00000007.released`` says that it was given back.

A holder touches its file several times a minute. It is taken for dead when the file is older than
``patience_s`` by the clock that sets the files' times, that of the file server or the object store,
so that the clocks of hosts do not matter; at once when the holder was a process of this very host
and that is gone. A file from the future (that clock was set back) is watched for a while: a holder
that lives touches it. Whoever was only paused and comes back finds a higher number and gives up.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from colltune.errors import BUSY, ColltuneError, ProgramError, say
from colltune.files.reading import json_of
from colltune.registry.registry import RETRAINING
from colltune.registry.store import RegistryStore

PATIENCE_S = 300.0
_BEATS = 15
_PROC = Path("/proc")


class LeaseTakenError(ColltuneError):
    """Another retraining of this registry is at it."""

    exit_status = BUSY


class LeaseLostError(ProgramError):
    """The lease went to another process, since this one was paused for too long."""


@dataclass(frozen=True)
class Lease:
    """A lease that is held; ``took_over`` says whose it was if they died holding it."""

    store: RegistryStore
    number: int
    took_over: str | None = None

    def check(self) -> None:
        """Make sure that it is still held."""
        if _highest(self.store) != self.number:
            raise say("taken-over", LeaseLostError, place=self.store.where, what="retraining")


@contextmanager
def held(
    store: RegistryStore,
    *,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Lease]:
    """Hold the lease of the registry in `store`."""
    me = _me()
    ended = threading.Event()
    beat = None
    # a signal may come as soon as the lease is there, before anybody knows its number
    try:
        lease = _taken(store, me, patience_s, sleep)
        every_s = patience_s / _BEATS
        beat = threading.Thread(
            target=_beat, args=(store, lease.number, every_s, ended), daemon=True
        )
        beat.start()
        yield lease
    finally:
        ended.set()
        if beat is not None and beat.is_alive():
            beat.join()
        with suppress(ColltuneError):
            _give_back(store, me)


def _taken(
    store: RegistryStore, me: dict[str, object], patience_s: float, sleep: Callable[[float], None]
) -> Lease:
    highest = _highest(store)
    took_over = None
    if highest and not _is_released(store, highest):
        took_over = _dead_holder(store, highest, patience_s, sleep)
    number = highest + 1
    if not store.create(_key(number), json.dumps(me, indent=1).encode()):
        raise say("just-started", LeaseTakenError, registry=store.where)
    if _highest(store) != number:
        store.remove(_key(number))
        raise say("just-started", LeaseTakenError, registry=store.where)
    for name in store.names(RETRAINING):
        if _number(name) < number:
            store.remove(f"{RETRAINING}/{name}")
    return Lease(store, number, took_over)


def _dead_holder(
    store: RegistryStore, number: int, patience_s: float, sleep: Callable[[float], None]
) -> str:
    """Return who holds the lease `number`, if they are dead; raise `LeaseTakenError` if not."""
    holder = _holder(store, number)
    shown = f"process {holder.get('pid', '?')} on {holder.get('host', 'an unknown host')}"
    if _is_gone(holder):
        return shown
    age_s = store.age_s(_key(number))
    if age_s is not None and age_s < 0:
        sleep(2.5 * patience_s / _BEATS)
        later_s = store.age_s(_key(number))
        if later_s is None or later_s < 0:
            return shown
    elif age_s is None or age_s > patience_s:
        return shown
    since = holder.get("since_utc", "?")
    raise say("is-retraining", LeaseTakenError, registry=store.where, holder=shown, since=since)


def _is_gone(holder: dict[str, object]) -> bool:
    """Tell whether the holder was a process that this system could see, and is no more."""
    mine = _me()
    same = all(holder.get(key) == mine[key] is not None for key in ("boot", "pid_space"))
    pid = holder.get("pid")
    if not same or not isinstance(pid, int):
        return False
    return _started(pid) != holder.get("started")


def _me() -> dict[str, object]:
    boot = pid_space = None
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        pid_space = str((_PROC / "self/ns/pid").readlink())
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "boot": boot,
        "pid_space": pid_space,
        "since_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "token": secrets.token_hex(8),
    }


def _started(pid: int) -> str | None:
    """Return when a process began, in ticks since boot, None if there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def _holder(store: RegistryStore, number: int) -> dict[str, object]:
    try:
        found = json_of(store.read(_key(number)) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_released(store: RegistryStore, number: int) -> bool:
    return f"{number:08}.released" in store.names(RETRAINING, fresh=True)


def _give_back(store: RegistryStore, me: dict[str, object]) -> None:
    """Say that my lease is free; where nothing can be written, removing it says so, too."""
    number = _highest(store)
    if _holder(store, number).get("token") != me["token"]:
        return
    try:
        store.create(f"{RETRAINING}/{number:08}.released", b"")
    except ColltuneError:
        with suppress(ColltuneError):
            store.remove(_key(number))


def _beat(store: RegistryStore, number: int, every_s: float, ended: threading.Event) -> None:
    while not ended.wait(every_s):
        with suppress(ColltuneError, OSError):
            store.touch(_key(number))


def _highest(store: RegistryStore) -> int:
    return max((_number(name) for name in store.names(RETRAINING, fresh=True)), default=0)


def _number(name: str) -> int:
    stem, _, ending = name.partition(".")
    return int(stem) if stem.isdigit() and ending in ("json", "released") else 0


def _key(number: int) -> str:
    return f"{RETRAINING}/{number:08}.json"
