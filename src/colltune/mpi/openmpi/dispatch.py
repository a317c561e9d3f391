"""coll/han's file beside rules for coll/tuned, which sends communicators over nodes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colltune.domain import Collective, Shape
from colltune.mpi.choosing import Chosen
from colltune.mpi.openmpi.components import HAN, TUNED
from colltune.mpi.openmpi.rules import HanLevel

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


DISPATCH = ".dispatch"
"""End of the name of coll/han's file beside the rules for coll/tuned."""


def dispatch_rules(chosen: Mapping[tuple[Collective, int], Sequence[Chosen]], shape: Shape) -> str:
    """Return the second file that 5.0 and later need on communicators that span nodes.

    There coll/han outranks coll/tuned and would never look at the rules. Its own rules send exactly
    the chosen message sizes of exactly the listed communicator sizes to coll/tuned; everything else
    stays with coll/han, the library's real default (``coll_han_dynamic_file.c``). Sizes are those
    of the caller, without the factor n of the classic rules file.
    """
    content: dict[Collective, Levels] = {}
    for collective in {collective for collective, _ in chosen}:
        by_size = {size: _components(s) for (c, size), s in chosen.items() if c is collective}
        entries = exactly(by_size, HAN)
        content[collective] = {HanLevel.GLOBAL_COMMUNICATOR: entries}
    heading = (
        f"Open MPI coll_han dynamic rules beside the coll_tuned rules for {shape}",
        "Written by colltune. All ranks must read the same file.",
    )
    return render(content, heading, names_levels=True)


def _components(steps: Sequence[Chosen]) -> list[tuple[int, str]]:
    components: list[tuple[int, str]] = []
    for step in steps:
        component = HAN if step.configuration.is_default else TUNED
        if not components or component != components[-1][1]:
            components.append((step.first_bytes, component))
    return components
