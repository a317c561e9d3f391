"""All formats of configuration files, and which of them a file is of.

To add a format: a class that fulfils `file_format.Format`, and an entry in the ``formats`` of its
library; the contract tests then run for it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from colltune.errors import LibraryError, NoSettingsError, say, unknown
from colltune.files.reading import opened
from colltune.mpi import LIBRARIES, check_no_derivative
from colltune.mpi.file_format import Format
from colltune.text import printable


class _Formats(Mapping[str, Format]):
    """The formats of the libraries that are registered, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Format:
        # a format's name begins with its library's, so that no other library is imported
        for library in sorted(LIBRARIES, key=lambda one: not name.startswith(f"{one}-")):
            if location := LIBRARIES[library].formats.get(name):
                return _loaded(location)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for mpi in LIBRARIES.values() for name in mpi.formats)

    def __len__(self) -> int:
        return sum(len(mpi.formats) for mpi in LIBRARIES.values())


@cache
def _loaded(location: str) -> Format:
    module, _, name = location.partition(":")
    known: Format = getattr(importlib.import_module(module), name)()
    return known


FORMATS: Mapping[str, Format] = _Formats()
"""The formats of all libraries by name."""
LARGEST_BYTES = 32 << 20
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")


def format_of(
    text: str, source: str, named: str | None = None, library: str | None = None
) -> Format:
    """Return the format called `named`, or else the one that `text` looks like.

    Only formats of `library` count, if one is given.

    `source` names the file in errors.

    Raises
    ------
    LibraryError
        If there is no format of that name, or the text looks like none, or like several.
    """
    alike = formats_of(text, source, named, library)
    if len(alike) == 1:
        return alike[0]
    if all(known.lists_variables for known in alike):
        titles = " and of ".join(LIBRARIES[known.library].title for known in alike)
        names = " or ".join(f"--release {known.library}@…" for known in alike)
        raise say("variables-of-several", file=source, titles=titles, names=names)
    seen = " or ".join(known.name for known in alike)
    raise say("several-formats", file=source, seen=seen)


def formats_of(
    text: str, source: str, named: str | None = None, library: str | None = None
) -> list[Format]:
    """Return all formats that `text` looks like, at least one; see `format_of`.

    `source` names the file in errors; `named` is the name of a format, `library` of a library.

    Raises
    ------
    LibraryError
        If there is no format of that name, or the text looks like none.
    NoSettingsError
        If the text is a script that sets no variable of a library with formats.
    """
    if named is not None:
        return [_named(named, source, library)]
    ours = [known for known in FORMATS.values() if library in (None, known.library)]
    alike = [known for known in ours if known.recognises(text)]
    if alike:
        return alike
    from colltune.mpi.job_variables import is_surely_script, mentions

    whose = LIBRARIES[library].title if library else "an MPI library"
    if mentions(text, "MV2_|MVP_") and library is None:
        what = "sets variables of MVAPICH, for which colltune writes and checks nothing"
        raise NoSettingsError(source, f"{what}. The page on derivatives says what is known.")
    if is_surely_script(text):
        what = f"a script that sets no variable of {whose}, so there is nothing to check or to read"
        raise NoSettingsError(source, what)
    names = ", ".join(known.name for known in ours[:3])
    raise say("not-a-configuration-file", file=source, whose=whose, what=_what(text), names=names)


def _what(text: str) -> str:
    """Return what a text is that no format recognises: its first words, or the keys of JSON."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        begin = printable(text.lstrip()[:40].partition("\n")[0])
        return f"it begins with {begin}" if begin else "it is empty"
    keys = [*document][:3] if isinstance(document, dict) else []
    return f"it is JSON with the keys {printable(', '.join(keys))[:60]}" if keys else "it is JSON"


def format_for(name: str, release: str) -> Format:
    """Return the format called `name`; for a library's name the best that `release` reads.

    Raises
    ------
    LibraryError
        If there is no such format, or no format of the library can be written yet.
    """
    if name not in LIBRARIES:
        if name in FORMATS:
            return FORMATS[name]
        check_no_derivative(name)
        known = ", ".join((*LIBRARIES, *FORMATS))
        raise say("no-library-or-format", name=name, known=known)
    mpi = LIBRARIES[name]
    ours = [FORMATS[one] for one in mpi.preferred]
    if not ours:
        raise say("not-writable-yet", title=mpi.title)
    return next((known for known in ours if reads(known, release)), ours[-1])


def _named(named: str, source: str, library: str | None) -> Format:
    found = FORMATS.get(named)
    if found is None:
        raise unknown("format", named, FORMATS, LibraryError)
    if library not in (None, found.library):
        of = found.library
        raise say("format-of-another-library", file=source, named=named, of=of, library=library)
    return found


def readers(known: Format) -> tuple[str, ...]:
    """Return those of its library's ``releases`` that read a format, oldest first."""
    return tuple(r for r in LIBRARIES[known.library].releases if reads(known, r))


def likely_reader(known: Format) -> str:
    """Return the release for which a file whose release is not known was most likely written.

    It is the current one, or where that does not read the format the newest that does.

    Raises
    ------
    LibraryError
        If no supported release reads it.
    """
    found = readers(known)
    if not found:
        raise say("no-release-reads", format=known.name)
    current = LIBRARIES[known.library].current
    return current if current in found else found[-1]


def reads(known: Format, release: str) -> bool:
    """Tell whether `release` is supported and reads a format."""
    try:
        return not known.unreadable_by(release)
    except LibraryError:
        return False


def read_text(path: Path) -> str:
    """Return the text of a configuration file; bytes that are no UTF-8 stay as surrogates.

    `path` is that of the file.

    Raises
    ------
    LibraryError
        If it cannot be read, is no text, or is larger than 32 MiB.
    """
    try:
        with opened(path) as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise say("cannot-read", LibraryError, place=path, why=error.strerror or error) from error
    return text_of(content, str(path))


def text_of(content: bytes, source: str) -> str:
    """Return the text that the first `LARGEST_BYTES` + 1 bytes of a file hold.

    `content` is the beginning of a file, of which `source` is the name in errors.

    Raises
    ------
    LibraryError
        If it is no text, or larger than 32 MiB.
    """
    if len(content) > LARGEST_BYTES:
        raise say("file-too-large", file=source, most_mib=LARGEST_BYTES >> 20)
    if content.startswith(_ZLIB):
        raise say("compressed-tuning-file", file=source)
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        raise say("zero-byte", file=source, line=line)
    return content.decode("utf-8", errors="surrogateescape")
