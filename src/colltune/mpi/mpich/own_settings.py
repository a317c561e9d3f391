"""The user's own variables of MPICH, which always win."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.domain import Collective
from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import Honoured

_PREFIX = re.compile(r"(?:MPIR_CVAR|MPIR_PARAM|MPICH)_")
_COLLECTIVE = "|".join(sorted((c.upper() for c in Collective), key=len, reverse=True))
_DECIDES = re.compile(
    rf"(?:{_COLLECTIVE})_(?:\w+_ALGORITHM|COMPOSITION|DEVICE_COLLECTIVE|\w*KVAL|TREE_\w+|\w+_SIZE)"
    r"|DEVICE_COLLECTIVES|\w*COLL_SELECTION_TUNING_JSON_FILE|COLLECTIVE_FALLBACK"
)


def honour_user(environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    """See `colltune.mpi.own_settings.honoured`: each variable can be set by three names."""
    return honoured(environment, os_environ, _decides, same_variable=_one_name)


def _decides(variable: str) -> bool:
    prefix = _PREFIX.match(variable)
    return prefix is not None and _DECIDES.fullmatch(variable, prefix.end()) is not None


def _one_name(variable: str) -> str:
    return _PREFIX.sub("MPIR_CVAR_", variable, count=1) if _PREFIX.match(variable) else variable
