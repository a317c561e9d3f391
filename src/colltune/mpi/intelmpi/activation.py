"""How Intel MPI is told, and the user's own settings."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import Honoured, UserPatterns

USER_PATTERNS = UserPatterns(("I_MPI_ADJUST_*", "I_MPI_TUNING*"))


def honour_user(environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    """Variables of presets and of tuning decide."""
    return honoured(environment, os_environ, USER_PATTERNS.decides)
