"""Whether every process of the user's job can read a file, asked without starting MPI.

One process that cannot read it leaves Open MPI's processes waiting for each other forever.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from colltune.bench import build
from colltune.mpi import formats
from colltune.mpi.installation import Installation
from colltune.verify.canary import Canary, Look
from colltune.verify.user_line import UserLine, check_line, installation_of

_COMPANIONS = (".dispatch", ".ch4", ".posix")


@dataclass(frozen=True)
class Request:
    """What the user asked for; see `colltune verify`."""

    path: Path
    words: tuple[str, ...]
    release: str | None
    format: str | None
    mpi: str | None
    work: Path
    budget_s: float
    limit_s: float
    measure: bool


@dataclass(frozen=True)
class Readability:
    """Whether every process of the job reads the same bytes."""

    path: Path
    nprocs: int
    hosts: tuple[str, ...]
    problems: Mapping[str, str]


def readability(request: Request, canary: Canary) -> tuple[Readability, Look]:
    """Ask every process of the job for the file, without starting MPI."""
    paths = [request.path, *companions(request.path).values()]
    here = [_here(path) for path in paths]
    look = canary.look(paths)
    problems: dict[str, list[str]] = {}
    for seen in look.files:
        name = paths[seen.index].name
        if seen.why:
            problems.setdefault(seen.host, []).append(f"{name} cannot be read: {seen.why}")
        elif (seen.size_bytes, seen.crc) != here[seen.index]:
            problems.setdefault(seen.host, []).append(
                f"{name} has a different content there than here"
            )
    told = {host: "; ".join(dict.fromkeys(texts)) for host, texts in sorted(problems.items())}
    hosts = tuple(dict.fromkeys(seen.host for seen in look.files))
    ranks = {seen.rank for seen in look.files}
    return Readability(request.path, len(ranks), hosts, told), look


def canary_of(request: Request) -> tuple[Canary, Installation]:
    """Return the canary, compiled for the MPI of the user's launcher."""
    check_line(request.words)
    installation = installation_of(request.words, request.mpi)
    program = build.canary(installation, request.work)
    line = UserLine(request.words, dict(os.environ) | installation.root_allowance())
    return Canary(line, program, request.limit_s), installation


def companions(path: Path) -> dict[str, Path]:
    """Return the files beside `path` that belong to it, by the ends of their names."""
    beside = {end: path.with_name(path.name + end) for end in _COMPANIONS}
    return {end: file for end, file in beside.items() if file.exists()}


def _here(path: Path) -> tuple[int, int]:
    formats.read_text(path)  # with the right complaint
    content = path.read_bytes()
    return len(content), zlib.crc32(content)
