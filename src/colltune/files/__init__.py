"""Writes files whole or not at all, one process at a time where that matters."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from colltune.errors import say
from colltune.files.temporary import sweep, temporary_name


@contextmanager
def writing(what: Path | str, mend: str = "Name a writable place.") -> Iterator[None]:
    """Make one error of what the system says where something cannot be written."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise say("cannot-write", what=what, why=why, mend=mend) from error


@contextmanager
def whole(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what was written there becomes `path` at the end.

    A device, a pipe or a folder of that name stays what it is: that is an `OutputError`.

    With a `mode` the file has it whatever the umask, and is its user's alone until it is whole;
    folders that are made for it let nobody else write, and let those in who may read it. Without,
    files and folders are as the umask says.
    """
    # forced to disk before it is renamed: nobody reads a part, two writers leave one whole file
    temporary = temporary_name(path)
    try:
        with writing(path):
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "it is not a regular file")
            if mode is None:
                path.parent.mkdir(parents=True, exist_ok=True)
            else:
                make_folder(path.parent, 0o755, exactly=bool(mode & stat.S_IROTH))
                os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            sweep(path.parent)
            yield temporary
            with temporary.open("rb") as stream:
                if mode is not None:
                    os.fchmod(stream.fileno(), mode)
                os.fsync(stream.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, mode: int | None = None) -> None:
    """Write `text` to `path` as `whole` does."""
    with whole(path, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def make_folder(path: Path, mode: int, *, exactly: bool = False) -> None:
    """Make the folder `path`, and those above it that are missing, with `mode`.

    A umask takes bits away unless it is to be `exactly` that mode. Folders that are there stay as
    they are.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=mode)
            inherited = folder.stat().st_mode & (stat.S_ISGID | stat.S_ISVTX)
            if exactly:
                folder.chmod(mode | inherited)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def insist_writable(path: Path, *, folder: bool | None = None) -> None:
    """Insist that `path` can be written, before long work is done for it.

    `folder` tells whether it is to be a folder or a file, None that it can be either.
    """
    with writing(path):
        is_folder = path.is_dir()
        if folder is not None and path.exists() and is_folder != folder:
            raise OSError(f"it is a {'folder' if is_folder else 'file'}")
        around = (place for place in path.absolute().parents if place.exists())
        import tempfile  # noqa: PLC0415 (a cold select does without)

        with tempfile.TemporaryFile(dir=path if is_folder else next(around)):
            pass


@contextmanager
def locked(path: Path, mode: int = 0o666) -> Iterator[None]:
    """Hold the lock that the file `path` stands for; whoever else wants it waits.

    On a file system without locks, whoever else wants it is refused.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode), "w")
    # the system releases it when the process ends in whatever way
    with stream, ExitStack() as held:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError:
            held.enter_context(_made_alone(path.with_name(f"{path.name}.held")))
        yield


@contextmanager
def _made_alone(path: Path) -> Iterator[None]:
    """Make the file `path`, which nobody else may have made, and remove it at the end."""
    with writing(path, "Try again when it has ended; remove this file if it was killed."):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError as error:
            raise OSError("another process is at it") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Return the folder for copies that can be made again.

    ``$COLLTUNE_CACHE``, ``$XDG_CACHE_HOME/colltune`` or ``~/.cache/colltune``.
    """
    own = os.environ.get("COLLTUNE_CACHE")
    if own:
        return Path(own)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "colltune"
