"""Reads files that others made, damaged and hostile ones, without hanging or filling memory.

What is wrong with a file is an `OSError` with a text of its own, what is wrong with its content a
`ValueError`; `content_of` and `text_of` make errors of colltune of them.
"""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

from colltune.errors import ColltuneError, say

_ZERO_BYTE = "not a text file (it has a zero byte)"
MOST_BYTES = 1 << 30
"""Of a file that is read as a whole."""
_PIECE_BYTES = 1 << 20
_WRITER_S = 30.0
_DEEPEST, _MOST_BITS = 100, 1000


def opened(path: Path) -> BufferedReader:
    """Return the file or pipe at `path`, open; devices and silent pipes are an OSError."""
    try:
        # without this, opening a pipe waits for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise OSError(errno.EINVAL, "is not a file name") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            # becomes an IsADirectoryError
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EINVAL, "is a device")
        if stat.S_ISFIFO(mode) and not select.select([descriptor], [], [], _WRITER_S)[0]:
            raise OSError(errno.ETIMEDOUT, "is a pipe that no program writes to")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path) -> bytes:
    content = bytearray()
    with opened(path) as stream:
        # asked for all at once, as much memory would be taken as a file may have
        while piece := stream.read(_PIECE_BYTES):
            content += piece
            if len(content) > MOST_BYTES:
                raise OSError(errno.EFBIG, f"is larger than {MOST_BYTES >> 20} MiB")
    return bytes(content)


def content_of(path: Path, failed: type[ColltuneError], mend: str) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise say(
            "unreadable", failed, path=path, why=error.strerror or error, mend=mend
        ) from error


def text_of(path: Path, failed: type[ColltuneError], mend: str) -> str:
    content = content_of(path, failed, mend)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise say(
            "not-text", failed, path=path, line=line, why="not UTF-8 text", mend=mend
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise say("not-text", failed, path=path, line=line, why=_ZERO_BYTE, mend=mend)
    return text


def json_of(content: str | bytes | bytearray) -> Any:
    return _checked(json.loads, content)


def toml_of(text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 (a cold `select` reads none)

    found: dict[str, Any] = _checked(tomllib.loads, text)
    return found


def _checked(parse: Callable[[Any], Any], content: object) -> Any:
    """Return what `parse` says, if it is nothing at which later work would stumble."""
    try:
        found = parse(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError(f"an integer of more than {_MOST_BITS} bits") from None
        raise
    waiting = [(found, 0)]
    while waiting:
        outer, depth = waiting.pop()
        inner = outer.values() if isinstance(outer, dict) else outer
        for one in inner if isinstance(outer, dict | list) else (outer,):
            if isinstance(one, dict | list):
                waiting.append((one, depth + 1))
            elif isinstance(one, int) and one.bit_length() > _MOST_BITS:
                raise ValueError(f"an integer of more than {_MOST_BITS} bits")
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
    return found
