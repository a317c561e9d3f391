"""Seconds until the first answer for a shape that nobody asked for before, the longest of several.

The bundle has 60 configurations of all 14 collectives of Open MPI 4.1; ``ours`` is the median.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from figures.figure import Figure
from figures.render_shape_ms import bundle_of
from tests.server.serving_process import Server

_SHAPES = [(nodes, ppn) for nodes in (2, 7, 34, 60, 100, 512, 1024) for ppn in (1, 31, 48)]
_PROMISED_S = 1.0


def run() -> Figure:
    """Ask a fresh service for one shape after the other."""
    times_s = []
    with tempfile.TemporaryDirectory() as folder:
        bundle = bundle_of("xgboost", 60).save(Path(folder, "bundle"))
        with Server("--bundle", bundle) as service:
            service.await_ready()
            for nodes, ppn in _SHAPES:
                started = time.perf_counter()
                answer = service.get(f"/v1/config/openmpi/4.1.6?nodes={nodes}&ppn={ppn}")
                times_s.append(time.perf_counter() - started)
                if answer.status != 200:
                    raise SystemExit(f"{answer.status}: {answer.body!r}")
    return Figure("http_cold_shape_s", max(times_s), "s", statistics.median(times_s), _PROMISED_S)
