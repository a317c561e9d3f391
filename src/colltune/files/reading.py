"""Reads files that others made, damaged and hostile ones, without hanging or filling memory.

What is wrong with a file is an `OSError` with a text of its own, what is wrong with its content a
`ValueError`; `content_of` and `text_of` make errors of colltune of them.

Unpacks what others packed, up to a bound: a small file may unpack to more than memory holds.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import select
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO

from colltune.errors import ColltuneError
from colltune.text import counted

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
        raise failed(f"{path}: cannot be read: {error.strerror or error}; {mend}") from error


def text_of(path: Path, failed: type[ColltuneError], mend: str) -> str:
    content = content_of(path, failed, mend)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise failed(f"{path}, line {line}: not UTF-8 text; {mend}") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise failed(f"{path}, line {line}: not a text file (it has a zero byte); {mend}")
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


_MOST_UNPACKED_BYTES, _MOST_RATIO = 64 << 20, 100
_TAR_SIGN = slice(257, 262)


def _member(raw: BinaryIO) -> IO[bytes]:
    """Return the only file of an archive."""
    archive = zipfile.ZipFile(raw)
    names = archive.namelist()
    if len(names) != 1:
        raise OSError(
            errno.EINVAL,
            f"this is an archive of {counted(len(names), 'file')}. Unpack it first.",
        )
    return archive.open(names[0])


def _zstd(raw: BinaryIO) -> Any:
    import pyarrow  # noqa: PLC0415 (which is large)

    return pyarrow.CompressedInputStream(raw, "zstd")


_PACKED: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"PK\x03\x04": _member,
    b"\x28\xb5\x2f\xfd": _zstd,
}
_DAMAGED = (
    *(EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    *(RuntimeError, ValueError),
)


class _Unpacked(io.RawIOBase):
    """What a packed stream holds, up to a bound; damage is an `OSError`."""

    def __init__(self, packed: Any, most_bytes: int) -> None:
        self._packed = packed
        self._most_bytes = most_bytes
        self._left_bytes = most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_told():
            content = self._packed.read(len(buffer))
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise OSError(
                errno.EFBIG,
                f"unpacks to more than {self._most_bytes >> 20} MiB, more than measurements "
                "need. If it is right, unpack it first.",
            )
        buffer[: len(content)] = content
        return len(content)


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise OSError(errno.EIO, f"is compressed and damaged ({error})") from error
    except OSError as error:
        # such as gzip.BadGzipFile
        raise OSError(
            error.errno or errno.EIO, error.strerror or f"is damaged ({error})"
        ) from error


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[io.BufferedReader[Any], io.BufferedReader[Any]]]:
    """Yield a file as it is, and what it holds, unpacked if its first bytes say so."""
    with opened(path) as raw:
        head = raw.peek(8)
        unpack = next((made for mark, made in _PACKED.items() if head.startswith(mark)), None)
        if unpack is None:
            _refuse_archive(raw)
            yield raw, raw
            return
        with _damage_told():
            packed = unpack(raw)
        size_bytes = os.fstat(raw.fileno()).st_size
        most_bytes = max(_MOST_UNPACKED_BYTES, _MOST_RATIO * size_bytes)
        content = io.BufferedReader(_Unpacked(packed, most_bytes), 1 << 16)
        _refuse_archive(content)
        yield raw, content


def encoding_of(content: io.BufferedReader[Any]) -> str:
    """Return the encoding that the first bytes of a text tell: UTF-16, or else UTF-8."""
    return "utf-16" if content.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _refuse_archive(content: io.BufferedReader[Any]) -> None:
    if content.peek(_TAR_SIGN.stop)[_TAR_SIGN] == b"ustar":
        raise OSError(
            errno.EINVAL, "this is an archive (tar), which holds several files. Unpack it first."
        )
