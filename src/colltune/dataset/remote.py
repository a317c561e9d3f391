"""Datasets in object stores: folders of Parquet files behind a URL such as ``s3://bucket/data``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colltune.errors import DataError
from colltune.files.remote import Remote, opened

_SUFFIX = ".parquet"


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Yield a folder of this machine with the Parquet files at `url`, a folder or one file.

    It is removed at the end. What is found wrong with a file meanwhile is blamed on its URL.
    """
    remote = opened(url.rstrip("/"), DataError)
    with tempfile.TemporaryDirectory(prefix="colltune-") as name:
        folder = Path(name)
        _fetch(remote, folder)
        try:
            yield folder
        except DataError as error:
            base = url.removesuffix(f"/{url.rpartition('/')[2]}") if _is_file(url) else url
            raise DataError(str(error).replace(str(folder), base.rstrip("/"))) from error


def put(url: str, name: str, content: bytes) -> str:
    """Write a file into the folder `url`, whole or not at all, and return its URL."""
    remote = opened(url.rstrip("/"), DataError)
    with remote.writing(name):
        remote.system.pipe_file(remote.path(name), content)
    return f"{remote.url}/{name}"


def _is_file(url: str) -> bool:
    return url.endswith(_SUFFIX)


def _fetch(remote: Remote, folder: Path) -> None:
    try:
        with remote.reading(""):
            if _is_file(remote.url):
                found = [remote.root]
            else:
                listed = remote.system.ls(remote.root, detail=False, refresh=True)
                found = sorted(path for path in map(str, listed) if _is_file(path))
            targets = [str(folder / path.rpartition("/")[2]) for path in found]
            if found:
                remote.system.get(found, targets)
    except FileNotFoundError:
        raise DataError(f"{remote.url}: no such file or folder") from None
    if not found:
        raise DataError(
            f"{remote.url}: no *.parquet file in this folder; is it a colltune dataset?"
        )
