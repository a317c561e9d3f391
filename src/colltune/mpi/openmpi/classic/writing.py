"""Writes what was chosen as a classic rules file: entries of communicator sizes, rules in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Catalogue, CollectiveEntry, SizeUnit

HEADER = "rule-file-version-2"


@dataclass(frozen=True)
class Line:
    """A rule: from ``first`` on, as the library counts, ``configuration``; what to say of it."""

    first: int
    configuration: Configuration
    comment: str = ""


@dataclass(frozen=True)
class Block:
    """The rules for communicators of ``comm_size`` processes and more, up to the next block."""

    comm_size: int
    lines: tuple[Line, ...]
    comment: str = ""


Blocks = Mapping[Collective, Sequence[Block]]


def counted(entry: CollectiveEntry, comm_size: int, msize_bytes: int) -> int:
    """Return what the library compares with thresholds for a message of `msize_bytes`."""
    if entry.size is SizeUnit.MSIZE:
        return msize_bytes
    if entry.size is SizeUnit.MSIZE_TIMES_NPROCS:
        return comm_size * msize_bytes
    return 0


def left(comm_size: int, collective: Collective, library: str) -> Block:
    """Return the block that leaves communicators from `comm_size` on to the library."""
    default = Configuration.default(library, collective)
    return Block(comm_size, (Line(0, default),), "left to the library")


def render(catalogue: Catalogue, heading: Sequence[str], blocks: Blocks) -> str:
    """Return the text of a file; every collective's first block has to be for 0 processes.

    It has a version header if a rule limits requests, which no release reads without one. For 6.x
    every bound between blocks is written twice, with the rules before and after it: that release
    takes a size for the end of the entries before, other ones for a start, and so it means the same
    to all.
    """
    requests = any(
        "requests" in dict(line.configuration.parameters)
        for found in blocks.values()
        for block in found
        for line in block.lines
    )
    lines = [HEADER] if requests else []
    lines += [*(f"# {text}" for text in heading), f"{len(blocks)} # collectives"]
    for collective, found in blocks.items():
        entry = catalogue.collectives[collective]
        written = _doubled(found) if catalogue.series.startswith("6") else found
        lines += [f"{entry.id} # {collective}", f"{len(written)} # communicator sizes"]
        for block in written:
            lines += _block_lines(entry, block)
    return "\n".join(lines) + "\n"


def _doubled(blocks: Sequence[Block]) -> list[Block]:
    found = [blocks[0]]
    for before, block in pairwise(blocks):
        until = f"up to {block.comm_size - 1} processes for Open MPI 6"
        found += [Block(block.comm_size, before.lines, until), block]
    return found


def _block_lines(entry: CollectiveEntry, block: Block) -> list[str]:
    comment = f" # {block.comment}" if block.comment else ""
    return [
        f"{block.comm_size} {len(block.lines)}{comment}",
        *(_line(entry, line) for line in block.lines),
    ]


def _line(entry: CollectiveEntry, line: Line) -> str:
    comment = f" # {line.comment}" if line.comment else ""
    return " ".join(str(number) for number in _numbers(entry, line)) + comment


def _numbers(entry: CollectiveEntry, line: Line) -> tuple[int, ...]:
    algorithm = entry.named(line.configuration.algorithm)
    if line.configuration.is_default or algorithm is None:
        return (line.first, 0, 0, 0)
    given = line.configuration.numbers
    numbers = (line.first, algorithm.number, given.get("fanout", 0), given.get("segsize", 0))
    return (*numbers, given["requests"]) if "requests" in given else numbers
