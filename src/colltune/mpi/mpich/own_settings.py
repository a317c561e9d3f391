"""The user's own variables of MPICH, which always win."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.domain import Collective
from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import Honoured, UserPatterns

_PREFIX = re.compile(r"(?:MPIR_CVAR|MPIR_PARAM|MPICH)_")
_PREFIXES = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")
_OF_ONE_COLLECTIVE = (
    "?*_ALGORITHM",
    "COMPOSITION",
    "DEVICE_COLLECTIVE",
    "*KVAL",
    "TREE_?*",
    "?*_SIZE",
)
_OF_ALL = ("DEVICE_COLLECTIVES", "*COLL_SELECTION_TUNING_JSON_FILE", "COLLECTIVE_FALLBACK")
USER_PATTERNS = UserPatterns(
    tuple(
        f"{prefix}{name}"
        for prefix in _PREFIXES
        for name in (
            *_OF_ALL,
            *(f"{c.upper()}_{what}" for c in Collective for what in _OF_ONE_COLLECTIVE),
        )
    )
)


def honour_user(environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    """See `colltune.mpi.own_settings.honoured`: each variable can be set by three names."""
    return honoured(environment, os_environ, USER_PATTERNS.decides, same_variable=_one_name)


def _one_name(variable: str) -> str:
    return _PREFIX.sub("MPIR_CVAR_", variable, count=1) if _PREFIX.match(variable) else variable
