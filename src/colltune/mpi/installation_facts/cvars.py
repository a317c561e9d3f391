"""Lists the control variables (MPI_T) of an installed MPI, by a program compiled for it.

``mpivars``, which comes with MPICH, tells the same where there is no compiler.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.errors import ProgramError
from colltune.files.ownership import danger
from colltune.mpi import installation
from colltune.mpi.installation import IncompleteError, Launcher

_SOURCE = Path(__file__).parent.parent / "native" / "cvars.c"
_TIMEOUT_S = 120.0
_FIELDS = 6
_MPIVARS = re.compile(
    r"\t(?P<name>\w+)\s*=(?P<value>[^\t\n]*)\tSCOPE_(?P<scope>\w+)\t[^\t\n]*\tMPI_(?P<type>\w+)"
    r"\t[^\t\n]*\t(?P<text>.*?)(?=\n\t|\n\n|\n\d+ MPI|\Z)",
    re.DOTALL,
)
_NUMBER = re.compile(r"-?\d{1,9}")
_FIXED_SCOPES = ("CONSTANT", "READONLY")

Lister = Callable[[Mapping[str, str]], "dict[str, Cvar]"]
"""Returns all control variables of a program that is started with these variables set."""


@dataclass(frozen=True)
class Cvar:
    """A control variable: value, description, whether it may change, items of its enumeration."""

    value: str
    text: str
    writable: bool
    items: Mapping[int, str]


@contextmanager
def lister(launcher: Launcher, without: Sequence[str]) -> Iterator[tuple[Lister, str]]:
    """Yield a function that lists the variables, and the name of the program behind it.

    The user's variables that begin with one of `without` are not handed on.
    """
    free = {n: v for n, v in os.environ.items() if not n.startswith(tuple(without))}
    base = free | launcher.environment()
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        if why := danger(Path(folder)):
            raise ProgramError(
                f"{why}, so that a program compiled there could be somebody else's; set TMPDIR to a"
                " folder of your own"
            )
        program, parse = _program(launcher, Path(folder) / "cvars")

        def listed(variables: Mapping[str, str]) -> dict[str, Cvar]:
            outcome = process.run([program], timeout_s=_TIMEOUT_S, env=base | dict(variables))
            found = parse(process.check(outcome, "listing MPI's control variables").stdout)
            if not found:
                raise ProgramError(f"{program} lists no control variables of {launcher.mpirun}")
            return found

        yield listed, "MPI_T" if parse is parse_listing else str(program)


def parse_listing(text: str) -> dict[str, Cvar]:
    """Return the variables that ``cvars.c`` printed; where one stands twice, the first."""
    found: dict[str, Cvar] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != _FIELDS:
            continue
        name, _, scope, value, items, description = fields
        told = Cvar(value, _unescaped(description), scope != "read-only", _items(items))
        found.setdefault(name, told)
    return found


def parse_mpivars(text: str) -> dict[str, Cvar]:
    """Return the variables that ``mpivars`` printed."""
    found: dict[str, Cvar] = {}
    for match in _MPIVARS.finditer(text):
        writable = match["scope"] not in _FIXED_SCOPES
        found.setdefault(match["name"], Cvar(match["value"], match["text"], writable, {}))
    return found


def _program(launcher: Launcher, target: Path) -> tuple[Path, Callable[[str], dict[str, Cvar]]]:
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


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _items(text: str) -> dict[int, str]:
    pairs = (item.partition("=") for item in text.split())
    return {
        int(number): name for number, equals, name in pairs if equals and _NUMBER.fullmatch(number)
    }
