"""Unpacks what others packed, up to a bound: a small file may unpack to more than memory holds."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from colltune.files.reading import opened
from colltune.text import counted

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
