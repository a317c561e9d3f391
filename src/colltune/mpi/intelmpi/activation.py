"""How Intel MPI is told, and the user's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from colltune.errors import LibraryError
from colltune.mpi.intelmpi.releases import catalogue_of
from colltune.mpi.intelmpi.tuning_file import TUNING
from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import Honoured, UserPatterns

USER_PATTERNS = UserPatterns(("I_MPI_ADJUST_*", "I_MPI_TUNING*"))


def tuning_environment(release: str, paths: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that names a tuning file."""
    catalogue_of(release)
    return {TUNING: str(absolute(paths[""]))}


def absolute(path: str) -> Path:
    """Return a path that is absolute."""
    found = Path(path)
    if not found.is_absolute():
        raise LibraryError(f"{path}: the path of a configuration file must be absolute")
    return found


def honour_user(environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    """Variables of presets and of tuning decide."""
    return honoured(environment, os_environ, USER_PATTERNS.decides)
