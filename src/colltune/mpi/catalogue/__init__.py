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
``priorities`` (optional)
    Open MPI's components and their priorities in a plain build: the highest that has a collective
    decides.
``device_collectives`` (optional)
    Collectives that MPICH's device splits, by default, into leaders of nodes and nodes.
``collectives.<name>``
    ``id`` (number in the library's rules file), ``size`` (what the library compares with a rule's
    threshold: `SizeUnit`), ``one_rule`` (only one message-size rule per communicator size is safe),
    ``runtime`` (false: cannot be set through MPI_T), ``note`` (what to know beyond these keys),
    ``presets`` (how many algorithms there are, where they are known by number: each is
    ``preset<number>`` unless it is described, and its number is an alias),
    ``han`` (coll/han's own algorithms, counted from 0).
``collectives.<name>.algorithms``
    ``number`` (from 1 on; variants of one algorithm share it), ``name``, ``value`` (how the
    library's own variable spells it, where not by its name), ``aliases``,
    ``parameters`` (those it honours), ``variables`` (by which variable of the library each of them
    is set, where that differs by algorithm), ``defaults`` (values of parameters that are not
    given), ``minimums`` (lowest values of parameters, where not those of all algorithms),
    ``settings`` (variables that make this variant), ``limits`` (`Limit`), ``fallback`` (what the
    library runs instead outside the limits), ``wrong`` (why it is never used), ``symbol`` (the
    function that runs it, where it can be observed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from colltune.domain import Collective
from colltune.errors import ColltuneError, LibraryError, say
from colltune.files.reading import toml_of

PARAMETERS = ("fanout", "requests", "segsize")
NO_ID = -1
FOLDER = Path(__file__).parent
"""Where the catalogues of the libraries lie that come with colltune."""


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
    COMMUTATIVE_OR_FALLBACK = "commutative_or_fallback"
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
    minimums: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class CollectiveEntry:
    """The algorithms of one collective, by ascending number."""

    collective: Collective
    id: int
    size: SizeUnit
    algorithms: tuple[Algorithm, ...]
    one_rule: bool = False
    runtime: bool = True
    note: str = ""
    han: tuple[str, ...] = ()

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
    priorities: tuple[tuple[str, int], ...] = ()
    device_collectives: frozenset[Collective] = frozenset()

    @property
    def one_rule(self) -> frozenset[Collective]:
        """The collectives for which only one rule for all message sizes is safe."""
        return frozenset(e.collective for e in self.collectives.values() if e.one_rule)


@cache
def all_series(library: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the release series of `library` that have a catalogue in `folder`, oldest first."""
    found = (file.stem.removeprefix(f"{library}-") for file in folder.glob(f"{library}-*.toml"))
    return tuple(sorted(found, key=lambda series: tuple(map(int, series.split(".")))))


@cache
def compared_sizes() -> Mapping[str, Mapping[Collective, str]]:
    """Return for each format that has message sizes what is compared with them, in plain words."""
    known = toml_of((FOLDER / "sizes.toml").read_text(encoding="utf-8"))
    words, formats = known["words"], known["formats"]
    return {
        name: {Collective(collective): words[word] for collective, word in told.items()}
        for name, told in formats.items()
    }


@cache
def load(library: str, series: str, folder: Path = FOLDER) -> Catalogue:
    """Return the catalogue ``<library>-<series>.toml`` in `folder`."""
    file = folder / f"{library}-{series}.toml"
    return parse(file.read_text(encoding="utf-8"), file.name)


_Value = TypeVar("_Value")
_Member = TypeVar("_Member", bound=StrEnum)


class _Table:
    """A table of a file, called `name` in errors, that is read key by key; none may be left."""

    def __init__(self, source: str, name: str, content: dict[str, Any]) -> None:
        self.source, self.name, self.left = source, name, dict(content)

    def fail(self, key: str, complaint: str) -> ColltuneError:
        return say("catalogue-wrong", file=self.source, key=f"{self.name}{key}", what=complaint)

    def take(self, key: str, kind: type[_Value], default: _Value | None = None) -> _Value:
        value = self.left.pop(key, default)
        if value is None:
            raise self.fail(key, "missing. Add it.")
        if type(value) is not kind:
            raise self.fail(key, f"{value!r} is not of type {kind.__name__}")
        return value

    def pairs(self, key: str, *kinds: type) -> tuple[tuple[str, Any], ...]:
        values = self.take(key, dict, {})
        for name, value in values.items():
            if type(value) not in kinds:
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise self.fail(f"{key}.{name}", f"{value!r} is not of type {wanted}")
        return tuple(sorted(values.items()))

    def strings(self, key: str) -> tuple[str, ...]:
        values = self.take(key, list, [])
        if not all(isinstance(value, str) for value in values):
            raise self.fail(key, "is not a list of strings")
        return tuple(values)

    def members(self, key: str, kind: type[_Member]) -> frozenset[_Member]:
        return frozenset(self.member(key, kind, value) for value in self.strings(key))

    def member(self, key: str, kind: type[_Member], value: str) -> _Member:
        if value not in list(kind):
            raise self.fail(key, f"{value!r} is not one of {', '.join(kind)}")
        return kind(value)

    def table(self, key: str) -> _Table:
        return _Table(self.source, f"{self.name}{key}.", self.take(key, dict))

    def tables(self, key: str, *, some: bool) -> list[_Table]:
        """Take a list of tables; there must be `some`, or it may be absent."""
        values = self.take(key, list, None if some else [])
        if (some and not values) or not all(isinstance(value, dict) for value in values):
            raise self.fail(key, "is not a list of tables")
        names = (f"{self.name}{key}[{at}]." for at in range(len(values)))
        return [_Table(self.source, *each) for each in zip(names, values, strict=True)]

    def close(self) -> None:
        for key in self.left:
            raise self.fail(key, "unknown key. Correct or remove it.")


def parse(text: str, source: str) -> Catalogue:
    """Return the catalogue written in `text`; `source` names it in messages."""
    try:
        top = _Table(source, "", toml_of(text))
    except ValueError as error:
        raise say("not-toml", LibraryError, file=source, why=error) from error
    rules_file, table = top.take("rules_file", bool, True), top.table("collectives")
    entries: dict[Collective, CollectiveEntry] = {}
    for name in tuple(table.left):
        collective = table.member(name, Collective, name)
        entries[collective] = _entry(collective, table.table(name), rules_file=rules_file)
    ids = [entry.id for entry in entries.values() if entry.id != NO_ID]
    if len(set(ids)) != len(ids):
        raise table.fail("id", "two collectives have the same id")
    found = Catalogue(
        library=top.take("library", str),
        series=top.take("series", str),
        first_release=top.take("first_release", str),
        collectives=entries,
        han_priority=top.take("han_priority", int) if "han_priority" in top.left else None,
        han_collectives=top.members("han_collectives", Collective),
        priorities=top.pairs("priorities", int),
        device_collectives=top.members("device_collectives", Collective),
    )
    top.close()
    return found


def _entry(collective: Collective, table: _Table, *, rules_file: bool) -> CollectiveEntry:
    presets = table.take("presets", int, 0)
    number = table.take("id", int) if rules_file else NO_ID
    size = table.member("size", SizeUnit, table.take("size", str)) if rules_file else SizeUnit.MSIZE
    entry = CollectiveEntry(
        collective,
        number,
        size,
        one_rule=table.take("one_rule", bool, False),
        runtime=table.take("runtime", bool, True),
        note=table.take("note", str, ""),
        han=table.strings("han"),
        algorithms=_algorithms(table, presets),
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


def _algorithms(table: _Table, presets: int) -> tuple[Algorithm, ...]:
    """Return the algorithms that are described; of `presets` those that are not, too."""
    described = table.tables("algorithms", some=not presets)
    if not presets:
        return tuple(map(_algorithm, described))
    found = {n: Algorithm(n, f"preset{n}") for n in range(1, presets + 1)}
    for description in described:
        algorithm = _algorithm(description)
        if algorithm.number not in found:
            raise description.fail("number", f"{algorithm.number} is not from 1 to {presets}")
        found[algorithm.number] = algorithm
    return tuple(replace(a, aliases=(str(n), *a.aliases)) for n, a in found.items())


def _algorithm(table: _Table) -> Algorithm:
    algorithm = Algorithm(
        number=table.take("number", int),
        name=table.take("name", str),
        symbol=table.take("symbol", str, ""),
        aliases=table.strings("aliases"),
        parameters=table.strings("parameters"),
        limits=table.members("limits", Limit),
        fallback=table.take("fallback", str, ""),
        wrong=table.take("wrong", str, ""),
        variables=table.pairs("variables", str),
        defaults=table.pairs("defaults", int),
        settings=table.pairs("settings", int, str),
        value=table.take("value", str, ""),
        minimums=table.pairs("minimums", int),
    )
    table.close()
    for name in algorithm.parameters:
        if name not in PARAMETERS:
            raise table.fail("parameters", f"{name!r} is not one of {', '.join(PARAMETERS)}")
    for key in ("variables", "defaults", "minimums"):
        for name, _ in getattr(algorithm, key):
            if name not in algorithm.parameters:
                raise table.fail(key, f"{name!r} is not one of the parameters")
    return algorithm
