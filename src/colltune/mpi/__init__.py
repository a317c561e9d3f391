"""MPI libraries: their algorithms, configuration files and what they make of them.

To add a library: a module (or package) with a class that fulfils `MpiLibrary`, its catalogue as
TOML, and a line in `LIBRARIES`.
"""

from __future__ import annotations

from colltune.errors import LibraryError
from colltune.mpi.openmpi import OpenMpi
from colltune.mpi.protocol import Decision, Honoured, MpiLibrary, RulesFile

LIBRARIES: dict[str, MpiLibrary] = {"openmpi": OpenMpi()}


def library(name: str) -> MpiLibrary:
    """Return the MPI library called `name`.

    Raises
    ------
    LibraryError
        If colltune has no catalogue of it.
    """
    try:
        return LIBRARIES[name]
    except KeyError:
        known = ", ".join(LIBRARIES)
        raise LibraryError(
            f"no catalogue of the MPI library {name!r}; its configuration cannot be written;"
            f" known: {known}"
        ) from None


__all__ = ["LIBRARIES", "Decision", "Honoured", "MpiLibrary", "RulesFile", "library"]
