"""The error tree. Each kind has one exit status; only ``colltune.cli.main`` exits with it.

A message names the file, line or key that is wrong, and the mend.
"""

from __future__ import annotations

from typing import ClassVar


class ColltuneError(Exception):
    """Anything colltune can explain; never shown with a traceback."""

    exit_status: ClassVar[int] = 1


class DataError(ColltuneError):
    """Measurements that cannot be read or must not be joined."""

    exit_status = 3


class ConflictError(DataError):
    """Measurements that are fine, but do not fit those that are there."""


class CampaignError(ColltuneError):
    """A campaign file or a measuring request that makes no sense."""

    exit_status = 4


class ProgramError(ColltuneError):
    """A program (mpirun, a compiler, a benchmark) is missing, failed or answered nonsense."""

    exit_status = 5


class BudgetError(ColltuneError):
    """The time budget ended before anything usable was measured."""

    exit_status = 6


class BundleError(ColltuneError):
    """A bundle that is missing, damaged, or of a version this colltune cannot read."""

    exit_status = 7


class RegistryConflict(BundleError):  # noqa: N818 - it names what happened
    """Somebody else changed which bundle is in force; nothing was done."""


class LibraryError(ColltuneError):
    """An MPI library, release, algorithm or configuration file that is unknown or invalid."""

    exit_status = 8


class OutputError(ColltuneError):
    """A file or folder that cannot be written."""

    exit_status = 9


class TokenFileError(ColltuneError):
    """A file of tokens that is missing, unsafe, damaged or of an unknown version."""

    exit_status = 15


UNFINISHED = 10
"""Exit status of a measuring process that leaves a part of its campaign to the next one."""

EXIT_STATUSES: dict[int, str] = {
    0: "done",
    1: "an error of no other kind",
    2: "wrong usage of the command line",
    3: "data: measurements that cannot be read or must not be joined",
    4: "campaign: a campaign file or measuring request that makes no sense",
    5: "program: mpirun, compiler or benchmark missing, failed, or answering nonsense",
    6: "budget: the time budget ended before anything usable was measured",
    7: "bundle: missing, damaged, or of an unknown version",
    8: "library: unknown MPI library, release or algorithm, or an invalid configuration file",
    9: "output: a file or folder that cannot be written",
    UNFINISHED: "unfinished: the batch job's time ended before the campaign; run the command again",
    TokenFileError.exit_status: "tokens: a file of tokens that is missing, unsafe or damaged",
    130: "interrupted; what was measured is kept",
}
