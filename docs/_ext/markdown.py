"""Pieces of Markdown, made of plain text in which no character means anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$&]")


def text(plain: str) -> str:
    """Return text that reads as it is; `code` in backticks stays code."""
    parts = re.split(r"(``.+?``|`[^`]+`)", " ".join(plain.split()))
    return "".join(
        code(part.strip("`")) if at % 2 else _SPECIAL.sub(r"\\\g<0>", part)
        for at, part in enumerate(parts)
    )


def code(plain: str) -> str:
    """Return text in the type of code, for a table's cell, too; nothing for nothing."""
    if not plain:
        return ""
    ticks = "``" if "`" in plain else "`"
    # a table is parted into cells before code is looked for
    return f"{ticks}{plain.replace('|', chr(92) + '|')}{ticks}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown cells, without the columns in which nothing stands."""
    cells = [[cell.replace("\n", " ") for cell in row] for row in rows]
    kept = [at for at in range(len(head)) if at == 0 or any(row[at] for row in cells)]
    lines = [[head[at] for at in kept], ["---"] * len(kept)]
    lines += [[row[at] for at in kept] for row in cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def fenced(content: str, language: str = "text") -> str:
    """Return a block of code."""
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{content.rstrip()}\n{fence}\n\n"


def heading(level: int, plain: str) -> str:
    """Return a heading."""
    return f"{'#' * level} {plain}\n\n"
