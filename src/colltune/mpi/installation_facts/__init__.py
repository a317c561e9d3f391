"""What an installed MPI says of itself, and how that differs from the catalogue.

A library without a line in `INSPECTORS` cannot be asked; all else works without. To add one: a
module with a function that asks an installation of it, and the line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.installation import Launcher, find_launcher
from colltune.mpi.installation_facts import intelmpi, mpich, openmpi
from colltune.mpi.installation_facts.differences import Difference, Kind, compare
from colltune.mpi.installation_facts.facts import InstallationFacts, Variable
from colltune.mpi.reference import release_of

INSPECTORS: dict[str, Callable[[Launcher, Catalogue], InstallationFacts]] = {
    "openmpi": openmpi.inspect,
    "mpich": mpich.inspect,
    "intelmpi": intelmpi.inspect,
}


@dataclass(frozen=True)
class Check:
    """What an installation told, the release of the catalogue it was compared with, and how."""

    launcher: Launcher
    release: str
    facts: InstallationFacts
    differences: tuple[Difference, ...]


def check(named: str | None, library: str | None, release: str | None = None) -> Check:
    """Compare an installation with the catalogue of its release, or of `release`.

    `named` is an mpirun or the folder of an installation; without it, that of `library`, or the
    first one on PATH.
    """
    launcher = find_launcher(named, library)
    if launcher.library not in INSPECTORS:
        raise LibraryError(
            f"{launcher.mpirun} is of {LIBRARIES[launcher.library].title}, which cannot be asked"
            f" what it has; those that can: {', '.join(INSPECTORS)}"
        )
    compared = release_of(LIBRARIES[launcher.library], release or launcher.release)
    found = INSPECTORS[launcher.library](launcher, compared.catalogue)
    return Check(launcher, compared.name, found, compare(compared, found))


__all__ = [
    "INSPECTORS",
    "Check",
    "Difference",
    "InstallationFacts",
    "Kind",
    "Variable",
    "check",
    "compare",
]
