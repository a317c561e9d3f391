"""What an installed MPI says of itself, and how it is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from colltune import process
from colltune.domain import Collective
from colltune.mpi.installation import LauncherProgram

DEFAULT = "default"
"""Source of a variable that nobody has set."""
_ASK_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Variable:
    """A variable of the library: its value, who set it (`DEFAULT`), and whether it may change."""

    value: str
    source: str = DEFAULT
    writable: bool = True


def set_by_user(variable: Variable, *names: str) -> Variable:
    """Return `variable` with the value that the environment has for one of `names`, if it has."""
    values = [os.environ[name] for name in names if name in os.environ]
    return replace(variable, value=values[0], source="environment") if values else variable


@dataclass(frozen=True)
class InstallationFacts:
    """What one installation told; ``asked`` is the program that told it.

    ``algorithms`` and ``han`` (those of Open MPI's coll/han) are names by number, without the own
    decision; ``presets`` the highest number of each collective, where there are only numbers.
    """

    library: str
    release: str
    asked: str
    algorithms: Mapping[Collective, Mapping[int, str]] = field(default_factory=dict)
    presets: Mapping[Collective, int] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    han: Mapping[Collective, Mapping[int, str]] = field(default_factory=dict)


def asked(launcher: LauncherProgram, program: Path, *words: str) -> process.ProcessResult:
    """Run a program of an installation with the variables that it needs."""
    environment = dict(os.environ) | launcher.launch_environment()
    return process.run([program, *words], timeout_s=_ASK_TIMEOUT_S, env=environment)
