"""How `colltune catalog` lays out the relatives of libraries, which are for reading only."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from colltune.cli.catalog_text import TIED, labelled
from colltune.domain import Collective
from colltune.mpi.relatives import UNTRIED, Relative

_WIDTH = 100


def relative(known: Relative, collective: Collective | None) -> str:
    """Return everything about a relative, or what concerns one collective."""
    algorithms, variables = known.algorithms, known.variables
    if collective is not None:
        algorithms, variables = known.about(collective)
    parts = [
        f"{known.title} {known.releases}: {UNTRIED}",
        textwrap.fill(known.summary, _WIDTH, break_on_hyphens=False, break_long_words=False),
    ]
    if algorithms:
        labels = [f"{each.collective} by {each.variable}" for each in algorithms]
        texts = ["; ".join(_tied(value) for value in each.values) for each in algorithms]
        parts.append(_listed("its own algorithms", labels, texts))
    if variables:
        texts = [f"{s.meaning}; {s.values}; default {s.default}" for s in variables]
        parts.append(_listed("thresholds and switches", [s.name for s in variables], texts))
    if collective is not None and not algorithms:
        parts.append(f"no algorithms of its own for {collective} are known")
    if known.series:
        parts.append(
            f"colltune catalog {known.relative_of}@{known.series} prints what it shares with its"
            " origin."
        )
    sources = "\n".join(labelled("-", source, 1) for source in known.sources)
    return "\n\n".join([*parts, f"sources\n{sources}"])


def _listed(title: str, labels: Sequence[str], texts: Sequence[str]) -> str:
    width = max(map(len, labels))
    pairs = zip(labels, texts, strict=True)
    return "\n".join([title, *(labelled(label, text, width) for label, text in pairs)])


def _tied(value: str) -> str:
    """Return ``1 recursive doubling`` with its number on the line of its name."""
    return value.replace(" ", TIED, 1)


def relative_json(known: Relative, collective: Collective | None) -> dict[str, Any]:
    """Return a relative for machines."""
    told = asdict(known) | {"tried": False}
    if collective is not None:
        algorithms, variables = known.about(collective)
        told["algorithms"] = [asdict(each) for each in algorithms]
        told["variables"] = [asdict(each) for each in variables]
    return told
