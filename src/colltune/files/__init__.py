"""Writes files whole or not at all, one process at a time where that matters."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from colltune.errors import OutputError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what was written there becomes `path` at the end."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(_cannot_write(path, error.strerror or str(error))) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` as `whole` does."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def insist_writable(path: Path, *, folder: bool | None = None) -> None:
    """Insist that `path` can be written, before long work is done for it."""
    try:
        is_folder = path.is_dir()
        if folder is not None and path.exists() and is_folder != folder:
            raise OutputError(_cannot_write(path, f"it is a {'folder' if is_folder else 'file'}"))
        around = (place for place in path.absolute().parents if place.exists())
        with tempfile.TemporaryFile(dir=path if is_folder else next(around)):
            pass
    except OSError as error:
        raise OutputError(_cannot_write(path, error.strerror or str(error))) from error


def _cannot_write(path: Path, why: str) -> str:
    return f"cannot write {path}: {why}; name a writable place"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that the file `path` stands for; whoever else wants it waits."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a")
    except OSError as error:
        raise OutputError(_cannot_write(path, error.strerror or str(error))) from error
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
