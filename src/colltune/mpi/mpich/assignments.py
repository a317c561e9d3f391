"""Lists of MPICH's environment variables: their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm
from colltune.mpi.mpich import environment as variables
from colltune.mpi.mpich.releases import catalogue_of, entry_of

LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>(?:MPIR_CVAR|MPIR_PARAM|MPICH)_[A-Z0-9_]+)[ \t]*="
    r"[ \t]*(?P<value>.*?)[ \t;]*"
)
_OTHER = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=.*")
_LONGEST = 200


@dataclass(frozen=True)
class Assignment:
    """One line that sets a variable of MPICH."""

    line: int
    name: str
    value: str

    @property
    def bare(self) -> str:
        """The name without its prefix."""
        return variables.bare(self.name)

    @property
    def text(self) -> str:
        """How it would stand in a file."""
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class Listed:
    """What a list says to one release.

    ``strange`` are the lines that set nothing, ``foreign`` those that set a variable of somebody
    else, with its name.
    """

    release: str
    assignments: tuple[Assignment, ...]
    strange: tuple[int, ...] = ()
    foreign: tuple[tuple[int, str], ...] = ()

    @cached_property
    def environment(self) -> dict[str, str]:
        """What the list sets."""
        return {found.name: found.value for found in self.assignments}


def parse(text: str, source: str, release: str) -> Listed:
    """Return the variables that a list sets."""
    catalogue_of(release)
    assignments, strange, foreign = [], [], []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        bare = line.lstrip("\ufeff") if number == 1 else line
        match = LINE.fullmatch(bare)
        if match is not None:
            assignments.append(Assignment(number, match["name"], _plain(match["value"])))
        elif other := _OTHER.fullmatch(bare):
            foreign.append((number, other["name"]))
        elif bare.strip() and not bare.lstrip().startswith("#"):
            strange.append(number)
    if not assignments and (strange or foreign):
        raise LibraryError(f"{source}:1: sets no variable MPIR_CVAR_…=…; this is no list of them")
    return Listed(release, tuple(assignments), tuple(strange), tuple(foreign))


def _plain(value: str) -> str:
    text = value.partition(" #")[0].strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return (text[1:-1] if quoted else text)[:_LONGEST]


def chooses_for(bare: str) -> Collective | None:
    """Return the collective for which a variable chooses an algorithm."""
    name = bare.removesuffix("_INTRA_ALGORITHM").lower()
    return Collective(name) if name != bare.lower() and name in list(Collective) else None


def parameters_of(release: str, collective: Collective) -> Iterator[tuple[str, Algorithm]]:
    """Yield the bare names of variables that are parameters, with the algorithms that use them."""
    for algorithm in entry_of(release, collective).algorithms:
        for _, variable in algorithm.variables:
            yield f"{collective.upper()}_{variable}", algorithm
        for variable, _ in algorithm.settings:
            yield f"{collective.upper()}_{variable}", algorithm
