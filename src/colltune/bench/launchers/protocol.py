"""What starts an MPI program: its command line and its environment, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from colltune.domain import Shape
from colltune.mpi.installation import Installation
from colltune.mpi.vendors import Vendor


@dataclass(frozen=True)
class Start:
    """One start of `program` on all processes of `shape`.

    Attributes
    ----------
    cores
        Processors per node; more processes than that are allowed only where they are asked for.
    exported
        Environment variables, with their values, that processes on other nodes are to get too.
    hostfile
        File that names the nodes, in the launcher's own format; None: the launcher knows them.
    options
        The user's own options of the launcher, passed on behind ours.
    """

    shape: Shape
    program: tuple[str | Path, ...]
    cores: int
    exported: Mapping[str, str] = field(default_factory=dict)
    hostfile: Path | None = None
    options: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The program's own words."""
        return tuple(str(word) for word in self.program)


class Launcher(Protocol):
    """Starts MPI programs."""

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line; rank r runs on node ``r // start.shape.ppn``."""
        ...

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return the user's environment, and of `wanted` and our own what he has not set.

        `user` is the user's environment.
        """
        ...


class KnownLauncher(Launcher, Protocol):
    """A launcher of the registry."""

    @classmethod
    def starts(cls, vendor: Vendor) -> bool:
        """Tell whether it can start programs of the MPI libraries of `vendor`."""
        ...

    @classmethod
    def of(cls, installation: Installation) -> Self:
        """Return the launcher that starts programs of `installation`.

        Raises
        ------
        ProgramError
            If the launcher's program is missing.
        """
        ...
