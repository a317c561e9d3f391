"""Request bodies: read piece by piece, never beyond their bound, and never kept in memory."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from colltune.errors import OutputError
from colltune.server.errors import BusyError, ServiceError

_THREADS = 4
_MOST_AT_ONCE = 8
_PIECE_BYTES = 1 << 20
_TYPES = (
    "",
    "text/csv",
    "text/plain",
    "application/vnd.apache.parquet",
    "application/octet-stream",
    # what curl says of --data-binary
    "application/x-www-form-urlencoded",
)
Result = TypeVar("Result")


class TooLargeError(ServiceError):
    """A body beyond what is taken."""

    status: ClassVar[int] = 413


class CutShortError(ServiceError):
    """A body of which the rest did not come."""

    status: ClassVar[int] = 400


class OtherTypeError(ServiceError):
    """A body of a type that is not taken."""

    status: ClassVar[int] = 415


@dataclass(frozen=True)
class Spooled:
    """A whole body in a file without a name, which ``path`` opens again."""

    stream: BinaryIO
    path: Path
    sha256: str


class Uploads:
    """Takes bodies in, a few at a time."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._threads = ThreadPoolExecutor(_THREADS, "uploads")
        self._under_way = 0

    @asynccontextmanager
    async def spooled(self, request: Request, folder: Path) -> AsyncIterator[Spooled]:
        """Yield the body of `request`, which is in `folder` until the end.

        Nobody else sees it there, and the system removes it with this process.
        """
        if self._under_way >= _MOST_AT_ONCE:
            raise BusyError("others are sending already; try again in a moment")
        self._under_way += 1
        try:
            stream = await self._run(lambda: _opened(folder))
            try:
                sha256 = await self._received(request, stream)
                yield Spooled(stream, Path(f"/dev/fd/{stream.fileno()}"), sha256)
            finally:
                stream.close()
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _received(self, request: Request, stream: BinaryIO) -> str:
        digest, piece = hashlib.sha256(), bytearray()
        async for chunk in chunks(request, self._max_body_bytes):
            digest.update(chunk)
            piece += chunk
            if len(piece) >= _PIECE_BYTES:
                await self._write(stream, bytes(piece))
                piece.clear()
        await self._write(stream, bytes(piece))
        return digest.hexdigest()

    async def _write(self, stream: BinaryIO, piece: bytes) -> None:
        await self._run(lambda: _appended(stream, piece))

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def refuse_other_types(request: Request) -> None:
    """Refuse what is packed, in parts, or of another type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if kind not in _TYPES or packed != "identity":
        raise OtherTypeError(
            "send the file itself, as text/csv or application/vnd.apache.parquet, not packed and"
            " not as a form: curl --data-binary @FILE"
        )


async def chunks(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body."""
    received = 0
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > most_bytes:
                raise TooLargeError(too_large(most_bytes))
            yield chunk
    except ClientDisconnect:
        raise CutShortError("the connection was closed before the whole body came") from None


def too_large(most_bytes: int) -> str:
    """Return what a client is told whose body is larger."""
    return f"the request's body is larger than the {most_bytes} bytes that are taken; split it"


def _opened(folder: Path) -> BinaryIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder, prefix=".upload-", buffering=0)
    except OSError as error:
        raise _unwritable(error) from error


def _appended(stream: BinaryIO, piece: bytes) -> None:
    try:
        rest = memoryview(piece)
        while rest:
            rest = rest[stream.write(rest) :]
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> OutputError:
    return OutputError(f"the service cannot write its dataset now: {error.strerror or error}")
