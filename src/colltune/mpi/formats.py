"""All formats of configuration files, and which of them a file is of.

To add a format: a class that fulfils `file_format.Format`, and a line in `FORMATS`; the contract
tests then run for it.
"""

from __future__ import annotations

from pathlib import Path

from colltune.errors import LibraryError
from colltune.mpi.file_format import Format

FORMATS: dict[str, Format] = {}
LARGEST_BYTES = 32 << 20


def format_of(text: str, source: str, named: str | None = None) -> Format:
    """Return the format called `named`, or else the one that `text` looks like.

    Raises
    ------
    LibraryError
        If there is no format of that name, or the text looks like none, or like several.
    """
    if named is not None:
        if named not in FORMATS:
            raise LibraryError(f"no format {named!r}; known: {', '.join(FORMATS)}")
        return FORMATS[named]
    alike = [known for known in FORMATS.values() if known.recognises(text)]
    if len(alike) == 1:
        return alike[0]
    seen = " or ".join(known.name for known in alike) or "no configuration file that is known"
    raise LibraryError(f"{source}: looks like {seen}; name its format: {', '.join(FORMATS)}")


def read_text(path: Path) -> str:
    """Return the text of a configuration file; bytes that are no UTF-8 stay as surrogates.

    Raises
    ------
    LibraryError
        If it cannot be read, is no text, or is larger than 32 MiB.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise LibraryError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > LARGEST_BYTES:
        raise LibraryError(f"{path}: larger than {LARGEST_BYTES >> 20} MiB; no library needs that")
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        raise LibraryError(f"{path}:{line}: a zero byte; this is no text file")
    return content.decode("utf-8", errors="surrogateescape")
