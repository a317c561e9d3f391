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
def writing(what: Path | str, mend: str = "Name a writable place.") -> Iterator[None]:
    """Make one error of what the system says where something cannot be written."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {what}: {error.strerror or error}. {mend}") from error


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what was written there becomes `path` at the end."""
    # forced to disk before it is renamed: nobody reads a part, two writers leave one whole file
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` as `whole` does."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def insist_writable(path: Path, *, folder: bool | None = None) -> None:
    """Insist that `path` can be written, before long work is done for it.

    `folder` tells whether it is to be a folder or a file, None that it can be either.
    """
    with writing(path):
        is_folder = path.is_dir()
        if folder is not None and path.exists() and is_folder != folder:
            raise OSError(f"it is a {'folder' if is_folder else 'file'}")
        around = (place for place in path.absolute().parents if place.exists())
        with tempfile.TemporaryFile(dir=path if is_folder else next(around)):
            pass


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that the file `path` stands for; whoever else wants it waits."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a")
    # the system releases it when the process ends in whatever way
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
