"""What an installed MPI says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colltune.domain import Collective


@dataclass(frozen=True)
class Variable:
    """A variable of the library: its value, who set it (``default``), and whether it may change."""

    value: str
    source: str = "default"
    writable: bool = True


@dataclass(frozen=True)
class Told:
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
