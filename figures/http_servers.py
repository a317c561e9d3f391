"""Servers under load, and who loads them; each is a process of its own."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CONNECTIONS = 64
_PATIENCE_S = 30.0
_EMPTY = (
    "import socket, sys, uvicorn\n"
    "from colltune.server.supervisor import uvicorn_config\n"
    "listening = socket.socket(fileno=int(sys.argv[1]))\n"
    "config = uvicorn_config('figures.http_empty:empty_app')\n"
    "uvicorn.Server(config).run([listening])\n"
)


@dataclass(frozen=True)
class Loaded:
    """What a server did under load: answers per second, and the 99 % quantile of latency."""

    per_second: float
    p99_s: float


@contextmanager
def empty_server() -> Iterator[str]:
    """Run a FastAPI application with one empty handler as the service is run; yield host:port."""
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    with listening:
        descriptor = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", _EMPTY, str(descriptor)], pass_fds=[descriptor]
        )
    try:
        yield f"{host}:{port}"
    finally:
        process.kill()
        process.wait()


def load(address: str, path: str, seconds: float, connections: int = CONNECTIONS) -> Loaded:
    """Ask for `path` over many connections at once, without a pause, from another process."""
    words = [address, path, str(seconds), str(connections)]
    found = subprocess.run(
        [sys.executable, "-m", "figures.http_client", *words],
        check=True,
        capture_output=True,
        timeout=seconds + _PATIENCE_S,
    )
    told = json.loads(found.stdout)
    return Loaded(told["per_second"], told["p99_s"])


def in_turn(
    ours: tuple[str, str], baseline: tuple[str, str], seconds: float, rounds: int
) -> tuple[list[Loaded], list[Loaded]]:
    """Load two servers, (host:port, path) each, in turn; the first round only warms them."""
    found: tuple[list[Loaded], list[Loaded]] = ([], [])
    for _ in range(rounds + 1):
        for side, (address, path) in zip(found, (ours, baseline), strict=True):
            side.append(load(address, path, seconds))
            # what a round leaves behind is not the next one's
            time.sleep(0.1)
    return found[0][1:], found[1][1:]


def median_ratio(ours: list[float], baseline: list[float]) -> float:
    """Return the median of the ratios of neighbouring rounds."""
    return statistics.median(o / b for o, b in zip(ours, baseline, strict=True))
