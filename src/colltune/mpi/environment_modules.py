"""Which MPI a shell has loaded, as environment modules tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from colltune.mpi import LIBRARIES
from colltune.mpi.toolchain import DERIVATIVES

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_OTHERS = re.compile(DERIVATIVES, re.IGNORECASE)
UNKNOWN = "?"
"""The library of one that colltune does not write for."""


class Loaded(NamedTuple):
    """A loaded MPI; ``release`` is empty where modules do not tell it."""

    library: str
    release: str


def loaded(environment: Mapping[str, str]) -> Loaded | None:
    """Return the MPI that was loaded last, None if modules tell of none.

    The Slurm hooks tell the same, in ``server/slurm/task_prolog.sh``.
    """
    latest_first = tuple(reversed([*LIBRARIES.values()]))
    for mpi in latest_first:
        if release := environment.get(mpi.toolchain.easybuild):
            return Loaded(mpi.name, _release(release))
    found = None
    for module in environment.get("LOADEDMODULES", "").split(":"):
        ours = next((mpi for mpi in latest_first if mpi.toolchain.modules.match(module)), None)
        if ours is not None:
            found = Loaded(ours.name, _release(module.rpartition("/")[2]))
        elif _OTHERS.search(module):
            found = Loaded(UNKNOWN, "")
    return found


def _release(version: str) -> str:
    match = _RELEASE.match(version)
    return match[0] if match else ""
