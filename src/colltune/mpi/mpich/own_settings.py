"""The user's own variables of MPICH, which always win."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.domain import Collective
from colltune.mpi.protocol import Honoured

_PREFIX = re.compile(r"(?:MPIR_CVAR|MPIR_PARAM|MPICH)_")
_COLLECTIVE = "|".join(sorted((c.upper() for c in Collective), key=len, reverse=True))
_DECIDES = re.compile(
    rf"(?:{_COLLECTIVE})_(?:\w+_ALGORITHM|COMPOSITION|DEVICE_COLLECTIVE|\w*KVAL|TREE_\w+|\w+_SIZE)"
    r"|DEVICE_COLLECTIVES|\w*COLL_SELECTION_TUNING_JSON_FILE|COLLECTIVE_FALLBACK"
)


def honour_user(environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    """Return what may be set beside the user's own environment.

    If the user decides himself which algorithms run, under any of a variable's three names, nothing
    is set at all: half of our settings with half of his would be a third configuration that nobody
    measured.
    """
    ours = {_stem(name): value for name, value in environment.items()}
    for name, value in sorted(os_environ.items()):
        stem = _stem(name)
        if stem and _DECIDES.fullmatch(stem) and ours.get(stem) != value:
            return Honoured({}, f"{name}={value} is set already, so nothing else was changed")
    users = {_stem(name) for name in os_environ} - {""}
    return Honoured({n: v for n, v in environment.items() if (_stem(n) or n) not in users})


def _stem(variable: str) -> str:
    """Return the name of a control variable without its prefix; empty for any other variable."""
    prefix = _PREFIX.match(variable)
    return variable[prefix.end() :] if prefix else ""
