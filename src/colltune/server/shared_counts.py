"""Files in which several workers count together, in memory that is mapped from them.

A worker that writes to mapped memory for which the disk has no room is killed by the system, so
that the room is taken before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from colltune.errors import OutputError

_KINDS = ("counter", "histogram")
_RESERVED_BYTES = 1 << 18
"""Of each kind, per worker; some thousand series."""
_IN_MEMORY = "/dev/shm"  # noqa: S108


def folder_to_count_in(workers: int) -> Path:
    """Make a folder with room for so many workers: among temporary files, else in memory.

    Raises
    ------
    OutputError
        If there is none.
    """
    reasons = []
    for parent in (None, _IN_MEMORY):
        try:
            folder = Path(tempfile.mkdtemp(prefix="colltune-metrics-", dir=parent))
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


def reserve(folder: Path) -> None:
    """Take the room for what this process will count.

    Raises
    ------
    OSError
        If there is none.
    """
    for kind in _KINDS:
        _allocate(folder / f"{kind}_{os.getpid()}.db", _RESERVED_BYTES)


def _allocate(file: Path, size_bytes: int) -> None:
    with file.open("ab") as stream:
        os.posix_fallocate(stream.fileno(), 0, size_bytes)
