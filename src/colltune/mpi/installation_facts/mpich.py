"""What an installed MPICH says of its algorithms, through its control variables.

They have no enumerations: the names stand in the variables' descriptions, and the library itself is
asked for the number of each by setting the name in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from colltune.domain import Collective
from colltune.errors import ProgramError
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.installation import Launcher
from colltune.mpi.installation_facts import cvars
from colltune.mpi.installation_facts.cvars import Cvar
from colltune.mpi.installation_facts.facts import InstallationFacts, Variable, set_by_user

PREFIX = "MPIR_CVAR_"
_ALIASES = (PREFIX, "MPIR_PARAM_", "MPICH_")
_OWN_DECISION = "auto"
_LISTED = re.compile(r"^(\w+)\s+-", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}")
# 4.0 and 4.1 print the list without line ends: "... algorithmauto - Internal ...nb - Force ..."
_JOINED = re.compile(r"(\w+)\s+- ")


class Described(NamedTuple):
    """A name in a description; not ``certain`` where other words may have run into it."""

    name: str
    certain: bool


def inspect(launcher: Launcher, known: Catalogue) -> InstallationFacts:
    """Return the algorithms and control variables; one start per algorithm of a collective.

    `known` helps to tell names apart in descriptions that run together.
    """
    with cvars.lister(launcher, _ALIASES) as (listed, asked):
        variables = listed({})
        names = {
            collective: described(cvar.text, _spellings(known.collectives.get(collective)))
            for collective in Collective
            if (cvar := variables.get(variable(collective))) is not None
        }
        algorithms = _numbered(names, listed)
    return InstallationFacts(
        library=launcher.library,
        release=launcher.release,
        asked=asked,
        algorithms=algorithms,
        variables=_variables(variables),
    )


def _numbered(
    names: Mapping[Collective, Sequence[Described]], listed: cvars.Lister
) -> dict[Collective, dict[int, str]]:
    """Return the names by the numbers that the library has for them.

    It ends a program that sets a name which it does not know, so that it is asked for certain names
    only; the others have the number of their place in the list.
    """
    found: dict[Collective, dict[int, str]] = {collective: {} for collective in names}
    for place, row in enumerate(zip_longest(*names.values()), start=1):
        told = {c: each for c, each in zip(names, row, strict=True) if each is not None}
        asking = {variable(c): each.name for c, each in told.items() if each.certain}
        answer = listed(asking) if asking else {}
        for collective, each in told.items():
            number = _number(answer, variable(collective)) if each.certain else place
            found[collective].setdefault(number, each.name)
    return found


def _number(answer: Mapping[str, Cvar], name: str) -> int:
    value = answer[name].value if name in answer else ""
    if not _NUMBER.fullmatch(value):
        raise ProgramError(f"the control variable {name} has the value {value!r}, not a number")
    return int(value)


def variable(collective: Collective, name: str = "INTRA_ALGORITHM") -> str:
    """Return the name of a control variable of `collective`."""
    return f"{PREFIX}{collective.upper()}_{name}"


def described(text: str, known: Collection[str]) -> list[Described]:
    """Return the algorithms that a variable's description lists, without the own decision.

    Where the list has lost its line ends a name may have the end of a sentence before it: `known`
    names are told apart, and other ones are given as they stand.
    """
    found = [Described(name, certain=True) for name in _LISTED.findall(text)]
    if _OWN_DECISION not in [each.name for each in found]:
        found = [_longest_end(word, known) for word in _JOINED.findall(text)]
    return [each for each in found if each.name != _OWN_DECISION]


def _longest_end(word: str, known: Collection[str]) -> Described:
    ends = [name for name in (*known, _OWN_DECISION) if word.endswith(name)]
    return Described(max(ends, key=len, default=word), certain=bool(ends))


def _spellings(entry: CollectiveEntry | None) -> list[str]:
    return [] if entry is None else [a.value or a.name for a in entry.algorithms]


def _variables(listed: Mapping[str, Cvar]) -> dict[str, Variable]:
    """Return the control variables with the values that the user's environment would give them."""
    found = {}
    for name, cvar in listed.items():
        if name.startswith(PREFIX):
            spellings = [alias + name.removeprefix(PREFIX) for alias in _ALIASES]
            found[name] = set_by_user(Variable(cvar.value, writable=cvar.writable), *spellings)
    return found
