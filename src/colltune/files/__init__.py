"""Writes files whole or not at all, one process at a time where that matters."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from colltune.errors import OutputError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what was written there becomes `path` at the end.

    The content is forced to disk before it is renamed, so that nobody ever reads a part of it, and
    two writers at once leave one whole file. Folders are made as needed.

    Raises
    ------
    OutputError
        If it cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; name a writable place"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that the file `path` stands for; whoever else wants it waits.

    The system releases it when the process ends in whatever way. A file system without locks gives
    none. Folders are made as needed.

    Raises
    ------
    OutputError
        If the file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a")
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; name a writable place"
        ) from error
    with stream:
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    """Return the folder for copies that can be made again.

    ``$COLLTUNE_CACHE``, ``$XDG_CACHE_HOME/colltune`` or ``~/.cache/colltune``.
    """
    own = os.environ.get("COLLTUNE_CACHE")
    if own:
        return Path(own)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "colltune"
