"""How much processes of a node slow each other down that copy at the same time, by a copy test.

b and cg of Tran et al. (Concurrency Computat. Pract. Exper. 2023, sec. 4.1 and 4.2), which enter
eq. 2 and 5 to 7: b is a copy's time while P processes copy, each out of its own region, over that
of a copy alone; cg the time until R readers of one region have their copies, over that of one. Only
memory is measured. What adapters take over (d of eq. 1) needs adapters, and stays a formula.
COLLTUNE_READERS changes how many processes there are, by default one for each core.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from colltune.models.costs.breakdown import Exchange, MultiAdapterAllgather
from colltune.models.costs.network import Link
from figures.figure import Figure

_SIZES = (4096, 65536, 1048576, 8388608)
_REPORTED = 1048576
_COPIED_BYTES, _LEAST_REPS, _MOST_REPS = 1 << 29, 31, 2001
_NODES = 8
_LINK = Link(2e-6, 1 / 12.5e9)
"""Startup and time per byte of one adapter of 100 Gbit/s."""
_FLAGS = ("-O2", "-std=c11", "-D_DEFAULT_SOURCE")


class Copies(NamedTuple):
    """Medians over repetitions: of a copy, and from the first one's start to the last one's end."""

    copy_s: float
    all_s: float


def run() -> Figure:
    """Return how long readers of a region wait for each other, over one after the other.

    ``ours`` is cg of 1 MiB, ``baseline`` the readers: so long it takes if they cannot read at the
    same time. ``facts`` are b and cg by size, and eq. 7 with them over eq. 7 without measurements.
    """
    readers = int(os.environ.get("COLLTUNE_READERS", len(os.sched_getaffinity(0))))
    if readers < 2:
        sys.exit("copy_congestion: two readers or more are needed; set COLLTUNE_READERS")
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "copy_congestion"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", *_FLAGS, "-o", program, source], check=True)
        slower, congestion, alone = {}, {}, {}
        for size in _SIZES:
            alone[size] = _copies(program, 1, size, "same").copy_s
            slower[size] = _copies(program, readers, size, "own").copy_s / alone[size]
            congestion[size] = _copies(program, readers, size, "same").all_s / alone[size]
            print(
                f"{size} bytes, {readers} readers: b {slower[size]:.2f}, cg {congestion[size]:.2f}",
                file=sys.stderr,
            )
    memory = _line(alone)
    assumed = MultiAdapterAllgather(
        _NODES, readers + 1, _REPORTED // (readers + 1), _LINK, 2, memory, memory
    )
    measured = replace(assumed, slowdown=slower[_REPORTED], congestion=congestion[_REPORTED])
    facts = {
        "readers": readers,
        "b": {size: round(value, 3) for size, value in slower.items()},
        "cg": {size: round(value, 3) for size, value in congestion.items()},
        "eq7_over_assumed": round(
            measured.inter_s(Exchange.RING) / assumed.inter_s(Exchange.RING), 3
        ),
    }
    ours = congestion[_REPORTED]
    return Figure("copy_congestion", ours / readers, "ratio", ours, readers, facts)


def _copies(program: Path, readers: int, size: int, source: str) -> Copies:
    reps = min(max(_COPIED_BYTES // size // readers, _LEAST_REPS), _MOST_REPS)
    done = subprocess.run(
        [program, str(readers), str(size), str(reps), source],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    rows = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    return Copies(*(statistics.median(column) for column in zip(*rows, strict=True)))


def _line(alone: dict[int, float]) -> Link:
    """Return startup and time per byte of a copy, through the smallest and the reported size."""
    least, most = _SIZES[0], _REPORTED
    slope = (alone[most] - alone[least]) / (most - least)
    return Link(max(alone[least] - slope * least, 0.0), slope)
