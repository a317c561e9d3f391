"""MPI libraries: their algorithms, configuration files and what they make of them.

To add a library: a module (or package) with a class that starts from `release.MpiLibrary`; its
catalogue as TOML; and a line in `LIBRARIES`. One that derives from another one stands behind it.
`formats.FORMATS` are those of all libraries.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from colltune.errors import say
from colltune.on_demand import OnDemand

if TYPE_CHECKING:
    from colltune.mpi.release import MpiLibrary, Release, UserOverrides, UserPatterns

DEFAULT_LIBRARY = "openmpi"
"""The library of a campaign that does not tell."""
LIBRARIES: MutableMapping[str, MpiLibrary] = OnDemand(
    {
        "openmpi": "colltune.mpi.openmpi.library:OPENMPI",
        "mpich": "colltune.mpi.mpich.library:MPICH",
        "intelmpi": "colltune.mpi.intelmpi.library:INTEL_MPI",
    }
)


DOUBLING_BINOMIAL_TREES = ("openmpi", "fjmpi")
"""Libraries, also of datasets, whose binomial trees of bcast and reduce double distances."""
_DERIVATIVES = {"cray-mpich": "HPE Cray MPICH", "mvapich": "MVAPICH", "mvapich2": "MVAPICH2"}


def check_no_derivative(name: str) -> None:
    """Refuse a derivative of a library; docs/reference/derivatives.md tells what is known.

    `name` is one that a user gave and that no library has.

    Raises
    ------
    LibraryError
        If it is a derivative's.
    """
    if name in _DERIVATIVES:
        raise say("derivative", name=_DERIVATIVES[name])


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
        raise say("no-catalogue", name=name, meant="", known=known) from None


def __getattr__(name: str) -> object:
    # who asks what was measured of an algorithm needs no library
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("colltune.mpi.release"), name)


__all__ = ["LIBRARIES", "MpiLibrary", "Release", "UserOverrides", "UserPatterns", "library"]
