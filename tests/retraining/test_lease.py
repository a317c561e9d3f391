"""The lease of a registry: one retraining at a time, on file systems without locks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from colltune.registry.registry import RETRAINING
from colltune.registry.store import FolderStore
from colltune.retraining.lease import LeaseLostError, LeaseTakenError, held
from tests.refusals import refused

_OTHERS = {"host": "other", "pid": 1, "boot": "another", "pid_space": "x", "started": "1"}


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """Return an empty registry's store."""
    return FolderStore(tmp_path)


def _foreign(store: FolderStore, age_s: float, number: int = 1) -> Path:
    """Leave the lease of a process on another host, last touched so long ago."""
    store.create(f"{RETRAINING}/{number:08}.json", json.dumps(_OTHERS).encode())
    path = store.root / RETRAINING / f"{number:08}.json"
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


def test_a_second_one_is_refused_until_the_first_ends(store: FolderStore) -> None:
    """While a lease is held nobody gets it, and is told who holds it; afterwards one does."""
    with held(store), refused("is-retraining", LeaseTakenError) as raised:
        held(store).__enter__()
    assert raised.value.values["holder"].startswith(f"process {os.getpid()} on ")
    with held(store) as lease:
        assert lease.took_over is None


class InterruptedStore(FolderStore):
    """A store in which a signal arrives just when a lease has been made."""

    def create(self, key: str, content: bytes) -> bool:
        """Make it, and be stopped."""
        made = super().create(key, content)
        if key.endswith(".json"):
            raise KeyboardInterrupt
        return made


def test_a_signal_just_after_the_lease_was_made_gives_it_back(store: FolderStore) -> None:
    """Nobody finds the lease of a process that was stopped before it knew that it had one."""
    with pytest.raises(KeyboardInterrupt):
        held(InterruptedStore(store.root)).__enter__()
    with held(store) as lease:
        assert lease.number == 2
        assert lease.took_over is None


def test_of_many_at_once_one_gets_it(store: FolderStore) -> None:
    """Eight that ask at the same moment never hold it together, and one of them holds it."""
    barrier, inside, together = Barrier(8), [], []

    def ask(_: int) -> bool:
        barrier.wait()
        try:
            with held(store):
                inside.append(1)
                together.append(len(inside))
                time.sleep(0.3)
                inside.pop()
                return True
        except LeaseTakenError:
            return False

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(ask, range(8)))
    assert sum(got) == 1
    assert max(together) == 1


def test_the_lease_of_a_killed_process_is_taken_over_at_once(store: FolderStore) -> None:
    """A holder on this host that was killed with SIGKILL is recognised without waiting."""
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from colltune.registry.store import FolderStore\n"
        "from colltune.retraining.lease import held\n"
        f"with held(FolderStore(Path({str(store.root)!r}))):\n"
        "    print('held', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(LeaseTakenError):
            held(store).__enter__()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with held(store) as lease:
            assert lease.took_over is not None
            assert str(process.pid) in lease.took_over


def test_a_silent_holder_elsewhere_is_given_up_after_a_while(store: FolderStore) -> None:
    """A holder on another host counts as dead only when its file is older than the patience."""
    path = _foreign(store, age_s=100.0)
    with refused("is-retraining", LeaseTakenError, holder="process 1 on other"):
        held(store, patience_s=300.0).__enter__()
    os.utime(path, (time.time() - 400.0,) * 2)
    with held(store, patience_s=300.0) as lease:
        assert lease.took_over == "process 1 on other"


def test_a_lease_from_the_future_is_watched(store: FolderStore) -> None:
    """After the clock went back, a holder that touches its file lives; another one is dead."""
    path = _foreign(store, age_s=-5000.0)
    with pytest.raises(LeaseTakenError):
        held(store, sleep=lambda _s: os.utime(path)).__enter__()
    os.utime(path, (time.time() + 5000.0,) * 2)
    waited: list[float] = []
    with held(store, sleep=waited.append) as lease:
        assert lease.took_over is not None
    assert waited == [50.0]


def test_a_holder_that_was_paused_finds_that_it_lost_it(store: FolderStore) -> None:
    """Whoever comes back after another took over is told before it promotes anything."""
    with held(store) as lease:
        lease.check()
        store.create(f"{RETRAINING}/00000002.json", b"{}")
        with refused("taken-over", LeaseLostError):
            lease.check()


def test_a_holder_shows_that_it_lives(store: FolderStore) -> None:
    """A held lease is touched again and again, so that its age stays below the patience."""
    with held(store, patience_s=0.6):
        path = store.root / RETRAINING / "00000001.json"
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 120.0
        while path.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[1, 2]", b'{"pid": "x"}', b"[" * 9999])
def test_a_damaged_lease_is_no_obstacle_for_ever(store: FolderStore, content: bytes) -> None:
    """Whatever stands in a lease's file, it holds no longer than the patience."""
    store.create(f"{RETRAINING}/00000001.json", content)
    with pytest.raises(LeaseTakenError):
        held(store).__enter__()
    os.utime(store.root / RETRAINING / "00000001.json", (0, 0))
    with held(store) as lease:
        assert lease.number == 2
