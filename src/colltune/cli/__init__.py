"""The command line. Only `main` exits, with the status of the error's kind."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from contextvars import ContextVar
from io import StringIO
from types import FrameType
from typing import NoReturn

from colltune.cli import streams
from colltune.cli.console import Mark, painted
from colltune.errors import ColltuneError, Interrupted, OutputError, ResourceError

_SHORTAGES = ("failed to map segment", "annot allocate memory", "can't start new thread")
_started: ContextVar[float | None] = ContextVar("started", default=None)


def main() -> None:
    """Run the command line; print an error in one message, never as a traceback."""
    _started.set(time.monotonic())
    signal.signal(signal.SIGTERM, _interrupt)
    if "_COLLTUNE_COMPLETE" in os.environ:
        _complete()
    streams.prepare()
    sys.exit(_flushed(_status()))


def started_s() -> float | None:
    """Return when the command line was started, as `time.monotonic` says it; None if it was not."""
    return _started.get()


def _flushed(status: int) -> int:
    """Return `status`, or another one if the results cannot be written."""
    try:
        streams.flushed(sys.stdout)
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
