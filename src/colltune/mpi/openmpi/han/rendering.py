"""The text of a file for coll/han."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colltune.domain import Collective
from colltune.mpi.openmpi.matches import HanLevel

Lines = Sequence[tuple[int, str]]
"""A component from each message size on."""
Levels = Mapping[HanLevel, Sequence[tuple[int, Lines]]]
"""For each level, from which communicator size on which lines hold."""


def render(
    content: Mapping[Collective, Levels], heading: Sequence[str], *, names_levels: bool
) -> str:
    """Return the file; levels are numbers unless the release reads their names."""
    lines = [*(f"# {line}" for line in heading), f"{len(content)}"]
    for collective, levels in sorted(content.items()):
        lines += [f"{collective}", f"{len(levels)}"]
        for level, entries in levels.items():
            number = list(HanLevel).index(level)
            lines += [str(level) if names_levels else str(number), f"{len(entries)}"]
            for comm_size, rules in entries:
                lines.append(f"{comm_size} {len(rules)}")
                lines += [f"{first_bytes} {component}" for first_bytes, component in rules]
    return "\n".join(lines) + "\n"


def exactly(by_size: Mapping[int, Lines], otherwise: str) -> list[tuple[int, Lines]]:
    """Return entries that hold for exactly these communicator sizes; `otherwise` for all others."""
    nothing = [(0, otherwise)]
    found: list[tuple[int, Lines]] = [(1, nothing)]
    for comm_size, lines in sorted(by_size.items()):
        found.append((comm_size, lines))
        if comm_size + 1 not in by_size:
            found.append((comm_size + 1, nothing))
    return found
