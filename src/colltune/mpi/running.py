"""Where a configuration runs, and what is promised there.

`colltune.mpi.release.Release.runs` answers for a release: it is the one who decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from colltune.domain import Configuration, Shape
from colltune.mpi.programs import Programs


class Refusal(StrEnum):
    """Why a configuration may not run somewhere."""

    UNKNOWN = "unknown"
    NOT_EXPRESSED = "not expressed"
    HARMS_PROGRAMS = "harms programs"
    WRONG_SHAPE = "wrong shape"
    NOT_AS_ITSELF = "not as itself"


@dataclass(frozen=True)
class RunningRange:
    """Where a configuration runs: from ``first_bytes`` on, or never (None).

    ``reason`` tells why not everywhere, ``refusal`` which kind of reason it is where it never runs.
    """

    first_bytes: int | None
    reason: str = ""
    refusal: Refusal | None = None

    def why_not(self, last_bytes: int | None) -> str:
        """Return why it runs for no message of up to `last_bytes`; empty if for some."""
        if self.first_bytes is None or (last_bytes is not None and last_bytes < self.first_bytes):
            return self.reason
        return ""


EVERYWHERE = RunningRange(0)


class Expresses(Protocol):
    """What names configurations, such as a format of files."""

    def limit(self, release: str, configuration: Configuration) -> str:
        """Return why it cannot name `configuration` to `release`; empty if it can."""
        ...


@dataclass(frozen=True)
class Promises:
    """What holds wherever a configuration is to run: of the programs, the file and the calls.

    ``programs`` must not be harmed, None: they are not looked at; ``form`` must be able to name
    the configuration, None: nothing has to. ``element_bytes`` is the size of the largest datatype
    of the calls: some algorithms need an element per process.
    """

    programs: Programs | None = None
    form: Expresses | None = None
    element_bytes: int = 1


Place = int | Shape | None
"""Processes of a communicator, or how they lie on nodes; None: whatever communicator it is."""
