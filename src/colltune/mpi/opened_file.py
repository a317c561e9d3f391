"""Opens a configuration file as a release of its library reads it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colltune.errors import LibraryError, say, unknown
from colltune.mpi import library
from colltune.mpi.file_format import Format
from colltune.mpi.formats import (
    FORMATS,
    LARGEST_BYTES,
    format_of,
    formats_of,
    likely_reader,
    read_text,
    reads,
    text_of,
)
from colltune.mpi.rules import Rules

STDIN = "-"
_ENDS_BESIDE = (".dispatch",)
_RELEASE = re.compile(r"(?:(?P<library>[a-z0-9_+-]+)@)?(?P<release>[^@\s]+)")


@dataclass(frozen=True)
class OpenFile:
    """A configuration file, its format, and the release for which it is read.

    ``path`` is None for standard input; ``assumed`` tells that nobody named the release.
    """

    source: str
    path: Path | None
    text: str
    format: Format
    release: str
    assumed: bool

    def parse(self) -> Rules:
        return self.format.parse(self.text, self.source, self.release)

    @property
    def reader(self) -> str:
        """The release for people: ``Open MPI 5.0.11``."""
        return f"{library(self.format.library).title} {self.release}"

    @property
    def paths(self) -> dict[str, str]:
        """The absolute paths of the file and of those written beside it."""
        if self.path is None:
            return {}
        path = self.path.absolute()
        beside = {end: path.with_name(path.name + end) for end in _ENDS_BESIDE}
        return {"": str(path)} | {end: str(p) for end, p in beside.items() if p.is_file()}


def open_file(path: Path, release: str | None = None, format_name: str | None = None) -> OpenFile:
    """Return the configuration file at `path`; ``-`` is standard input."""
    return _opened(path, release, format_name, lambda *asked: [format_of(*asked)])[0]


def open_each(
    path: Path, release: str | None = None, format_name: str | None = None
) -> list[OpenFile]:
    """Return the file at `path` once for each library of which it sets variables."""

    def known(*asked: Any) -> list[Format]:
        found = formats_of(*asked)
        return found if all(each.lists_variables for each in found) else [format_of(*asked)]

    return _opened(path, release, format_name, known)


def _opened(
    path: Path,
    release: str | None,
    format_name: str | None,
    known: Callable[[str, str, str | None, str | None], list[Format]],
) -> list[OpenFile]:
    library_name, number = library_and_release(release)
    source = source_name(path)
    if str(path) == STDIN:
        text = text_of(sys.stdin.buffer.read(LARGEST_BYTES + 1), source)
    else:
        text = read_text(path)
    found, own = [], None if str(path) == STDIN else path
    for each in known(text, source, format_name, library_name):
        told = each.release_in(text)
        if told is not None and not reads(each, told):
            told = None
        assumed = number is None and told is None
        reader = number or told or likely_reader(each)
        found.append(OpenFile(source, own, text, each, reader, assumed))
    return found


def source_name(path: Path) -> str:
    return "<stdin>" if str(path) == STDIN else str(path)


def check_names(release: str | None, format_name: str | None) -> None:
    """Refuse the name of a format or release that no file could be of."""
    library_name, _ = library_and_release(release)
    if format_name is not None and format_name not in FORMATS:
        raise unknown("format", format_name, FORMATS, LibraryError)
    libraries = dict.fromkeys(known.library for known in FORMATS.values())
    if library_name is not None and library_name not in libraries:
        raise say("no-library-or-format", name=library_name, known=", ".join(libraries))


def library_and_release(text: str | None) -> tuple[str | None, str | None]:
    """Return the parts of ``openmpi@5.0.8`` or ``5.0.8``, None for what is not given."""
    if text is None:
        return None, None
    match = _RELEASE.fullmatch(text.strip())
    if match is None:
        raise say("not-a-release", value=text)
    return match["library"], match["release"]
