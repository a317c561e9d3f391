"""What MPICH decides by itself: the tree of its own for each collective, and the device's.

The trees in ``data`` are our own, smaller ones that decide as those of MPICH do. They say ``<=``
everywhere: MPICH takes a ``<`` of a communicator's size for ``<=`` once a test of the call went
before, so that alltoall's own ``comm_size<8`` holds for 8 processes.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from colltune.mpi.mpich.functions import DATA, Word, functions_of
from colltune.mpi.mpich.releases import catalogue_of
from colltune.mpi.mpich.tree import Branch, Leaf, Tree, test

FLAT_COMPOSITIONS = frozenset(
    {"bcast_gamma", "allreduce_beta", "reduce_gamma", "barrier_beta", "scan_beta"}
    | {"allgather_beta", "alltoall_beta", "exscan_alpha"}
    | {f"{name}_alpha" for name in ("allgatherv", "alltoallv", "alltoallw", "gather", "gatherv")}
    | {f"{name}_alpha" for name in ("scatter", "scatterv", "reduce_scatter")}
    | {"reduce_scatter_block_alpha"}
)
"""Compositions that only hand a call on to MPICH's tree for the whole communicator."""


def is_flat(release: str, function: str) -> bool:
    """Tell whether a composition of the device hands the call on as it is."""
    collective, _, kind = function.removeprefix("MPIDI_").partition("_intra_composition_")
    if catalogue_of(release).series == "4.0" and collective.lower() in ("allgather", "alltoall"):
        return True
    return f"{collective.lower()}_{kind}" in FLAT_COMPOSITIONS


def tree_of(release: str) -> dict[str, Tree]:
    """Return the tree of every collective that a file must have, each leaf left to the library."""
    return _trees("builtin.json", catalogue_of(release).series, "MPIR")


def compositions_of(release: str) -> dict[str, Tree]:
    """Return by which composition the device (ch4) runs each blocking collective."""
    return _trees("compositions.json", catalogue_of(release).series, "MPIDI")


@cache
def _trees(file: str, series: str, prefix: str) -> dict[str, Tree]:
    groups = json.loads((DATA / file).read_text(encoding="utf-8"))
    trees: dict[str, Tree] = {}
    for group in groups:
        for collective, stem in group["of"].items():
            reader = _Reader(
                series, f"{prefix}_{collective.capitalize()}_", stem, group, collective
            )
            trees[collective] = reader.tree(group["is"])
    order = functions_of(series).by_collective
    return {name: trees[name] for name in order if name in trees}


class _Reader:
    """Reads one group of a data file for one collective.

    A text is a leaf: ``+`` stands for the stem of the collective's functions, ``@`` for its
    function between groups of processes, ``$`` for a part of the group; ``|`` divides names of
    which the first one that the release has is meant.
    """

    def __init__(
        self, series: str, prefix: str, stem: str, group: dict[str, Any], collective: str
    ) -> None:
        self.series, self.prefix, self.stem = series, prefix, stem
        self.parts: dict[str, Any] = group.get("let", {})
        self.between: str = group.get("inter", {}).get(collective, "")

    def tree(self, node: Any) -> Tree:
        if isinstance(node, dict):
            return Branch(tuple((test(key), self.tree(then)) for key, then in node.items()))
        text = str(node)
        return self.tree(self.parts[text[1:]]) if text.startswith("$") else self.leaf(text)

    def leaf(self, text: str) -> Leaf:
        for choice in text.split("|"):
            words = choice.split()
            word = Word.of(words[0])
            if word.is_in(self.series):
                name = word.name.replace("+", self.stem).replace("@", self.between)
                pairs = tuple((n, v) for n, _, v in (w.partition("=") for w in words[1:]))
                return Leaf(self.prefix + name, pairs, left_to_library=True)
        raise ValueError(text)
