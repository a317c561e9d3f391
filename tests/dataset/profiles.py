"""Profiles for tests: made up, in the format of the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from colltune.dataset.profile import COLUMNS, bucket, fnv1a

RECORDED = Path(__file__).parents[1] / "data" / "profiles"
HEAD = {
    "library": "openmpi 4.1.4",
    "program": "solver",
    "job": "17",
    "host": "node1",
    "started": "2026-11-22T11:50:30Z",
    "world": "32 8x4",
    "rate": "1",
    "wall_s": "10",
    "collectives_s": "4 3 5",
    "lost_calls": "0",
    "arm": "-",
    "left_out": "0 0",
}


def row(
    collective: str,
    layout: str,
    first_bytes: int,
    calls: int,
    call_s: float,
    *,
    size: int | None = None,
    msize: int | None = None,
    configuration: int = 0,
) -> str:
    """Return the line of calls that were all timed and all took as long; `calls` of a process."""
    if size is None:
        nodes, ppn = map(int, layout.split("x"))
        size = nodes * ppn
    each = msize if msize is not None else first_bytes
    n = calls * size
    counts = (first_bytes, configuration, n, n * each, each, each, n)
    seconds = (n * call_s, call_s, call_s, n * call_s**2, n * call_s)
    times = f"{bucket(call_s)}:{n}"
    words = (collective, size, layout, *counts, *(f"{s:.9g}" for s in seconds), times)
    return "row " + " ".join(map(str, words))


def profile_text(
    rows: Iterable[str], configurations: Sequence[str] = (), **head: str | None
) -> bytes:
    """Return a file with these rows; `head` replaces lines of the head, None leaves one out."""
    lines = ["colltune-profile 2"]
    lines += [f"{name} {text}" for name, text in {**HEAD, **head}.items() if text is not None]
    lines += [f"configuration {k} {name}" for k, name in enumerate(configurations, start=1)]
    lines += ["columns " + " ".join(COLUMNS), *rows]
    return sealed("\n".join(lines) + "\n")


def sealed(body: str) -> bytes:
    """Return `body` with the line that ends a file."""
    content = body.encode()
    return content + f"end {fnv1a(content):016x}\n".encode()
