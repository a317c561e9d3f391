"""What is imported when it is asked for: entries of registries, and packages of extras."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from colltune.errors import say

_Entry = TypeVar("_Entry")


def require(extra: str, *packages: str) -> None:
    """Raise `ProgramError` unless the `packages`, which an `extra` of colltune brings, are here."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise say("extra-missing", packages=" and ".join(missing), extra=extra)


class OnDemand(MutableMapping[str, _Entry]):
    """Entries by name, or where each lies (``module:object``)."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def __getitem__(self, name: str) -> _Entry:
        found = self._known[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._known[name] = getattr(import_module(module), attribute)
        return cast(_Entry, found)

    def __setitem__(self, name: str, entry: _Entry) -> None:
        self._known[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
