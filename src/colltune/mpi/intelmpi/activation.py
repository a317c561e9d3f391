"""How Intel MPI is told, and the user's own settings."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.mpi.protocol import Honoured

_DECIDING = ("I_MPI_ADJUST_", "I_MPI_TUNING")


def honour_user(environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    """Return what may be set beside the user's own environment, which always wins.

    If the user decides himself which presets run, or tunes, nothing is set at all: half of our
    settings with half of his would be a third configuration that nobody measured.
    """
    for name, value in sorted(os_environ.items()):
        if name.startswith(_DECIDING) and environment.get(name) != value:
            return Honoured({}, f"{name}={value} is set already, so nothing else was changed")
    return Honoured({n: v for n, v in environment.items() if n not in os_environ})
