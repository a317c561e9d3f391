"""What a registry asks of the place that it lies in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from colltune.errors import BundleError
from colltune.files.temporary import is_left
from colltune.models.bundle import Bundle

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
