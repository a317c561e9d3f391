"""What an installed MPICH says of its algorithms, through its control variables (MPI_T).

They have no enumerations: the names stand in the variables' descriptions, and the library itself is
asked for the number of each by setting the name in the environment. A program compiled for it lists
them; ``mpivars``, which comes with MPICH, tells the same where there is no compiler.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from colltune import process
from colltune.domain import Collective
from colltune.errors import say
from colltune.files.ownership import danger
from colltune.mpi import installation
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.installation import IncompleteError, LauncherProgram
from colltune.mpi.installation_facts.facts import InstallationFacts, Variable, set_by_user
from colltune.mpi.mpich.library import PREFIXES

_SOURCE = Path(__file__).parent.parent / "native" / "cvars.c"
_TIMEOUT_S = 120.0
_FIELDS = 4
_MPIVARS = re.compile(
    r"\t(?P<name>\w+)\s*=(?P<value>[^\t\n]*)\tSCOPE_(?P<scope>\w+)\t[^\t\n]*\tMPI_\w+"
    r"\t[^\t\n]*\t(?P<text>.*?)(?=\n\t|\n\n|\n\d+ MPI|\Z)",
    re.DOTALL,
)
_FIXED_SCOPES = ("CONSTANT", "READONLY")
_OWN_DECISION = "auto"
_LISTED = re.compile(r"^(\w+)\s+-", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}")
# 4.0 and 4.1 print the list without line ends: "... algorithmauto - Internal ...nb - Force ..."
_JOINED = re.compile(r"(\w+)\s+- ")


class Cvar(NamedTuple):
    """A control variable: value, description, and whether it may change."""

    value: str
    text: str
    writable: bool


Cvars = Mapping[str, Cvar]
Lister = Callable[[Mapping[str, str]], Cvars]
"""Returns all control variables of a program that is started with these variables set."""


class Described(NamedTuple):
    """A name in a description; not ``certain`` where other words may have run into it."""

    name: str
    certain: bool


def inspect(launcher: LauncherProgram, known: Catalogue) -> InstallationFacts:
    """Return the algorithms and control variables; one start per algorithm of a collective.

    `known` helps to tell names apart in descriptions that run together.
    """
    with _lister(launcher) as (listed, asked):
        variables = listed({})
        names: dict[Collective, list[Described]] = {}
        for collective in Collective:
            if (cvar := variables.get(_chooser(collective))) is not None:
                entry = known.collectives.get(collective)
                spellings = [a.value or a.name for a in entry.algorithms] if entry else []
                names[collective] = described(cvar.text, spellings)
        algorithms = _numbered(names, listed)
    found = {}
    for name, cvar in variables.items():
        if name.startswith(PREFIXES[0]):
            spellings = [prefix + name.removeprefix(PREFIXES[0]) for prefix in PREFIXES]
            found[name] = set_by_user(Variable(cvar.value, writable=cvar.writable), *spellings)
    told = launcher.library, launcher.release, asked
    return InstallationFacts(*told, algorithms=algorithms, variables=found)


def _chooser(collective: Collective) -> str:
    return f"{PREFIXES[0]}{collective.upper()}_INTRA_ALGORITHM"


def _numbered(
    names: Mapping[Collective, Sequence[Described]], listed: Lister
) -> dict[Collective, dict[int, str]]:
    """Return the names by the numbers that the library has for them.

    It ends a program that sets a name which it does not know, so that it is asked for certain names
    only; the others have the number of their place in the list.
    """
    found: dict[Collective, dict[int, str]] = {collective: {} for collective in names}
    for place, row in enumerate(zip_longest(*names.values()), start=1):
        told = {c: each for c, each in zip(names, row, strict=True) if each is not None}
        asking = {_chooser(c): each.name for c, each in told.items() if each.certain}
        answer = listed(asking) if asking else {}
        for collective, each in told.items():
            number = _number(answer, _chooser(collective)) if each.certain else place
            found[collective].setdefault(number, each.name)
    return found


def _number(answer: Cvars, name: str) -> int:
    value = answer[name].value if name in answer else ""
    if not _NUMBER.fullmatch(value):
        raise say("control-variable-not-a-number", name=name, value=value)
    return int(value)


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


@contextmanager
def _lister(launcher: LauncherProgram) -> Iterator[tuple[Lister, str]]:
    """Yield a function that lists the variables, and the name of the program behind it.

    The user's own of these variables are not handed on.
    """
    base = {n: v for n, v in os.environ.items() if not n.startswith(PREFIXES)}
    base |= launcher.launch_environment()
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        if why := danger(Path(folder)):
            raise say("another-user-could-change", why=why)
        program, parse = _program(launcher, Path(folder) / "cvars")

        def listed(variables: Mapping[str, str]) -> Cvars:
            outcome = process.run([program], timeout_s=_TIMEOUT_S, env=base | dict(variables))
            found = parse(process.check(outcome, "listing MPI's control variables").stdout)
            if not found:
                raise say("no-control-variables", program=program, mpirun=launcher.mpirun)
            return found

        yield listed, "MPI_T" if parse is parse_listing else str(program)


def parse_listing(text: str) -> Cvars:
    """Return the variables that ``cvars.c`` printed; where one stands twice, the first."""
    found: dict[str, Cvar] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == _FIELDS:
            name, scope, value, description = fields
            told = description.replace("\\n", "\n").replace("\\t", "\t")
            found.setdefault(name, Cvar(value, told, scope != "read-only"))
    return found


def parse_mpivars(text: str) -> Cvars:
    """Return the variables that ``mpivars`` printed."""
    found: dict[str, Cvar] = {}
    for match in _MPIVARS.finditer(text):
        writable = match["scope"] not in _FIXED_SCOPES
        found.setdefault(match["name"], Cvar(match["value"], match["text"], writable))
    return found


def _program(launcher: LauncherProgram, target: Path) -> tuple[Path, Callable[[str], Cvars]]:
    try:
        found = installation.find(str(launcher.mpirun), launcher.library)
    except IncompleteError as error:
        return launcher.program("mpivars", str(error)), parse_mpivars
    outcome = process.run(
        [found.mpicc, "-O1", "-std=c11", "-o", target, _SOURCE],
        timeout_s=_TIMEOUT_S,
        env=dict(os.environ) | found.launch_environment(),
    )
    process.check(outcome, "compiling the program that lists control variables")
    return target, parse_listing
