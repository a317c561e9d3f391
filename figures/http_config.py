"""A configuration file that is kept ready, against an empty FastAPI handler.

Both run under the same uvicorn, one worker each, with 64 connections from another process, in turn.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from figures.figure import Figure
from figures.http_servers import Loaded, empty_server, in_turn, median_ratio
from figures.render_shape_ms import bundle_of
from tests.server.serving_process import Server

_PATH = "/v1/config/openmpi/4.1.6?nodes=34&ppn=32"
_SECONDS, _ROUNDS = 2.0, 7
_PATIENCE_S = 30.0


def _loaded() -> tuple[list[Loaded], list[Loaded]]:
    with tempfile.TemporaryDirectory() as folder:
        bundle = bundle_of("knn", 60).save(Path(folder, "bundle"))
        with Server("--bundle", bundle) as service, empty_server() as empty:
            service.await_ready()
            _await(empty)
            address = service.address.removeprefix("http://")
            return in_turn((address, _PATH), (empty, "/"), _SECONDS, _ROUNDS)


def _await(address: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        connection = HTTPConnection(address, timeout=_PATIENCE_S)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()


def _figure(name: str, of: Callable[[Loaded], float]) -> Figure:
    ours, baseline = ([of(one) for one in side] for side in _loaded())
    ratio = median_ratio(ours, baseline)
    return Figure(name, ratio, "ratio", statistics.median(ours), statistics.median(baseline))


def run() -> Figure:
    """Compare answers per second; goal: at least 0.9."""
    return _figure("http_config_vs_empty", lambda found: found.per_second)


def run_p99() -> Figure:
    """Compare the 99 % quantile of latency; goal: at most 3."""
    return _figure("http_p99_vs_empty", lambda found: found.p99_s)
