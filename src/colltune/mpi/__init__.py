"""MPI libraries: their algorithms, configuration files and what they make of them.

To add a library: a module (or package) with a class that fulfils `MpiLibrary`, its catalogue as
TOML, and a line in `LIBRARIES`. Where it fulfils `ConfigurableLibrary` it stands in `CONFIGURABLE`,
too.
"""

from __future__ import annotations

from colltune.errors import LibraryError
from colltune.mpi import relatives
from colltune.mpi.intelmpi import IntelMpi
from colltune.mpi.mpich import Mpich
from colltune.mpi.openmpi import OpenMpi
from colltune.mpi.protocol import ConfigurableLibrary, Decision, Honoured, MpiLibrary, RulesFile

_OPENMPI = OpenMpi()
LIBRARIES: dict[str, MpiLibrary] = {"openmpi": _OPENMPI, "mpich": Mpich(), "intelmpi": IntelMpi()}
CONFIGURABLE: dict[str, ConfigurableLibrary] = {"openmpi": _OPENMPI}


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
        if name in relatives.names():
            raise LibraryError(relatives.why_not_written(name)) from None
        known = ", ".join(LIBRARIES)
        raise LibraryError(
            f"no catalogue of the MPI library {name!r}; its algorithms are not known to colltune;"
            f" known: {known}"
        ) from None


def configurable(name: str) -> ConfigurableLibrary:
    """Return the MPI library called `name`, whose configuration can be written.

    Raises
    ------
    LibraryError
        If colltune has no catalogue of it, or can only measure it.
    """
    known = library(name)
    if name not in CONFIGURABLE:
        raise LibraryError(
            f"writing the configuration of {known.title} is not supported yet; measure, fit,"
            " evaluate and select without --format work"
        )
    return CONFIGURABLE[name]


__all__ = [
    "CONFIGURABLE",
    "LIBRARIES",
    "ConfigurableLibrary",
    "Decision",
    "Honoured",
    "MpiLibrary",
    "RulesFile",
    "configurable",
    "library",
]
