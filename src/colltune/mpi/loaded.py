"""Which MPI a shell has loaded, as environment modules tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_OTHERS = re.compile(r"mvapich|cray-mpich|psmpi|hpcx", re.IGNORECASE)
_MODULES = (
    ("openmpi", re.compile(r"openmpi|open-mpi", re.IGNORECASE)),
    ("mpich", re.compile(r"mpich", re.IGNORECASE)),
    (
        "intelmpi",
        re.compile(r"(?:^|/)(?:impi|intel-mpi|intelmpi|intel-oneapi-mpi)/|^mpi/20(?:19|21)"),
    ),
)
# EasyBuild's modules tell the release of what they are for
_EASYBUILD = (
    ("openmpi", "EBVERSIONOPENMPI"),
    ("mpich", "EBVERSIONMPICH"),
    ("intelmpi", "EBVERSIONIMPI"),
)
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
    for library, variable in reversed(_EASYBUILD):
        if environment.get(variable):
            return Loaded(library, _release(environment[variable]))
    found = None
    for module in environment.get("LOADEDMODULES", "").split(":"):
        if _OTHERS.search(module):
            found = Loaded(UNKNOWN, "")
            continue
        for library, pattern in _MODULES:
            if pattern.search(module):
                found = Loaded(library, _release(module.rpartition("/")[2]))
                break
    return found


def _release(version: str) -> str:
    match = _RELEASE.match(version)
    return match[0] if match else ""
