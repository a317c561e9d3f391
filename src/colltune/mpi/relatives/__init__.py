"""Relatives of MPICH that colltune knows from their documentation only: for reading.

None of them was run, so that nothing is measured with them and no file is written for them.

Keys of a file
--------------
``name``, ``title``, ``releases``
    How it is asked for, what people call it, and which releases are described.
``relative_of``, ``series`` (optional)
    From which library it derives, and whose release series in the catalogue it shares.
``summary``, ``sources``
    What to know first, and where all of it comes from.
``algorithms`` (optional)
    ``collective``, ``variable``, ``values`` that choose one of its own algorithms.
``variables`` (optional)
    ``name``, ``values``, ``default``, ``meaning``, ``collectives`` (none: several).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from colltune.domain import Collective
from colltune.mpi.catalogue.toml_table import Table

_FOLDER = Path(__file__).parent
UNTRIED = "from documentation and sources; nothing of it was run"


@dataclass(frozen=True)
class OwnAlgorithms:
    """The values of a variable that choose an algorithm of a collective."""

    collective: Collective
    variable: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Switch:
    """A threshold or switch; ``collectives`` is empty where it is not about some of them."""

    name: str
    values: str
    default: str
    meaning: str
    collectives: tuple[Collective, ...] = ()


@dataclass(frozen=True)
class Relative:
    """One product; see the module's text for the fields."""

    name: str
    title: str
    releases: str
    relative_of: str
    series: str
    summary: str
    sources: tuple[str, ...]
    algorithms: tuple[OwnAlgorithms, ...]
    variables: tuple[Switch, ...]

    def about(self, collective: Collective) -> tuple[tuple[OwnAlgorithms, ...], tuple[Switch, ...]]:
        """Return what concerns `collective`, switches of several collectives included."""
        return (
            tuple(each for each in self.algorithms if each.collective is collective),
            tuple(s for s in self.variables if not s.collectives or collective in s.collectives),
        )


def names() -> tuple[str, ...]:
    """Return the names of all relatives."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml")))


@cache
def load(name: str) -> Relative:
    """Return the relative called `name`, one of `names`.

    Raises
    ------
    LibraryError
        If its file says something this colltune does not understand.
    """
    file = _FOLDER / f"{name}.toml"
    return parse(file.read_text(encoding="utf-8"), file.name)


def parse(text: str, source: str) -> Relative:
    """Return the relative written in `text`; `source` names it in messages.

    Raises
    ------
    LibraryError
        If a key is missing, unknown, or of the wrong type.
    """
    top = Table.parse(text, source)
    relative = Relative(
        name=top.string("name"),
        title=top.string("title"),
        releases=top.string("releases"),
        relative_of=top.string("relative_of"),
        series=top.string("series", ""),
        summary=top.string("summary").strip(),
        sources=top.strings("sources"),
        algorithms=tuple(_own(each) for each in top.tables("algorithms", some=False)),
        variables=tuple(_switch(each) for each in top.tables("variables", some=False)),
    )
    top.close()
    return relative


def why_not_written(name: str) -> str:
    """Return why colltune neither measures with a relative nor writes for it."""
    known = load(name)
    return (
        f"{known.title} is known {UNTRIED}, so that colltune neither measures with it nor writes"
        f" files for it; `colltune catalog {name}` prints what is known"
    )


def _own(table: Table) -> OwnAlgorithms:
    collective = table.member("collective", Collective, table.string("collective"))
    own = OwnAlgorithms(collective, table.string("variable"), table.strings("values"))
    table.close()
    return own


def _switch(table: Table) -> Switch:
    switch = Switch(
        name=table.string("name"),
        values=table.string("values"),
        default=table.string("default"),
        meaning=table.string("meaning"),
        collectives=table.members("collectives", Collective),
    )
    table.close()
    return switch
