"""Bundles to promote, small enough to fit in no time."""

from __future__ import annotations

from dataclasses import replace

from colltune.domain import Collective, Context
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from tests.models.machines import MSIZES, measured


def bundle(release: str = "4.1.4", largest: int = 4194304) -> Bundle:
    """Return a bundle for a release of Open MPI; each `largest` message gives another one."""
    msizes = tuple(m for m in MSIZES if m <= largest)
    data = measured(collectives=(Collective.BCAST,), msizes=msizes)
    return fit(replace(data, context=Context("made-up", "openmpi", release)), "knn")
