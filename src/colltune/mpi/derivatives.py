"""Derivatives of MPI libraries that colltune refuses by their names."""

from __future__ import annotations

from colltune.errors import LibraryError

_TITLES = {"cray-mpich": "HPE Cray MPICH", "mvapich": "MVAPICH", "mvapich2": "MVAPICH2"}


def check_no_derivative(name: str) -> None:
    """Refuse a derivative; docs/reference/derivatives.md tells what is known of each."""
    if name in _TITLES:
        raise LibraryError(
            f"{_TITLES[name]} is known from documentation and sources alone, so that colltune"
            " neither measures with it nor writes files for it; the reference page on derivatives"
            " tells what is known"
        )
