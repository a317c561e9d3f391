"""An MPI library together with libcolltune: both's configurations in one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from colltune.domain import Collective
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.in_effect import ProgramStarter, Setting
from colltune.mpi.libcolltune import PRELOAD, assignment
from colltune.mpi.libcolltune.space import FORCE, LIBCOLLTUNE
from colltune.mpi.release import MpiLibrary, Release, UserPatterns

FILE_STEM = "libcolltune"
"""Begins the name of the compiled library."""
TABLE = "COLLTUNE_TABLE"
RULES = "COLLTUNE_RULES"
DECIDING = (FORCE, RULES, TABLE)
"""By which variables libcolltune is told what to run."""


class WithLibcolltune(MpiLibrary):
    """An MPI library as it is with libcolltune preloaded."""

    formats: Mapping[str, str] = {}

    def __init__(self, mpi: MpiLibrary) -> None:
        self.mpi = mpi
        for name in MpiLibrary.__annotations__.keys() - {"formats", "space"}:
            setattr(self, name, getattr(mpi, name))
        users = mpi.user_patterns
        self.user_patterns = UserPatterns((*users.deciding, *DECIDING), users.harmless)

    @property
    def current(self) -> str:
        return self.mpi.current

    def bound(self, release: str) -> Release:
        found = self.mpi.at(release)
        one_rule = frozenset({Collective.ALLTOALLV})
        return Release(self, found.space, (LIBCOLLTUNE, *found.others), one_rule)

    def catalogue_of(self, release: str) -> Catalogue:
        return self.mpi.catalogue_of(release)

    def parameter_file(self, environment: Mapping[str, str]) -> str:
        """Return export lines; see `assignment`."""
        return "".join(f"export {assignment(*pair)}\n" for pair in environment.items())

    def start_line(self, parameter_path: Path) -> str:
        """Return what a user types, with what makes the launcher hand the variables on."""
        start = f". {shlex.quote(str(parameter_path))} && "
        if self.toolchain.launcher == "mpirun":
            return f"{start}mpirun -x {PRELOAD} -x {TABLE} …"
        return f"{start}mpiexec …"

    def command(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        return self.mpi.command(environment)

    def same_variable(self, name: str) -> str:
        return self.mpi.same_variable(name)

    def same(self, name: str, one: str, other: str) -> bool:
        return self.mpi.same(name, one, other)

    def in_effect(
        self, environment: Mapping[str, str], launcher: ProgramStarter | None = None
    ) -> dict[str, Setting]:
        return self.mpi.in_effect(environment, launcher)

    def setting_in_file(self, value: str, source: str) -> Setting | None:
        return self.mpi.setting_in_file(value, source)


@cache
def with_libcolltune(mpi: MpiLibrary) -> WithLibcolltune:
    return WithLibcolltune(mpi)
