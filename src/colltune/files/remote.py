"""Files in object stores, through fsspec, which is imported where a URL asks for it.

Credentials come from where the store's own tools take them, such as environment variables; a URL
that holds some is refused, since URLs are printed and logged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colltune.errors import ColltuneError, say

_URL = re.compile(r"([a-z][a-z0-9+.-]*):(?://|/)(.*)", re.DOTALL)
_OPTIONS: dict[str, Any] = {"use_listings_cache": False}
_S3_OPTIONS: dict[str, Any] = {"max_concurrency": 1}
"""Without this each read asks for the size first, so as to read large files in parts."""
_LONGEST = 300
_IS_FILE = "file"


def url_of(path: str | Path) -> str | None:
    """Return the URL that `path` is, whole again if it went through `Path`; None if it is none."""
    match = _URL.fullmatch(str(path))
    # a letter alone could be a drive, and what exists is a file
    if match is None or len(match[1]) < 2 or ("://" not in str(path) and Path(path).exists()):
        return None
    return f"{match[1]}://{match[2].rstrip('/')}"


def local_path(url: str) -> Path | None:
    """Return the path of a ``file://`` URL, None for others."""
    protocol, _, rest = url.partition("://")
    return Path(rest) if protocol == _IS_FILE else None


@dataclass(frozen=True)
class Remote:
    """A folder of an object store: fsspec's file system, and the folder's path on it."""

    url: str
    kind: str
    system: Any
    root: str
    failed: type[ColltuneError]

    def path(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root

    @contextmanager
    def reading(self, key: str) -> Iterator[None]:
        """Turn what the store's client raises into one error, except for absent files."""
        try:
            yield
        except (FileNotFoundError, ColltuneError):
            raise
        except Exception as error:
            place = f"{self.url}/{key}"
            raise say("cannot-read", self.failed, place=place, why=told(error)) from error

    @contextmanager
    def writing(self, key: str) -> Iterator[None]:
        """Turn whatever the store's client raises into an `OutputError`."""
        try:
            yield
        except ColltuneError:
            raise
        except Exception as error:
            raise say("not-written", registry=self.url, key=key, why=told(error)) from error


def opened(url: str, failed: type[ColltuneError]) -> Remote:
    """Return the folder at `url`; nothing is asked of the store yet."""
    kind, _, rest = url.partition("://")
    if "@" in rest.partition("/")[0] or "?" in rest:
        raise say("url-with-options", failed, kind=kind)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415

        more = _S3_OPTIONS if kind in ("s3", "s3a") else {}
        system, root = url_to_fs(url, **_OPTIONS, **more)
    except ImportError as error:
        raise say("package-missing", failed, url=url, why=error) from error
    except Exception as error:
        raise say("cannot-read", failed, place=url, why=told(error)) from error
    return Remote(url, kind, system, str(root).rstrip("/"), failed)


def told(error: Exception) -> str:
    """Return what an error says, in one line of bounded length."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_LONGEST]
