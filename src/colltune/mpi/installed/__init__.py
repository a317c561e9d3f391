"""What an installed MPI says of itself, and how that differs from the catalogue.

A library without a line in `ASKING` cannot be asked; all else works without. To add one: a module
with a function that asks an installation of it, and the line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.installation import Launcher, find_launcher
from colltune.mpi.installed import intelmpi, mpich, openmpi
from colltune.mpi.installed.differences import Difference, Kind, compare
from colltune.mpi.installed.told import Told, Variable
from colltune.mpi.reference import release_of

ASKING: dict[str, Callable[[Launcher, Catalogue], Told]] = {
    "openmpi": openmpi.ask,
    "mpich": mpich.ask,
    "intelmpi": intelmpi.ask,
}


@dataclass(frozen=True)
class Check:
    """What an installation told, the release of the catalogue it was compared with, and how."""

    launcher: Launcher
    release: str
    told: Told
    differences: tuple[Difference, ...]


def check(named: str | None, library: str | None, release: str | None = None) -> Check:
    """Compare an installation with the catalogue of its release, or of `release`.

    `named` is an mpirun or the folder of an installation; without it, that of `library`, or the
    first one on PATH.

    Raises
    ------
    ProgramError
        If there is no such installation, or a program of it is missing, fails or answers nonsense.
    LibraryError
        If there is no catalogue of the release, or the library cannot be asked.
    """
    launcher = find_launcher(named, library)
    if launcher.library not in ASKING:
        raise LibraryError(
            f"{launcher.mpirun} is of {LIBRARIES[launcher.library].title}, which cannot be asked"
            f" what it has; those that can: {', '.join(ASKING)}"
        )
    compared = release_of(LIBRARIES[launcher.library], release or launcher.release)
    told = ASKING[launcher.library](launcher, compared.catalogue)
    return Check(launcher, compared.name, told, compare(compared, told))


__all__ = ["ASKING", "Check", "Difference", "Kind", "Told", "Variable", "check", "compare"]
