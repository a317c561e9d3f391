"""What each release of an MPI library offers: one TOML file per release series.

Keys of a file
--------------
``library``, ``series``, ``first_release``
    Which releases it describes: those of the series from the first one on.
``rules_file`` (default true)
    Whether the library has a file of rules by collective numbers and message sizes; without one
    no collective has an ``id`` and a ``size``.
``han_priority``, ``han_collectives`` (both optional)
    Open MPI's coll/han, where it outranks coll/tuned on communicators that span nodes.
``collectives.<name>``
    ``id`` (number in the library's rules file), ``size`` (what the library compares with a rule's
    threshold: `SizeUnit`), ``one_rule`` (only one message-size rule per communicator size is safe),
    ``runtime`` (false: cannot be set through MPI_T),
    ``presets`` (how many algorithms there are, where they are known by number: each is
    ``preset<number>`` unless it is described, and its number is an alias).
``collectives.<name>.algorithms``
    ``number`` (from 1 on; variants of one algorithm share it), ``name``, ``value`` (how the
    library's own variable spells it, where not by its name), ``aliases``,
    ``parameters`` (those it honours), ``variables`` (by which variable of the library each of them
    is set, where that differs by algorithm), ``defaults`` (values of parameters that are not
    given), ``settings`` (variables that make this variant), ``limits`` (`Limit`), ``fallback``
    (what the library runs instead outside the limits), ``wrong`` (why it is never used),
    ``symbol`` (the function that runs it, where it can be observed).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from colltune.domain import Collective
from colltune.errors import LibraryError

PARAMETERS = ("fanout", "segsize")
NO_ID = -1
_FOLDER = Path(__file__).parent
_Member = TypeVar("_Member", bound=StrEnum)


class SizeUnit(StrEnum):
    """What a rule's threshold counts, in terms of our ``msize_bytes``."""

    MSIZE = "msize"
    MSIZE_TIMES_NPROCS = "msize_times_nprocs"
    CONSTANT = "constant"


class Limit(StrEnum):
    """A condition that an algorithm needs."""

    TWO_PROCESSES = "two_processes"
    EVEN_PROCESSES = "even_processes"
    POWER_OF_TWO_PROCESSES = "power_of_two_processes"
    COMMUTATIVE = "commutative"
    SEGMENTED = "segmented"
    ELEMENT_PER_PROCESS = "element_per_process"
    ELEMENT_PER_POWER_OF_TWO = "element_per_power_of_two"
    SEGMENT_PER_PROCESS = "segment_per_process"
    TWO_SEGMENTS = "two_segments"
    BUILTIN_OPERATION = "builtin_operation"
    EQUAL_COUNTS = "equal_counts"


@dataclass(frozen=True)
class Algorithm:
    """One algorithm; see the module's text for the fields."""

    number: int
    name: str
    symbol: str = ""
    aliases: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    limits: frozenset[Limit] = frozenset()
    fallback: str = ""
    wrong: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    defaults: tuple[tuple[str, int], ...] = ()
    settings: tuple[tuple[str, int | str], ...] = ()
    value: str = ""


@dataclass(frozen=True)
class CollectiveEntry:
    """The algorithms of one collective, by ascending number."""

    collective: Collective
    id: int
    size: SizeUnit
    algorithms: tuple[Algorithm, ...]
    one_rule: bool = False
    runtime: bool = True

    def named(self, name: str) -> Algorithm | None:
        """Return the algorithm with that name or alias, or None."""
        return next((a for a in self.algorithms if name == a.name or name in a.aliases), None)

    def numbered(self, number: int) -> Algorithm | None:
        """Return the algorithm with that number, or None."""
        return next((a for a in self.algorithms if number == a.number), None)


@dataclass(frozen=True)
class Catalogue:
    """A release series; ``han_priority`` is None where coll/han does not outrank coll/tuned."""

    library: str
    series: str
    first_release: str
    collectives: Mapping[Collective, CollectiveEntry]
    han_priority: int | None = None
    han_collectives: frozenset[Collective] = frozenset()


@cache
def load(library: str, series: str) -> Catalogue:
    """Return the catalogue of ``<library>-<series>.toml`` in this package.

    Raises
    ------
    LibraryError
        If the file says something this colltune does not understand.
    """
    file = _FOLDER / f"{library}-{series}.toml"
    return parse(file.read_text(encoding="utf-8"), file.name)


def parse(text: str, source: str) -> Catalogue:
    """Return the catalogue written in `text`; `source` names it in messages.

    Raises
    ------
    LibraryError
        If a key is missing, unknown, of the wrong type, or contradicts another one.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LibraryError(f"{source}: not a TOML file: {error}") from error
    top = _Table(source, "", document)
    rules_file = top.boolean("rules_file", default=True)
    catalogue = Catalogue(
        library=top.string("library"),
        series=top.string("series"),
        first_release=top.string("first_release"),
        collectives=_collectives(top.table("collectives"), rules_file=rules_file),
        han_priority=top.integer("han_priority") if "han_priority" in document else None,
        han_collectives=frozenset(top.members("han_collectives", Collective)),
    )
    top.close()
    return catalogue


class _Table:
    """A TOML table that is read key by key and knows which keys nobody asked for."""

    def __init__(self, source: str, path: str, content: dict[str, Any]) -> None:
        self.source, self.path, self._left = source, path, dict(content)

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

    def table(self, key: str) -> _Table:
        """Take a table."""
        return _Table(self.source, f"{self.path}{key}.", self._take(key, dict, None))

    def tables(self, key: str, *, some: bool = True) -> list[_Table]:
        """Take a list of tables, which may be absent unless there must be `some`."""
        values = self._take(key, list, None if some else [])
        if (some and not values) or not all(isinstance(value, dict) for value in values):
            raise self.fail(key, "is not a list of tables")
        return [
            _Table(self.source, f"{self.path}{key}[{at}].", value)
            for at, value in enumerate(values)
        ]

    def names_left(self) -> tuple[str, ...]:
        """Return the keys that were not taken yet."""
        return tuple(self._left)

    def close(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._left:
            raise self.fail(key, "unknown key; correct or remove it")


def _collectives(table: _Table, *, rules_file: bool) -> dict[Collective, CollectiveEntry]:
    entries = {}
    for name in table.names_left():
        collective = table.member(name, Collective, name)
        entries[collective] = _entry(collective, table.table(name), rules_file=rules_file)
    ids = [entry.id for entry in entries.values() if entry.id != NO_ID]
    if len(set(ids)) != len(ids):
        raise table.fail("id", "two collectives have the same id")
    return entries


def _entry(collective: Collective, table: _Table, *, rules_file: bool) -> CollectiveEntry:
    presets = table.integer("presets", 0)
    entry = CollectiveEntry(
        collective,
        id=table.integer("id") if rules_file else NO_ID,
        size=_size_unit(table) if rules_file else SizeUnit.MSIZE,
        one_rule=table.boolean("one_rule", default=False),
        runtime=table.boolean("runtime", default=True),
        algorithms=_numbered(table, presets) if presets else _described(table),
    )
    table.close()
    numbers = list(dict.fromkeys(a.number for a in entry.algorithms))
    if numbers != list(range(1, len(numbers) + 1)):
        raise table.fail("algorithms", f"numbers {numbers} do not count from 1")
    variants = [(a.number, a.settings) for a in entry.algorithms]
    if len(set(variants)) != len(variants):
        raise table.fail("algorithms", "a number stands twice without different settings")
    names = [name for a in entry.algorithms for name in (a.name, *a.aliases)]
    if len(set(names)) != len(names):
        raise table.fail("algorithms", "a name or alias stands twice")
    for algorithm in entry.algorithms:
        if algorithm.fallback and entry.named(algorithm.fallback) is None:
            raise table.fail("algorithms", f"fallback {algorithm.fallback!r} is no algorithm here")
    return entry


def _described(table: _Table) -> tuple[Algorithm, ...]:
    return tuple(_algorithm(a) for a in table.tables("algorithms"))


def _numbered(table: _Table, presets: int) -> tuple[Algorithm, ...]:
    found = {n: Algorithm(n, f"preset{n}") for n in range(1, presets + 1)}
    for description in table.tables("algorithms", some=False):
        algorithm = _algorithm(description)
        if algorithm.number not in found:
            raise description.fail("number", f"{algorithm.number} is not from 1 to {presets}")
        found[algorithm.number] = algorithm
    return tuple(replace(a, aliases=(str(n), *a.aliases)) for n, a in found.items())


def _size_unit(table: _Table) -> SizeUnit:
    return table.member("size", SizeUnit, table.string("size"))


def _algorithm(table: _Table) -> Algorithm:
    algorithm = Algorithm(
        number=table.integer("number"),
        name=table.string("name"),
        symbol=table.string("symbol", ""),
        aliases=table.strings("aliases"),
        parameters=table.strings("parameters"),
        limits=frozenset(table.members("limits", Limit)),
        fallback=table.string("fallback", ""),
        wrong=table.string("wrong", ""),
        variables=table.pairs("variables", str),
        defaults=table.pairs("defaults", int),
        settings=table.pairs("settings", int, str),
        value=table.string("value", ""),
    )
    table.close()
    for name in algorithm.parameters:
        if name not in PARAMETERS:
            raise table.fail("parameters", f"{name!r} is not one of {', '.join(PARAMETERS)}")
    for key, pairs in (("variables", algorithm.variables), ("defaults", algorithm.defaults)):
        for name, _ in pairs:
            if name not in algorithm.parameters:
                raise table.fail(key, f"{name!r} is not one of the parameters")
    return algorithm
