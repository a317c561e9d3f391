"""Small bundles of a made-up machine, fitted once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from tests.models.machines import CONTEXT, measured


@cache
def small(number: int = 0, release: str = CONTEXT.library_version) -> Bundle:
    """Return a bundle of bcast; another `number` is another bundle of the same slot."""
    data = measured(nodes=(2, 4), ppn=(1,), msizes=(1, 64, 1024, 8192, 65536), noise=0.01 * number)
    return fit(replace(data, context=replace(CONTEXT, library_version=release)), "knn")
