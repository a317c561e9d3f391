"""Standard output that neither an early end of its reader nor a file's name brings down."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any, TextIO

from colltune.errors import OutputError

_ERRORS = "colltune"
_PLAIN = {
    "µ": "u",
    "μ": "u",
    "×": "x",
    "…": "...",
    "–": "-",
    "—": "-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "“": '"',
    "”": '"',
    "’": "'",
}


def prepare() -> None:
    """Make this process's standard streams safe to print on.

    A reader of standard output that ends early (``| head``) ends neither the work nor changes its
    exit status; what an encoding lacks is spelt in ASCII; bytes of a file's name that are no text
    are printed as they are.
    """
    _open_closed()
    codecs.register_error(_ERRORS, _spelt)
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _safe(sys.stdout, _Results)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _safe(sys.stderr, _Remarks)


def flushed(stream: TextIO) -> None:
    """Write out what `stream` holds back; an OutputError if it cannot be written."""
    try:
        stream.flush()
    except OSError as error:
        raise OutputError(f"standard output: {error.strerror or error}") from error


class _Results(io.FileIO):
    """The file behind standard output; once it fails, it takes everything and keeps nothing."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._give_up()
            return memoryview(data).nbytes
        except OSError as error:
            self._give_up()
            raise OutputError(
                f"standard output: {error.strerror}; the output is incomplete"
            ) from error

    def _give_up(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


class _Remarks(_Results):
    """The file behind standard error; nobody can be told that it fails."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OutputError:
            return memoryview(data).nbytes


def _safe(stream: io.TextIOWrapper, kind: type[io.FileIO]) -> TextIO:
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=_ERRORS,
        # PYTHONUNBUFFERED turns the one off and the other on
        line_buffering=stream.line_buffering or stream.write_through,
    )


def _open_closed() -> None:
    """Open streams that the process was started without, or its first files would take them."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb", closefd=False), encoding="utf-8")


def _spelt(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what stands for the first character that cannot be encoded, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    known = _PLAIN.get(character)
    return known or character.encode("ascii", "backslashreplace").decode(), error.start + 1
