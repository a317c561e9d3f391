"""Settings in TOML files. A dataclass holds them, and describes each once.

A field that a file may set is `Annotated` with a `Key`: what it means, its bounds, and its key
where that is not the field's name. A field that stands for a table has a `SettingTable`.
From these are made the object (`TomlFile.read`) and the errors, a file with all keys and remarks
(`written`), and the tables of the reference (`keys_of`).
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from colltune.errors import ColltuneError, say
from colltune.files.reading import toml_of

_Settings = TypeVar("_Settings")
_WIDTH = 98
_WORDS: Mapping[object, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("a string", (str,)),
    Path: ("a path", (str,)),
}
_SEVERAL = {"a whole number": "whole numbers", "a number": "numbers", "a string": "strings"}


@dataclass(frozen=True)
class Key:
    """What a setting means, its place in a file, and which values it may have.

    `key` is the table and key of a file, where they are not those of the field, and `also` another
    key for the same. `names` are the texts that are known. `read` makes the value of what is
    written, which is of the types in `takes`; of a list it gets each value, or the whole one where
    `takes` has ``list``. `wanted` says in words what may stand there. A text that is `located` is
    a URL, or a path below the folder of the file. `example` is shown where there is no default.
    """

    says: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    key: str = ""
    also: str = ""
    names: Collection[str] = ()
    pattern: str = ""
    read: Callable[[Any], Any] | None = None
    takes: tuple[type, ...] = (str,)
    wanted: str = ""
    empty: bool = True
    located: bool = False
    example: Any = None

    def holds(self, number: float) -> bool:
        """Tell whether `number` is within the bounds."""
        return (
            math.isfinite(number)
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
        )

    @property
    def bounds(self) -> str:
        """The bounds in words, empty where there are none."""
        if self.least is not None and self.most is not None:
            return f"from {_number(self.least)} to {_number(self.most)}"
        words = (("above", self.above), ("at least", self.least), ("at most", self.most))
        return " and ".join(f"{w} {_number(n)}" for w, n in words if n is not None)


class SettingTable(NamedTuple):
    """A table of a file, which a field of that name holds as a whole."""

    says: str
    key: str = ""


class SettingKey(NamedTuple):
    """A key of a file, the field that it sets, and how; ``optional``: its table can be missing."""

    path: str
    field: tuple[str, ...]
    setting: Key
    kind: Any
    default: Any
    optional: bool

    @property
    def table(self) -> str:
        return self.path if self.takes == (dict,) else self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def is_list(self) -> bool:
        return get_origin(self.kind) is tuple and not {list, dict} & {*self.takes}

    @property
    def item(self) -> Any:
        return get_args(self.kind)[0] if self.is_list else self.kind

    @property
    def takes(self) -> tuple[type, ...]:
        """The types of a written value, or of each one of a list."""
        if self.setting.read:
            return self.setting.takes
        item = get_args(self.kind)[0] if get_origin(self.kind) is tuple else self.kind
        return _WORDS[item][1] if item in _WORDS else (str,)

    @property
    def names(self) -> tuple[str, ...]:
        """The texts that may stand there; none where it may be any."""
        if get_origin(self.item) is Literal:
            return get_args(self.item)
        if isinstance(self.item, type) and issubclass(self.item, Enum) and not self.setting.read:
            return tuple(each.value for each in self.item)
        return tuple(self.setting.names)

    @property
    def wanted(self) -> str:
        """What may stand there, in words."""
        if self.setting.wanted:
            return self.setting.wanted
        if self.names:
            return f"a list of {self.allowed}" if self.is_list else self.allowed
        words = _WORDS.get(self.item, ("a string", ()))[0]
        if self.is_list:
            words = f"a list of {_SEVERAL.get(words, words)}"
        if self.setting.bounds:
            words += f"{', each' * self.is_list} {self.setting.bounds}"
        return words if self.setting.empty else f"{words}, and not empty"

    @property
    def allowed(self) -> str:
        """The known texts, or the bounds of a number, in words; empty where neither is told."""
        return " or ".join(f'"{name}"' for name in self.names) or self.setting.bounds

    def fits(self, value: Any) -> bool:
        """Tell whether `value` may stand there, as far as types, names and bounds say."""
        if self.is_list:
            return (
                type(value) is list
                and (self.setting.empty or bool(value))
                and all(map(self._fits, value))
            )
        return self._fits(value)

    def _fits(self, value: Any) -> bool:
        if type(value) not in self.takes:
            return False
        if self.names:
            return value in self.names
        if type(value) is str:
            return bool(re.fullmatch(self.setting.pattern or "(?s).*", value))
        return type(value) not in (int, float) or self.setting.holds(value)

    def value_of(self, written: Any, folder: Path) -> Any:
        """Return the field's value."""
        if self.is_list:
            return tuple(self._value_of(each, folder) for each in written)
        return self._value_of(written, folder)

    def _value_of(self, written: Any, folder: Path) -> Any:
        if self.setting.read:
            return self.setting.read(written)
        if self.item is Path:
            return folder / written
        if self.setting.located:
            return located(written, folder)
        return self.item(written) if self.item in (float,) or self._is_enum else written

    @property
    def _is_enum(self) -> bool:
        return isinstance(self.item, type) and issubclass(self.item, Enum)

    @property
    def shown(self) -> str:
        """The default, or an example where there is none, as TOML; empty where neither is known."""
        value = self.setting.example
        if value is None and self.default is not MISSING:
            value = self.default
        return "" if value is None else toml(value)


def located(text: str, folder: Path) -> str:
    """Return a URL as it is, a path below `folder` unless it is absolute."""
    return text if "://" in text else str(folder / Path(text).expanduser())


@cache
def keys_of(settings: type, above: str = "", *, optional: bool = False) -> tuple[SettingKey, ...]:
    """Return the keys of a file that the dataclass `settings` describes, table by table."""
    return tuple(key for key, _ in _described(settings, above, (), optional=optional))


@cache
def tables_of(settings: type) -> Mapping[str, str]:
    """Return the tables of a file, each with what it is for."""
    found: dict[str, str] = {}
    for key, table in _described(settings, "", (), optional=False):
        *above, _ = key.table.split(".")
        for depth in range(1, len(above) + 1):
            found.setdefault(".".join(above[:depth]), "")
        found[key.table] = found.get(key.table) or (
            key.setting.says if key.takes == (dict,) else table
        )
    return found


def _described(
    settings: type, above: str, inside: tuple[str, ...], *, optional: bool, says: str = ""
) -> Iterator[tuple[SettingKey, str]]:
    hints = _hints(settings)
    for field in fields(settings):
        if field.name not in hints:
            continue
        kind, how = get_args(hints[field.name])[:2]
        kind, may_be_none = _without_none(kind)
        path = f"{above}{how.key or field.name}"
        place = (*inside, field.name)
        if isinstance(how, SettingTable):
            yield from _described(
                kind, f"{path}.", place, optional=optional or may_be_none, says=how.says
            )
        else:
            default = field.default
            if default is MISSING and field.default_factory is not MISSING:
                default = None
            yield SettingKey(path, place, how, kind, default, optional), says


@cache
def _hints(settings: type) -> Mapping[str, Any]:
    """Return the types of the described fields; others may name what is not imported."""
    told = {f.name: f.type for f in fields(settings) if str(f.type).startswith("Annotated[")}
    names = vars(sys.modules[settings.__module__])
    return get_type_hints(SimpleNamespace(__annotations__=told), names, include_extras=True)


def _without_none(kind: Any) -> tuple[Any, bool]:
    kinds = [each for each in get_args(kind) if each is not type(None)]
    if type(None) not in get_args(kind):
        return kind, False
    return kinds[0], True


def check(settings: object, error: type[ColltuneError], above: str = "") -> None:
    """Insist on the bounds of every setting, for values that come from elsewhere than a file."""
    described: Any = type(settings)
    for key in keys_of(described):
        value = getattr(settings, key.field[-1], None) if len(key.field) == 1 else None
        several = value if isinstance(value, tuple) else (value,)
        if not key.setting.empty and value == ():
            raise say("empty", error, place=above, name=key.name)
        for each in several:
            if type(each) in (int, float) and not key.setting.holds(each):
                name, wanted = key.name, key.wanted
                raise say("out-of-bounds", error, place=above, name=name, wanted=wanted, value=each)


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
            raise say("not-toml", self.error, file=self.source, why=error) from error

    def read(self, settings: type[_Settings], folder: Path = Path()) -> _Settings:
        """Return the settings; paths are below `folder`."""
        described: Any = settings
        known, tables = keys_of(described), tables_of(described)
        by_path = {path: key for key in known for path in (key.path, key.setting.also) if path}
        found = dict(self._written(self.parsed(), "", by_path, tables))
        present = {path[:at] for path in found for at, c in enumerate(path) if c == "."}
        values: dict[str, Any] = {}
        for key in known:
            given = [path for path in (key.path, key.setting.also) if path in found]
            if len(given) > 1:
                same = " and as ".join(path.rpartition(".")[2] for path in given)
                raise self.fail(given[-1], say("given-twice", names=same))
            if given:
                values[key.path] = self._value(given[0], key, found[given[0]], folder)
            elif key.default is MISSING and (not key.optional or key.table in present):
                raise say("key-missing", self.error, file=self.source, key=key.path)
        try:
            made: _Settings = _made(described, known, values, present | {*values}, folder)
        except self.error as error:
            raise error.of(self.source) from None
        return made

    def _written(
        self,
        table: Mapping[str, Any],
        above: str,
        known: Mapping[str, SettingKey],
        tables: Mapping[str, str],
    ) -> Iterator[tuple[str, Any]]:
        for name, value in table.items():
            path = f"{above}{name}"
            if path in known:
                yield path, value
            elif path in tables:
                if not isinstance(value, dict):
                    raise self.fail(path, say("not-a-table", table=path))
                # that it is there says something, too
                yield f"{path}.", None
                yield from self._written(value, f"{path}.", known, tables)
            elif not above:
                meant, names = _meant(name, tables), ", ".join(tables)
                raise self.fail(path, say("unknown-table", meant=meant, known=names))
            else:
                inner = [p.removeprefix(above) for p in known if p.rpartition(".")[0] == above[:-1]]
                meant, names = _meant(name, inner), ", ".join(inner)
                raise self.fail(
                    path, say("unknown-key", meant=meant, table=above[:-1], known=names)
                )

    def _value(self, path: str, key: SettingKey, written: Any, folder: Path) -> Any:
        if not key.fits(written):
            raise self.fail(path, say("not-allowed", value=written, wanted=key.wanted))
        try:
            return key.value_of(written, folder)
        except ColltuneError as error:
            raise self.fail(path, error) from None

    def fail(self, path: str, why: ColltuneError) -> ColltuneError:
        """Return `why` as an error of the key `path`."""
        line = _line_of(self.text, path)
        place = f"{self.source}, line {line}, key {path}"
        return why.of(place, self.error, key=path, line=line)


def _made(
    settings: Any,
    known: Iterable[SettingKey],
    values: Mapping[str, Any],
    present: Collection[str],
    folder: Path,
) -> Any:
    """Return the dataclass `settings` with `values`, by path; tables that are not there are None.

    Its own defaults stand for the rest, below `folder` where they are paths.
    """
    found: dict[str, Any] = {}
    inner: dict[str, list[SettingKey]] = {}
    for key in known:
        if len(key.field) > 1:
            inner.setdefault(key.field[0], []).append(key)
        elif key.path in values:
            found[key.field[0]] = values[key.path]
        elif isinstance(key.default, Path) or (key.setting.located and key.default):
            found[key.field[0]] = key.value_of(str(key.default), folder)
    for name, keys in inner.items():
        table = keys[0].path.rpartition(".")[0]
        if keys[0].optional and table not in present:
            continue
        below = [key._replace(field=key.field[1:]) for key in keys]
        kind = _without_none(get_args(_hints(settings)[name])[0])[0]
        found[name] = _made(kind, below, values, present, folder)
    return settings(**found)


def toml(value: Any) -> str:
    """Return `value` as TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, bool | str | int | float):
        # JSON's texts, numbers and lists are TOML's, but for the escapes of a few characters
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False)


def written(settings: type, values: Mapping[str, Any], head: str) -> str:
    """Return a file with `values`, by path, and remarks; other keys show defaults or an example.

    What is needed and has no value is shown by its example.
    """
    lines = [head]
    tables = {path.rpartition(".")[0] for path in values} | {
        path for path, value in values.items() if isinstance(value, Mapping)
    }
    keys = keys_of(settings)
    for table, says in tables_of(settings).items():
        mine = [key for key in keys if key.table == table]
        if not mine:
            continue
        off = "#" if table not in tables and all(key.optional for key in mine) else ""
        if mine[0].takes == (dict,):
            off = "" if table in tables else "#"
        lines += ["", *_remark(says), f"{off}[{table}]"]
        for key in mine:
            lines += _lines(key, values, off)
    return "\n".join(lines) + "\n"


def _lines(key: SettingKey, values: Mapping[str, Any], off: str) -> Iterator[str]:
    if key.takes == (dict,):
        rows = values.get(key.path, key.setting.example)
        yield from (f"{off}{name} = {toml(value)}" for name, value in rows.items())
        return
    words = key.allowed
    yield from _remark(key.setting.says + (f" {words[:1].upper()}{words[1:]}." if words else ""))
    if key.path in values:
        yield f"{key.name} = {toml(values[key.path])}"
    elif key.default is MISSING:
        yield f"{off}{key.name} = {key.shown}"
    else:
        yield f"#{key.name} = {key.shown}"


def _remark(says: str) -> list[str]:
    import textwrap  # noqa: PLC0415

    return [f"# {line}" for line in textwrap.wrap(says.replace("``", ""), _WIDTH)]


def _number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else f"{number:g}"


def _meant(name: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415

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
