"""Files in which several workers count together, in memory that is mapped from them.

A worker that writes to mapped memory for which the disk has no room is killed by the system, so
that the room is taken before.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from colltune.errors import OutputError

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
