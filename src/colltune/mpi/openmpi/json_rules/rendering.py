"""The text of JSON rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from colltune.domain import Collective
from colltune.mpi.openmpi.rules import LARGEST_COMM_SIZE, LARGEST_SIZE, Distribution

_KEYS = {"fanout": "faninout", "segsize": "seg_size", "requests": "reqs"}


@dataclass(frozen=True)
class Row:
    """An algorithm, as the library spells it, for compared sizes (both ends included)."""

    first: int
    last: int
    algorithm: str
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Block:
    """The rules for communicators of `first_size` to `last_size` processes (both included)."""

    collective: Collective
    first_size: int
    last_size: int
    distribution: Distribution
    rows: tuple[Row, ...]


def render(blocks: Iterable[Block]) -> str:
    """Return the file that holds `blocks` in their order, by collective."""
    by_collective: dict[Collective, list[Block]] = {}
    for block in blocks:
        by_collective.setdefault(block.collective, []).append(block)
    texts = []
    for collective, own in sorted(by_collective.items()):
        inside = ",\n".join(_block(block) for block in own)
        texts.append(f"    {json.dumps(str(collective))}: [\n{inside}\n    ]")
    inside = "\n" + ",\n".join(texts) + "\n  " if texts else ""
    return (
        f'{{\n  "rule_file_version": 3,\n  "module": "tuned",\n  "collectives": {{{inside}}}\n}}\n'
    )


def _block(block: Block) -> str:
    head = []
    if block.first_size > 0:
        head.append(f'"comm_size_min": {block.first_size}')
    # to the library "inf" is no size of a communicator
    if block.last_size < LARGEST_COMM_SIZE:
        head.append(f'"comm_size_max": {block.last_size}')
    if block.distribution is not Distribution.ANY:
        head.append(f'"comm_rank_distribution": "{block.distribution}"')
    rows = ",\n".join(f"          {json.dumps(dict(_values(row)))}" for row in block.rows)
    inside = f"\n{rows}\n        " if rows else ""
    first = f"        {', '.join(head)},\n" if head else ""
    return f'      {{\n{first}        "rules": [{inside}]\n      }}'


def _values(row: Row) -> Iterator[tuple[str, int | str]]:
    if row.first > 0 or row.last < LARGEST_SIZE:
        yield "msg_size_min", row.first
        yield "msg_size_max", row.last if row.last < LARGEST_SIZE else "inf"
    yield "alg", row.algorithm
    for name, value in row.parameters.items():
        if value:
            yield _KEYS[name], value
