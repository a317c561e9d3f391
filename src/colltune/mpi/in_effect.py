"""Which settings are in effect in a job: their values, who set them, and who goes before whom.

Files of a library stand behind the environment, which stands behind what a launcher adds; a file
that overrides goes before all of them. `MpiLibrary.in_effect` gathers them, `MpiLibrary.same` tells
equal values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol

ENVIRONMENT = "the environment"


class ProgramStarter(Protocol):
    """The program by which an installed MPI starts others, which tells where its files lie."""

    def __hash__(self) -> int: ...

    @property
    def release(self) -> str: ...

    @property
    def mpirun(self) -> Path:
        """Its absolute path, whatever its name."""
        ...

    def program(self, name: str, mend: str) -> Path:
        """Return the program `name` that is installed with it; else ProgramError with `mend`."""
        ...


class Rank(IntEnum):
    """Who sets a variable; the higher one goes before the lower."""

    FILE = 0
    ENVIRONMENT = 1
    LAUNCHER = 2
    OVERRIDE = 3


@dataclass(frozen=True)
class Setting:
    """A value that is in effect, and who set it: ``source`` may be a file with its line."""

    value: str
    source: str = ENVIRONMENT
    rank: Rank = Rank.ENVIRONMENT

    @property
    def origin(self) -> str:
        """Where it comes from, for people; empty for the environment."""
        return "" if self.source == ENVIRONMENT else f" ({self.source})"


Settings = Mapping[str, Setting]


def of_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    return {name: Setting(value) for name, value in environment.items()}


def values(settings: Settings) -> dict[str, str]:
    return {name: setting.value for name, setting in settings.items()}


def beside(settings: Settings, added: Mapping[str, str]) -> dict[str, str]:
    """Return what is in effect where `added` stands in the environment, unless the user set it."""
    behind = {n for n, setting in settings.items() if setting.rank is Rank.FILE}
    ours = {n: value for n, value in added.items() if n not in settings or n in behind}
    return values(settings) | ours


def same_files(value: str, wanted: str) -> bool:
    """Tell whether `wanted` is a file that `value`, or one of its parts, names."""
    return any(_is_file(part, wanted) for part in (value, *value.split(",")))


def _is_file(name: str, wanted: str) -> bool:
    try:
        return bool(name) and Path(name).resolve() == Path(wanted).resolve()
    except (OSError, RuntimeError, ValueError):
        return False
