"""A registry in an object store, through fsspec: S3 and what speaks its protocol.

- A file that must be made once is put with ``If-None-Match: *``, upon which the store refuses to
  replace one. A request whose answer got lost is repeated by the client and then refused although
  it was done; therefore what lies there is compared with what was to be put. Stores that ignore the
  condition are found out by trying, before the first event is written, and refused for writing.
- A bundle's manifest is put last and removed first: without it there is no bundle.
- A bundle is copied whole into a folder of this machine, checked, and only then given its name
  there; it is content-addressed, so a copy never gets old. Damaged copies are made again.
- ``current/<slot>`` is an object that holds the id.
- Nothing that the client might have listed before is believed.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from colltune.domain import Collective
from colltune.errors import BundleError, say
from colltune.files import cache_folder, make_folder, writing
from colltune.files.remote import Remote, told
from colltune.files.temporary import temporary_folder
from colltune.models.bundle import Bundle, load
from colltune.registry.store import MANIFEST, plain_folder

EXCLUSIVE = ("s3", "s3a", "memory")
"""Stores that can make a file only if there is none."""
_TRIES = 5
_CLOCK_S = 60.0
_CURRENT = "current"
_BUNDLES = "bundles/"


class ObjectStore:
    def __init__(self, remote: Remote, cache: Path | None = None) -> None:
        self._remote = remote
        self._system = remote.system
        self._cache = cache
        self._is_exclusive = False
        self.where = remote.url
        self.lists_late = False
        self._is_there = False
        self._clock: tuple[float, datetime] | None = None

    def names(self, folder: str, *, fresh: bool = False) -> list[str]:
        """Return the names in `folder`; they are always fresh."""
        del fresh
        try:
            with self._remote.reading(folder):
                found = self._system.ls(self._remote.path(folder), detail=False, refresh=True)
        except FileNotFoundError:
            self._check_root()
            return []
        self._is_there = True
        names = {str(path).rstrip("/").rpartition("/")[2] for path in found}
        return sorted(n for n in names - {folder.rpartition("/")[2]} if not n.startswith("."))

    def _check_root(self) -> None:
        if self._is_there:
            return
        try:
            with self._remote.reading(""):
                self._system.ls(self._remote.root, detail=False, refresh=True)
        except FileNotFoundError:
            raise say("no-such-registry", registry=self.where) from None

    def read(self, key: str) -> bytes | None:
        try:
            with self._remote.reading(key):
                return bytes(self._system.cat_file(self._remote.path(key)))
        except FileNotFoundError:
            return None

    def create(self, key: str, content: bytes) -> bool:
        self._check_exclusive(key)
        return self._create(key, content)

    def _create(self, key: str, content: bytes) -> bool:
        for wait_s in (0.05 * 2**attempt for attempt in range(_TRIES)):
            try:
                self._system.pipe_file(self._remote.path(key), content, mode="create")
            except Exception as error:
                refused = error
            else:
                return True
            found = self.read(key)
            if found is not None:
                return found == content
            # a store may refuse because of another writer that failed in the end
            time.sleep(wait_s)
        raise say("not-written", registry=self.where, key=key, why=told(refused)) from refused

    def _check_exclusive(self, key: str) -> None:
        """Refuse to write where two writers could both believe that they made a file."""
        if self._is_exclusive:
            return
        kind = self._remote.kind
        if kind not in EXCLUSIVE:
            raise say(
                "no-exclusive-creation",
                registry=self.where,
                key=key,
                kind=kind,
                known=", ".join(EXCLUSIVE),
            )
        probe = f"work/probe-{secrets.token_hex(6)}"
        once = self._create(probe, b"once")
        with suppress(Exception):
            self._system.pipe_file(self._remote.path(probe), b"twice", mode="create")
        kept = self.read(probe)
        self.remove(probe)
        if not once or kept != b"once":
            raise say("store-replaces", registry=self.where, key=key)
        self._is_exclusive = True

    def _write(self, key: str, content: bytes) -> None:
        with self._remote.writing(key):
            self._system.pipe_file(self._remote.path(key), content)

    def remove(self, key: str) -> None:
        """Remove a file or folder, the manifest first."""
        with self._remote.writing(key), suppress(FileNotFoundError):
            path = self._remote.path(key)
            manifest = f"{path}/{MANIFEST}"
            if key.startswith(_BUNDLES):
                with suppress(FileNotFoundError):
                    self._system.rm_file(manifest)
                self._system.rm(path, recursive=True)
            else:
                self._system.rm_file(path)

    def put_folder(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Make a folder; equal names mean equal content."""
        for name in sorted(files, key=lambda name: name == MANIFEST):
            self._write(f"{folder}/{name}", files[name])

    def described(self, folder: str) -> Bundle:
        """Return a bundle without its models; only the manifest is read."""
        with tempfile.TemporaryDirectory(prefix="colltune-") as name:
            self._download(folder, [MANIFEST], Path(name))
            return self._loaded(folder, Path(name), ())

    def local(self, folder: str, *, fresh: bool = False) -> Path:
        """Return this machine's checked copy of a bundle."""
        copy = self._copy(folder)
        if fresh or not (copy.exists() or copy.is_symlink()):
            with writing(copy, "Name a writable folder in COLLTUNE_CACHE."):
                self._make_copy(folder, copy)
        return plain_folder(copy)

    def _copy(self, folder: str) -> Path:
        return (self._cache or cache_folder()) / folder

    def _make_copy(self, folder: str, copy: Path) -> None:
        make_folder(copy.parent, 0o700)
        with temporary_folder(copy) as work:
            fresh = work / "bundle"
            fresh.mkdir()
            self._download(folder, self.names(folder), fresh)
            self._loaded(folder, fresh)
            try:
                fresh.rename(copy)
            except OSError:
                # somebody else was first
                if not copy.exists():
                    raise

    def _download(self, folder: str, names: Iterable[str], target: Path) -> None:
        for name in names:
            content = self.read(f"{folder}/{name}")
            if content is not None:
                (target / name).write_bytes(content)
        if not (target / MANIFEST).exists():
            raise say("no-such-bundle", path=f"{self.where}/{folder}")

    def _loaded(
        self, folder: str, copy: Path, collectives: Collection[Collective] | None = None
    ) -> Bundle:
        """Return the bundle in `copy`, or blame the store's folder for what is wrong with it."""
        try:
            bundle = load(copy, collectives)
        except BundleError as error:
            text = str(error).replace(str(copy), f"{self.where}/{folder}")
            raise BundleError(text).named(error.code, error.values) from error
        if bundle.id != folder.rpartition("/")[2]:
            raise say("another-bundle", registry=self.where, folder=folder, bundle=bundle.id)
        return bundle

    def forget_local(self, folder: str) -> bool:
        copy = self._copy(folder)
        if not (copy.exists() or copy.is_symlink()):
            return False
        if copy.is_symlink() or not copy.is_dir():
            copy.unlink(missing_ok=True)
        else:
            shutil.rmtree(copy, ignore_errors=True)
        return True

    def size_bytes(self, folder: str) -> int:
        with self._remote.reading(folder):
            return int(self._system.du(self._remote.path(folder)))

    def age_s(self, key: str) -> float | None:
        then = self._modified(key)
        return None if then is None else (self._now() - then).total_seconds()

    def _now(self) -> datetime:
        """Return the time by the store's clock, which is asked about once a minute."""
        asked_s = time.monotonic()
        if self._clock is None or asked_s - self._clock[0] > _CLOCK_S:
            probe = f"work/clock-{secrets.token_hex(6)}"
            self._write(probe, b"")
            try:
                told_time = self._modified(probe)
            finally:
                self.remove(probe)
            self._clock = asked_s, told_time or datetime.now(UTC)
        return self._clock[1] + timedelta(seconds=asked_s - self._clock[0])

    def _modified(self, key: str) -> datetime | None:
        """Return when a file, or the latest of a folder's, was written."""
        path = self._remote.path(key)
        with self._remote.reading(key):
            try:
                found = [self._system.modified(path)]
            except (FileNotFoundError, IsADirectoryError):
                found = [self._system.modified(file) for file in self._system.find(path)]
        aware = (t if t.tzinfo else t.replace(tzinfo=UTC) for t in found)
        return max(aware, default=None)

    def leftovers(self) -> list[str]:
        """Return nothing: objects appear whole, and a bundle without manifest is a damaged one."""
        return []

    def touch(self, key: str) -> None:
        """Make the age of a file 0, by putting it again."""
        content = self.read(key)
        if content is not None:
            self._write(key, content)

    def point(self, name: str, bundle_id: str) -> None:
        self._write(f"{_CURRENT}/{name}", f"{bundle_id}\n".encode())

    def pointed(self, name: str) -> str | None:
        content = self.read(f"{_CURRENT}/{name}")
        return None if content is None else content.decode("ascii", "replace").strip()
