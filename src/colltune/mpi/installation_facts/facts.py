"""What an installed MPI says of itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from colltune.domain import Collective

DEFAULT = "default"
"""Source of a variable that nobody has set."""
ENVIRONMENT = "environment"
"""Source of a variable that the environment sets."""


@dataclass(frozen=True)
class Variable:
    """A variable of the library: its value, who set it (`DEFAULT`), and whether it may change."""

    value: str
    source: str = DEFAULT
    writable: bool = True


def set_by_user(variable: Variable, *names: str) -> Variable:
    """Return `variable` with the value that the environment has for one of `names`, if it has."""
    values = [os.environ[name] for name in names if name in os.environ]
    return replace(variable, value=values[0], source=ENVIRONMENT) if values else variable


@dataclass(frozen=True)
class InstallationFacts:
    """What one installation told.

    Parameters
    ----------
    library, release
        Whose it is.
    asked
        The program that told it.
    algorithms
        Names of the algorithms of each collective by number, without 0, the own decision.
    han
        Names of the algorithms of Open MPI's coll/han by number, where it tells them.
    presets
        The highest number of each collective, where algorithms have numbers only.
    variables
        All variables that were told, by name.
    """

    library: str
    release: str
    asked: str
    algorithms: Mapping[Collective, Mapping[int, str]] = field(default_factory=dict)
    presets: Mapping[Collective, int] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    han: Mapping[Collective, Mapping[int, str]] = field(default_factory=dict)
