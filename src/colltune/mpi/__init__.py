"""MPI libraries: their algorithms, configuration files and what they make of them.

To add a library: a module (or package) with a class that fulfils `MpiLibrary`, which is easiest by
starting from `catalogued.CataloguedLibrary`; its catalogue as TOML; and a line in `LIBRARIES`. One
that derives from another one stands behind it. `formats.FORMATS` are those of all libraries.
"""

from __future__ import annotations

from colltune.errors import LibraryError
from colltune.mpi.derivatives import check_no_derivative
from colltune.mpi.intelmpi import IntelMpi
from colltune.mpi.mpich import Mpich
from colltune.mpi.openmpi import OpenMpi
from colltune.mpi.protocol import Honoured, MpiLibrary, UserPatterns

LIBRARIES: dict[str, MpiLibrary] = {
    "openmpi": OpenMpi(),
    "mpich": Mpich(),
    "intelmpi": IntelMpi(),
}


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
        check_no_derivative(name)
        known = ", ".join(LIBRARIES)
        raise LibraryError(
            f"no catalogue of the MPI library {name!r}; its algorithms are not known to colltune;"
            f" known: {known}"
        ) from None


__all__ = ["LIBRARIES", "Honoured", "MpiLibrary", "UserPatterns", "library"]
