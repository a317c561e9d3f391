"""What a registry asks of the place that it lies in, and how a folder gives it, without locks.

The folder is on a local file system, or on NFS and its like. Nothing here asks a server for locks,
or expects that a lock of one host is seen on another.

- A file that must be made once (an event of the history) is written under a temporary name, forced
  to disk, and given its name by link(2), which fails if the name is taken. On NFS it is the server
  that does so, at once. Its answer can get lost and the request be repeated, which then fails
  although it was done; the temporary file has two links in that case, and that counts.
- A bundle is written into a temporary folder, forced to disk, and renamed. Whoever comes second
  finds a folder there and is content, since equal names mean equal content.
- ``current/<slot>`` is made under a temporary name and renamed.
- An NFS client remembers listings and absent names for as long as its attributes live, 30 to 60 s
  unless mounted otherwise (``acdirmin``, ``acdirmax``, ``lookupcache=positive``). Readers see a
  promotion after that time at most. Writers make and remove a file in a folder before they list it,
  upon which the client asks the server.
- Ages are told by the clock that sets the files' times, which is the server's.

Of the file system it needs link(2) within a folder, and rename(2).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from colltune.errors import BundleError, say
from colltune.files import writing
from colltune.files.temporary import ABANDONED_S, is_left, is_left_name, sweep, temporary_name
from colltune.models.bundle import Bundle, load

_MEND = "Make room, or correct the permissions."
MANIFEST = "manifest.json"
"""A bundle's file that is written last and removed first: without it there is no bundle."""


class RegistryStore(Protocol):
    """A tree of small files under ``where``; keys are paths below it, ``history/00000001.json``.

    What cannot be read is a `BundleError`, what cannot be written an `OutputError`.
    """

    where: str
    lists_late: bool
    """Whether `names` may not tell of what another machine wrote just now, asked freshly or not."""

    def names(self, folder: str, *, fresh: bool = False) -> list[str]:
        """Return the names in `folder`, sorted, without those being written; none if it is absent.

        `fresh` asks for what is there now even if that costs more, not for what a cache remembers.
        """

    def read(self, key: str) -> bytes | None:
        """Return the content of a file, None if it is absent."""

    def create(self, key: str, content: bytes) -> bool:
        """Make a file that appears whole, unless there is one; tell whether it was made.

        Of any number of writers at once exactly one makes it.
        """

    def put_folder(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Make a folder that appears whole, unless there is one; the manifest comes last."""

    def remove(self, key: str) -> None:
        """Remove a folder, or a file, if it is there; what goes is gone at once for readers."""

    def described(self, folder: str) -> Bundle:
        """Return the bundle in `folder` without its models."""

    def local(self, folder: str, *, fresh: bool = False) -> Path:
        """Return a folder on this machine that holds the bundle in `folder`.

        A folder that is a symbolic link, or holds anything but plain files, is refused. `fresh`
        asks for what is in the store now, even if there is a copy.
        """

    def forget_local(self, folder: str) -> bool:
        """Remove this machine's copy of `folder`; tell whether there was a copy to remove."""

    def size_bytes(self, folder: str) -> int:
        """Return how much the files of `folder` hold."""

    def age_s(self, key: str) -> float | None:
        """Return for how long something has been as it is, by the store's clock; None if absent."""

    def leftovers(self) -> list[str]:
        """Return the keys of files and folders whose writing was begun and never ended."""

    def touch(self, key: str) -> None:
        """Make the age of a file 0, if that is permitted."""

    def point(self, name: str, bundle_id: str) -> None:
        """Let ``current/<name>`` stand for a bundle, switched at once."""

    def pointed(self, name: str) -> str | None:
        """Return for which bundle ``current/<name>`` stands, None if for none."""


def is_abandoned(store: RegistryStore, key: str) -> bool:
    """Tell whether the file `key`, which holds the mark of who made it, is left over."""
    age_s, made_by = store.age_s(key), b""
    with suppress(BundleError):
        made_by = store.read(key) or b""
    return age_s is None or is_left(made_by.decode("ascii", "replace"), age_s)


_NUMBERED = re.compile(r"(\d{8})\.json")


def numbered(folder: str, number: int) -> str:
    """Return the key of the file with that number in a folder of numbered files."""
    return f"{folder}/{number:08d}.json"


def numbers(store: RegistryStore, folder: str, *, fresh: bool = False) -> list[int]:
    """Return the numbers of the files in a folder, ascending."""
    matches = map(_NUMBERED.fullmatch, store.names(folder, fresh=fresh))
    return [int(match[1]) for match in matches if match]


_CURRENT = "current"
_BUNDLES = "bundles"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_FORMER = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
"""Temporary names of earlier releases."""
_WRITTEN = ("bundles/.*", "current/.*", "history/.*", "reports/*/.*", "work/.*", ".c*")
"""Where temporary names can be."""
_MOST_BYTES = 1 << 24


class FolderStore:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)
        self.lists_late = True

    def names(self, folder: str, *, fresh: bool = False) -> list[str]:
        path = self.root / folder
        if fresh:
            with suppress(OSError):
                probe = temporary_name(path / "fresh")
                probe.touch(exist_ok=False)
                probe.unlink()
        try:
            # servers list the history each second, and Path objects cost ten times as much
            found = sorted(os.listdir(path))  # noqa: PTH208
        except FileNotFoundError:
            self._check_root()
            return []
        except OSError as error:
            raise say("cannot-read", BundleError, place=path, why=error.strerror) from error
        return [name for name in found if not name.startswith(".")]

    def _check_root(self) -> None:
        if not self.root.is_dir():
            what = "this is not a folder" if self.root.exists() else "no such registry"
            raise say("no-registry-here", registry=self.root, what=what)

    def read(self, key: str) -> bytes | None:
        path = self.root / key
        try:
            return _plain_content(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise say("cannot-read", BundleError, place=path, why=error.strerror) from error

    def create(self, key: str, content: bytes) -> bool:
        target = self.root / key
        temporary = temporary_name(target)
        with writing(target, _MEND):
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep(target.parent)
            try:
                _write_synced(temporary, content)
                made = _linked(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            if made:
                _sync_folder(target.parent)
            return made

    def put_folder(self, folder: str, files: Mapping[str, bytes]) -> None:
        target = self.root / folder
        temporary = temporary_name(target)
        with writing(target, _MEND):
            sweep(target.parent)
            try:
                temporary.mkdir(parents=True)
                for name, content in files.items():
                    _write_synced(temporary / name, content)
                try:
                    temporary.rename(target)
                except OSError:
                    if not target.is_dir():
                        raise
                _sync_folder(target.parent)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def remove(self, key: str) -> None:
        target = self.root / key
        with writing(target, _MEND):
            if target.is_symlink() or not target.is_dir():
                target.unlink(missing_ok=True)
                return
            doomed = temporary_name(target)
            with suppress(FileNotFoundError):
                target.rename(doomed)
                shutil.rmtree(doomed)

    def described(self, folder: str) -> Bundle:
        return load(self.local(folder), ())

    def local(self, folder: str, *, fresh: bool = False) -> Path:
        """Return the folder itself, if it is plain."""
        del fresh
        try:
            return plain_folder(self.root / folder)
        except FileNotFoundError:
            self._check_root()
            raise say("no-such-bundle", path=self.root / folder) from None

    def forget_local(self, folder: str) -> bool:
        del folder
        return False

    def size_bytes(self, folder: str) -> int:
        with os.scandir(self.root / folder) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)

    def age_s(self, key: str) -> float | None:
        try:
            then_s = (self.root / key).lstat().st_mtime
        except OSError:
            return None
        return self._now_s() - then_s

    def _now_s(self) -> float:
        probe = temporary_name(self.root / "clock")
        try:
            probe.touch(exist_ok=False)
        except OSError:
            # nothing can be written, so nothing will be removed either
            return time.time()
        now_s = probe.stat().st_mtime
        probe.unlink()
        return now_s

    def leftovers(self) -> list[str]:
        found = (path for pattern in _WRITTEN for path in self.root.glob(pattern))
        keys = [path.relative_to(self.root).as_posix() for path in found]
        return sorted(key for key in keys if self._is_left(key))

    def _is_left(self, key: str) -> bool:
        age_s, name = self.age_s(key), key.rpartition("/")[2]
        is_old = age_s is not None and age_s > ABANDONED_S and _FORMER.fullmatch(name) is not None
        return is_old or (age_s is not None and is_left_name(name, age_s))

    def touch(self, key: str) -> None:
        with suppress(OSError):
            os.utime(self.root / key)

    def point(self, name: str, bundle_id: str) -> None:
        """Switch the symbolic link ``current/<name>``."""
        link = self.root / _CURRENT / name
        temporary = temporary_name(link)
        with writing(link, _MEND):
            link.parent.mkdir(parents=True, exist_ok=True)
            sweep(link.parent)
            try:
                temporary.symlink_to(Path("..", _BUNDLES, bundle_id))
                temporary.replace(link)
            finally:
                temporary.unlink(missing_ok=True)

    def pointed(self, name: str) -> str | None:
        try:
            return (self.root / _CURRENT / name).readlink().name
        except OSError:
            return None


def plain_folder(path: Path) -> Path:
    """Return `path`, which must be a folder of plain files and no symbolic link."""
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise say("not-a-folder-of-its-own", path=path)
        with os.scandir(path) as entries:
            strange = [e.name for e in entries if not e.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise say("cannot-read", BundleError, place=path, why=error.strerror) from error
    if strange:
        raise say("not-regular", BundleError, path=path / strange[0])
    return path


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _linked(temporary: Path, target: Path) -> bool:
    try:
        os.link(temporary, target)
    except OSError as error:
        if temporary.stat().st_nlink == 2:
            return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno in _NO_LINKS:
            raise OSError(error.errno, "this file system has no hard links") from error
        raise
    return True


def _sync_folder(folder: Path) -> None:
    """Make names last through a power cut, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _plain_content(path: Path) -> bytes:
    """Read a file that must not be a symbolic link, a device or a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, f"{found.st_size} bytes are too many for such a file")
        return stream.read()
