"""A TOML table that is read key by key, so that no key is missing, of a wrong type, or unknown."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

from colltune.errors import LibraryError
from colltune.files.reading import toml_of

_Member = TypeVar("_Member", bound=StrEnum)


class Table:
    """A TOML table that is read key by key and knows which keys nobody asked for."""

    def __init__(self, source: str, path: str, content: dict[str, Any]) -> None:
        self.source, self.path, self._left = source, path, dict(content)

    @classmethod
    def parse(cls, text: str, source: str) -> Table:
        """Return the outermost table of the TOML file `text`, which messages call `source`."""
        try:
            return cls(source, "", toml_of(text))
        except ValueError as error:
            raise LibraryError(f"{source}: not a TOML file: {error}") from error

    def has(self, key: str) -> bool:
        """Tell whether `key` is there and was not taken yet."""
        return key in self._left

    def fail(self, key: str, complaint: str) -> LibraryError:
        """Return an error that names file and key."""
        return LibraryError(f"{self.source}: key {self.path}{key}: {complaint}")

    def _take(self, key: str, kind: type, default: Any) -> Any:
        value = self._left.pop(key, default)
        if value is None:
            raise self.fail(key, "missing; add it")
        if type(value) is not kind:
            raise self.fail(key, f"{value!r} is not of type {kind.__name__}")
        return value

    def string(self, key: str, default: str | None = None) -> str:
        """Take a string."""
        return str(self._take(key, str, default))

    def integer(self, key: str, default: int | None = None) -> int:
        """Take an integer."""
        return int(self._take(key, int, default))

    def pairs(self, key: str, *kinds: type) -> tuple[tuple[str, Any], ...]:
        """Take a table of values of `kinds`, empty when absent."""
        values = self._take(key, dict, {})
        for name, value in values.items():
            if type(value) not in kinds:
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise self.fail(f"{key}.{name}", f"{value!r} is not of type {wanted}")
        return tuple(sorted(values.items()))

    def boolean(self, key: str, *, default: bool) -> bool:
        """Take a boolean."""
        return bool(self._take(key, bool, default))

    def strings(self, key: str) -> tuple[str, ...]:
        """Take a list of strings, empty when absent."""
        values = self._take(key, list, [])
        if not all(isinstance(value, str) for value in values):
            raise self.fail(key, "is not a list of strings")
        return tuple(values)

    def members(self, key: str, kind: type[_Member]) -> tuple[_Member, ...]:
        """Take a list of names of an enumeration, empty when absent."""
        return tuple(self.member(key, kind, value) for value in self.strings(key))

    def member(self, key: str, kind: type[_Member], value: str) -> _Member:
        """Return the member of `kind` named `value`."""
        if value not in list(kind):
            raise self.fail(key, f"{value!r} is not one of {', '.join(kind)}")
        return kind(value)

    def table(self, key: str) -> Table:
        """Take a table."""
        return Table(self.source, f"{self.path}{key}.", self._take(key, dict, None))

    def tables(self, key: str, *, some: bool = True) -> list[Table]:
        """Take a list of tables, which may be absent unless there must be `some`."""
        values = self._take(key, list, None if some else [])
        if (some and not values) or not all(isinstance(value, dict) for value in values):
            raise self.fail(key, "is not a list of tables")
        return [
            Table(self.source, f"{self.path}{key}[{at}].", value) for at, value in enumerate(values)
        ]

    def names_left(self) -> tuple[str, ...]:
        """Return the keys that were not taken yet."""
        return tuple(self._left)

    def close(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._left:
            raise self.fail(key, "unknown key; correct or remove it")
