"""TOML files whose every key is checked; an error names file, line and key, and the mend."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from colltune.errors import ColltuneError
from colltune.files.reading import toml_of

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Key:
    """A key of a file: the field that it sets, what its value must be, and what is made of it."""

    field: str
    wanted: str
    fits: Callable[[object], bool]
    convert: Callable[[Any], Any] | None = None


Tables = Mapping[str, Mapping[str, Key]]
"""Keys by table; the table ``[a.b]`` is ``a.b``."""


def instance_of(*kinds: type) -> Callable[[object], bool]:
    """Return a check for values of exactly these types (true is no number)."""
    return lambda value: type(value) in kinds


def list_of(*kinds: type) -> Callable[[object], bool]:
    """Return a check for lists of values of exactly these types."""
    return lambda value: isinstance(value, list) and all(type(v) in kinds for v in value)


def string(field: str) -> Key:
    return Key(field, "a string", instance_of(str))


def integer(field: str) -> Key:
    return Key(field, "a whole number", instance_of(int))


def flag(field: str) -> Key:
    return Key(field, "true or false", instance_of(bool))


def integers(field: str) -> Key:
    return Key(field, "a list of whole numbers", list_of(int))


def strings(field: str) -> Key:
    return Key(field, "a list of strings", list_of(str))


def choice(field: str, known: Iterable[str], convert: Callable[[Any], Any] | None = None) -> Key:
    """Return a key for one of the names `known`."""
    names = tuple(known)
    wanted = " or ".join(f'"{name}"' for name in names)
    return Key(field, wanted, lambda value: value in names, convert)


@dataclass(frozen=True)
class TomlFile:
    """The text of a file, named `source` in errors, which are of the kind ``error``."""

    text: str
    source: str
    error: type[ColltuneError]

    def parsed(self) -> dict[str, Any]:
        """Return the tables as they are written."""
        try:
            return toml_of(self.text)
        except ValueError as error:
            raise self.error(f"{self.source}: not valid TOML: {error}") from error

    def values(self, known: Tables, needed: Iterable[str] = ()) -> dict[str, Any]:
        """Return the values by field, lists as tuples; `needed` are keys that must be there."""
        values: dict[str, Any] = {}
        tables = self.parsed()
        for name, table in tables.items():
            if name not in known:
                shown = ", ".join(known)
                raise self.fail(name, f"unknown table{_meant(name, known)}; known: {shown}")
            self._read_table(name, table, known, values)
        for path in needed:
            *above, key = path.split(".")
            table = tables
            for name in above:
                table = table.get(name, {})
            if key not in table:
                raise self.error(f"{self.source}: key {path} is missing. Add it.")
        return values

    def _read_table(self, name: str, table: object, known: Tables, values: dict[str, Any]) -> None:
        if not isinstance(table, dict):
            raise self.fail(name, f"must be a table: write [{name}]")
        for key, value in table.items():
            path = f"{name}.{key}"
            if path in known:
                self._read_table(path, value, known, values)
                continue
            if key not in known[name]:
                names = ", ".join(known[name])
                meant = _meant(key, known[name])
                raise self.fail(path, f"unknown key{meant}; known in [{name}]: {names}")
            self._read_value(path, known[name], key, value, values)

    def _read_value(
        self, path: str, keys: Mapping[str, Key], key: str, value: Any, values: dict[str, Any]
    ) -> None:
        wanted = keys[key]
        if not wanted.fits(value):
            raise self.fail(path, f"{value!r} must be {wanted.wanted}")
        if wanted.field in values:
            same = [name for name, other in keys.items() if other.field == wanted.field]
            raise self.fail(
                path, f"is given {len(same)} times, as {' and as '.join(same)}. Keep one."
            )
        if wanted.convert is not None:
            values[wanted.field] = self.converted(path, wanted.convert, value)
        else:
            values[wanted.field] = tuple(value) if isinstance(value, list) else value

    def converted(self, path: str, convert: Callable[[Any], _Value], value: Any) -> _Value:
        """Return ``convert(value)``; an error names file, line and the key `path`."""
        try:
            return convert(value)
        except ColltuneError as error:
            raise self.fail(path, str(error)) from None

    def fail(self, path: str, why: str) -> ColltuneError:
        """Return the error that the key `path` is wrong."""
        line = _line_of(self.text, path)
        return self.error(f"{self.source}, line {line}, key {path}: {why}")


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _line_of(text: str, path: str) -> int:
    """Return the line on which the table or key `path` is written (1 where it is not found)."""
    table, _, key = path.partition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header:
            current = header[1]
            if current == path or (not key and current.startswith(table)):
                return number
        word = re.match(r"""\s*["']?([\w.-]+)["']?\s*=""", line)
        if word and path in (f"{current}.{word[1]}", word[1]):
            return number
    return 1
