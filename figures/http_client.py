"""A client that is faster than any server: it counts bytes.

``python -m figures.http_client HOST:PORT PATH SECONDS CONNECTIONS`` prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop


class _Connection(asyncio.Protocol):
    """Sends a request as soon as the answer to the one before is whole."""

    def __init__(self, request: bytes, size: int, latencies_s: list[float]) -> None:
        self._request, self._size, self._latencies_s = request, size, latencies_s
        self._left = size
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's by name
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._left == self._size and not data.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"not what was asked for: {data[:200]!r}")
        self._left -= len(data)
        if self._left == 0:
            self._latencies_s.append(time.perf_counter() - self._sent_at)
            self._left = self._size
            self._send()
        elif self._left < 0:
            raise SystemExit("an answer is longer than the first one")


async def _answer_size(host: str, port: int, request: bytes) -> int:
    """Return the bytes of an answer, its head included; equal requests get equally long ones."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    await reader.readexactly(length)
    writer.close()
    return len(head) + length


async def _load(address: str, path: str, seconds: float, connections: int) -> dict[str, float]:
    host, _, port = address.rpartition(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    size = await _answer_size(host, int(port), request)
    loop = asyncio.get_running_loop()
    latencies_s: list[float] = []
    opened = [
        await loop.create_connection(
            lambda: _Connection(request, size, latencies_s), host, int(port)
        )
        for _ in range(connections)
    ]
    started = time.perf_counter()
    latencies_s.clear()
    await asyncio.sleep(seconds)
    elapsed = time.perf_counter() - started
    ordered = sorted(latencies_s)
    for transport, _ in opened:
        transport.abort()
    return {
        "per_second": len(ordered) / elapsed,
        "p99_s": ordered[int(0.99 * (len(ordered) - 1))],
    }


def main() -> None:
    """Load a server and print what it did."""
    address, path, seconds, connections = sys.argv[1:]
    found = uvloop.run(_load(address, path, float(seconds), int(connections)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
