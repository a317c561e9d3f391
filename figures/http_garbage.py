"""10,000 requests of mixed garbage: by how many MB the service grows.

Wrong, missing, repeated, binary and huge parameters, paths that climb, methods that nobody has,
bodies where none belong, what is no HTTP at all, and now and then a shape that is right but new.
``ours`` is the memory afterwards in MB, ``baseline`` how many answers were 5xx; the service's own
refusals for want of time (503 with Retry-After) count, too.
"""

from __future__ import annotations

import random
import re
import socket
import string
import tempfile
from collections import Counter
from pathlib import Path

from figures.figure import Figure
from figures.render_shape_ms import bundle_of
from tests.server.serving_process import Server

_REQUESTS, _WARM_UP = 10_000, 500
_TIMEOUT_S = 30.0
_PATHS = (
    "/v1/select",
    "/v1/config/openmpi/4.1.6",
    "/v1/config/openmpi/9.9",
    "/v1/config/..%2f..%2fetc/passwd",
    "/v1/job/openmpi/4.1.6",
    "/v1/bundles/../../x",
    "/v1/bundles/abcd/report",
    "/v1/bundles/abcd/promote",
    "/v1/summaries",
    "/nowhere",
)
_NAMES = ("nodes", "ppn", "msize", "collective", "folder", "bundle", "format", "library", "x")
_VALUES = ("0", "-1", "nan", "1e9", "9" * 50, "%00", "%ff%fe", "%D9%A3", "", "../..", "'\"<>")
_METHODS = ("GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW")


def _request(rng: random.Random, number: int) -> bytes:
    kind = rng.random()
    if kind < 0.01:
        path = f"/v1/config/openmpi/4.1.6?nodes={2 + number}&ppn=2"
        return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    if kind < 0.06:
        return rng.randbytes(rng.randint(1, 400)) + b"\r\n\r\n"
    names = [*_NAMES, "".join(rng.choices(string.ascii_letters, k=12))]
    values = [*_VALUES, "y" * rng.choice((10, 3000, 9000)), str(rng.randint(1, 99))]
    query = "&".join(f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randint(0, 6)))
    body = rng.randbytes(rng.choice((0, 0, 10, 5000)))
    head = f"{rng.choice(_METHODS)} {rng.choice(_PATHS)}?{query} HTTP/1.1\r\nHost: x\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n"
    if rng.random() < 0.2:
        head += f"If-None-Match: {rng.choice(values)}\r\nAuthorization: {rng.choice(values)}\r\n"
    return head.encode("latin-1") + b"Connection: close\r\n\r\n" + body


def _status(server: tuple[str, int], request: bytes) -> int:
    """Send a request on a connection of its own; return the status, 0 where there is no answer."""
    with socket.create_connection(server, _TIMEOUT_S) as connection:
        try:
            connection.sendall(request)
            if b"HTTP/1.1\r\n" not in request:
                # it might be taken for the beginning of something
                connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            return 0
    found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    return int(found[1]) if found else 0


def _memory_mb(pid: int) -> float:
    status = Path("/proc", str(pid), "status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


def run() -> Figure:
    """Send garbage and see what becomes of the service; goal: less than 20 MB, and no 5xx."""
    rng = random.Random(6)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        bundle = bundle_of("knn", 60).save(Path(folder, "bundle"))
        with Server("--bundle", bundle) as service:
            service.await_ready()
            host, _, port = service.address.removeprefix("http://").rpartition(":")
            server = host, int(port)
            for number in range(_WARM_UP):
                _status(server, _request(rng, number))
            before_mb = _memory_mb(service.pid)
            statuses: Counter[int] = Counter()
            for number in range(_WARM_UP, _WARM_UP + _REQUESTS):
                request = _request(rng, number)
                status = _status(server, request)
                statuses[status] += 1
                if status >= 500:
                    print(status, request[:100])
            after_mb = _memory_mb(service.pid)
            answered = service.get("/health/ready").status == 200
    if not answered:
        raise SystemExit("the service does not answer any more")
    print("statuses:", dict(sorted(statuses.items())))
    failed = sum(count for status, count in statuses.items() if status >= 500)
    return Figure("http_garbage", after_mb - before_mb, "MB", after_mb, failed)
