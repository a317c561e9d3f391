"""The second file that Open MPI 5.0 and later need on communicators that span nodes.

There coll/han outranks coll/tuned and would never look at the rules. Its own dynamic rules send
exactly the chosen message sizes of exactly the listed communicator sizes to coll/tuned; everything
else stays with coll/han, which is the library's real default (``coll_han_dynamic_file.c``). Sizes
are those of the caller, without the factor n of the classic rules file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.openmpi.components import HAN, TUNED
from colltune.mpi.openmpi.han import rendering
from colltune.mpi.openmpi.matches import HanLevel


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
    content: dict[Collective, rendering.Levels] = {}
    for collective in {collective for collective, _ in chosen}:
        by_size = {size: _components(s) for (c, size), s in chosen.items() if c is collective}
        entries = rendering.exactly(by_size, HAN)
        content[collective] = {HanLevel.GLOBAL_COMMUNICATOR: entries}
    heading = (
        f"Open MPI coll_han dynamic rules beside the coll_tuned rules for {shape}",
        "Written by colltune. All ranks must read the same file.",
    )
    return rendering.render(content, heading, names_levels=True)


def _components(steps: Sequence[Step]) -> list[tuple[int, str]]:
    components: list[tuple[int, str]] = []
    for step in steps:
        component = HAN if step.configuration.is_default else TUNED
        if not components or component != components[-1][1]:
            components.append((step.first_bytes, component))
    return components
