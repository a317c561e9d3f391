"""The second file that Open MPI 5.0 needs on communicators that span nodes.

There coll/han outranks coll/tuned and would never look at the rules. Its own dynamic rules send
exactly the chosen message sizes of exactly the listed communicator sizes to coll/tuned; everything
else stays with coll/han, which is the library's real default (``coll_han_dynamic_file.c``). Sizes
are those of the caller, without the factor n of the classic rules file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from colltune.domain import Collective, Configuration, Shape


class Step(Protocol):
    """A configuration from a message size on."""

    @property
    def first_bytes(self) -> int:
        """Where it starts, in our ``msize_bytes``."""
        ...

    @property
    def configuration(self) -> Configuration:
        """What is used from there on."""
        ...


def render(chosen: Mapping[tuple[Collective, int], Sequence[Step]], shape: Shape) -> str:
    """Return the dispatch file for the steps of each (collective, communicator size)."""
    collectives = sorted({collective for collective, _ in chosen})
    lines = [
        f"# Open MPI coll_han dynamic rules beside the coll_tuned rules for {shape}",
        "# Written by colltune. All ranks must read the same file.",
        f"{len(collectives)}",
    ]
    for collective in collectives:
        entries = _entries({size: s for (c, size), s in chosen.items() if c is collective})
        lines += [f"{collective}", "1", "global_communicator", f"{len(entries)}"]
        for comm_size, components in entries:
            lines.append(f"{comm_size} {len(components)}")
            lines += [f"{first_bytes} {component}" for first_bytes, component in components]
    return "\n".join(lines) + "\n"


def _entries(
    by_size: Mapping[int, Sequence[Step]],
) -> list[tuple[int, list[tuple[int, str]]]]:
    nothing = [(0, "han")]
    found = [(1, nothing)]
    for comm_size in sorted(by_size):
        found.append((comm_size, _components(by_size[comm_size])))
        if comm_size + 1 not in by_size:
            found.append((comm_size + 1, nothing))
    return found


def _components(steps: Sequence[Step]) -> list[tuple[int, str]]:
    components: list[tuple[int, str]] = []
    for step in steps:
        component = "han" if step.configuration.is_default else "tuned"
        if not components or component != components[-1][1]:
            components.append((step.first_bytes, component))
    return components
