"""Where the compiled libcolltune lies that belongs to an MPI library."""

from __future__ import annotations

import os
from pathlib import Path

from colltune.bench import build
from colltune.errors import ColltuneError, ProgramError
from colltune.files.ownership import danger
from colltune.mpi import installation
from colltune.mpi.installation import Installation

VARIABLE = "COLLTUNE_INTERPOSED"


def compiled(found: Installation) -> Path:
    """Return libcolltune for an installed MPI, compiled at first use."""
    return build.interposed_library(found)


def library_for(library: str, release: str, mpi: str | None = None) -> Path:
    """Return libcolltune for a release: the one that COLLTUNE_INTERPOSED names, or compiled."""
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named).absolute()
        if not path.is_file():
            raise ProgramError(f"{VARIABLE}={named}: there is no such file")
        # whoever named it trusts its owner
        if why := danger(path, trusted=path.stat().st_uid):
            raise ProgramError(
                f"{VARIABLE}={named}: {why}, and it would be loaded into all processes of a job;"
                " put it where nobody else can change it, with colltune app interpose --out FILE"
            )
        return path
    found = installation.find(mpi, library)
    if found.release != release:
        raise ProgramError(
            f"{found.mpirun} is of {library} {found.release}, not of {release}; name the MPI of the"
            " job with --mpi"
        )
    return compiled(found)


def library_or_note(library: str, release: str) -> tuple[Path | None, tuple[str, ...]]:
    """Return libcolltune for a release, or None and a note that tells how to get it."""
    try:
        return library_for(library, release), ()
    except ColltuneError as error:
        first = str(error).partition("\n")[0]
        return None, (
            f"libcolltune is not compiled ({first}); run colltune app interpose where this MPI and"
            f" a C compiler are, and set LD_PRELOAD to what it prints",
        )
