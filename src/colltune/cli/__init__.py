"""The command line. Only `main` exits, with the status of the error's kind."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
import time
from contextlib import suppress
from contextvars import ContextVar
from io import StringIO
from types import FrameType
from typing import Any, NoReturn, TextIO

from colltune.cli.console import Mark, painted
from colltune.errors import ColltuneError, Interrupted, OutputError, ResourceError, say

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
        raise _unwritten(error) from error


def _unwritten(error: OSError) -> ColltuneError:
    why, mend = error.strerror or error, "What was printed is incomplete."
    return say("cannot-write", what="standard output", why=why, mend=mend)


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
            raise _unwritten(error) from error

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


_SHORTAGES = ("failed to map segment", "annot allocate memory", "can't start new thread")
_started: ContextVar[float | None] = ContextVar("started", default=None)


def main() -> None:
    """Run the command line; print an error in one message, never as a traceback."""
    _started.set(time.monotonic())
    signal.signal(signal.SIGTERM, _interrupt)
    if "_COLLTUNE_COMPLETE" in os.environ:
        _complete()
    prepare()
    sys.exit(_flushed(_status()))


def started_s() -> float | None:
    """Return when the command line was started, as `time.monotonic` says it; None if it was not."""
    return _started.get()


def _flushed(status: int) -> int:
    """Return `status`, or another one if the results cannot be written."""
    try:
        flushed(sys.stdout)
    except OutputError as error:
        return _complain(str(error), status or error.exit_status)
    return status


def _complete() -> NoReturn:
    """Answer a shell; in the middle of a line there is no room for a message."""
    with suppress(Exception):
        from colltune.cli.completion import answer

        answer()
    sys.exit(1)


def _status() -> int:
    try:
        return _run()
    except ColltuneError as error:
        return _complain(str(error), error.exit_status)
    except KeyboardInterrupt:
        return _interrupted()
    except (MemoryError, ImportError, RuntimeError, OSError) as error:
        if why := _shortage(error):
            return _complain(why, ResourceError.exit_status)
        if not isinstance(error, OSError):
            raise
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _complain(what, OutputError.exit_status)


def _run() -> int:
    from click.exceptions import Abort, ClickException

    from colltune.cli.app import app, as_spelled_now

    try:
        words = as_spelled_now(sys.argv[1:])
        result = app(words)(words, standalone_mode=False)
    except ClickException as error:
        shown = StringIO()
        error.show(shown)
        sys.stderr.write(shown.getvalue().replace("Error: ", _head(), 1))
        return error.exit_code
    except Abort:
        return _interrupted()
    if result == Interrupted.exit_status:
        return _interrupted()
    return result if isinstance(result, int) else 0


def _shortage(error: Exception) -> str:
    """Return what to say of an error if it means that memory, or a thread, cannot be had."""
    told = [line for line in str(error).splitlines() if any(w in line for w in _SHORTAGES)]
    is_short = isinstance(error, MemoryError) or bool(told)
    said = (told or str(error).splitlines() or [""])[0]
    why = f" ({said})" if said else ""
    mend = "Give it more (ulimit -v, ulimit -u, --mem of the job), or less to do at once (--jobs)."
    return f"the system gives this process no more memory or threads{why}. {mend}" * is_short


def _interrupted() -> int:
    return _complain("interrupted", Interrupted.exit_status)


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"{_head()}{message}\n")
    return status


def _head() -> str:
    return f"colltune: {painted('error:', Mark.BAD, sys.stderr)} "


def _interrupt(_signal_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
