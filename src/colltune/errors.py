"""The error tree. Each kind has one exit status; only ``colltune.cli.main`` exits with it.

A message names the file, line or key that is wrong, and the mend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self


class ColltuneError(Exception):
    """Anything colltune can explain; never shown with a traceback.

    The message is the ``finding`` and, where it is told apart, the ``mend``. ``code`` names what
    was wrong (see `complaints`), and ``values`` are those of its message.
    """

    exit_status: ClassVar[int] = 1
    code: str = ""
    values: Mapping[str, Any] = {}

    def __init__(self, finding: str, mend: str = "") -> None:
        joint = ". " if mend[:1].isupper() else "; "
        super().__init__(f"{finding}{joint}{mend}" if mend else finding)
        self.finding = finding
        self.mend = mend

    def of(
        self, place: str, kind: type[ColltuneError] | None = None, **where: Any
    ) -> ColltuneError:
        """Return this error as one of `place`, and perhaps of another `kind`; its code stays."""
        error = (kind or type(self))(f"{place}: {self.finding}", self.mend)
        return error.named(self.code, {**self.values, **where})

    def named(self, code: str, values: Mapping[str, Any]) -> Self:
        """Return this error with its `code` and `values`."""
        self.code, self.values = code, values
        return self


class Complaint(NamedTuple):
    """What is said of a code: the `finding` tells what is wrong, the `mend` what to do.

    `error` is the class that is raised where the raise names no other. It all stands in
    ``complaints.toml``, with the names of values in braces. Texts are for people and may change. A
    code stays.
    """

    error: type[ColltuneError]
    finding: str
    mend: str


@cache
def complaints() -> Mapping[str, Complaint]:
    """Return them by their codes."""
    import tomllib  # noqa: PLC0415 (read where something is wrong, and not before)

    text = Path(__file__).with_name("complaints.toml").read_text(encoding="utf-8")
    return {
        code: Complaint(globals()[kind], *([said, ""] if isinstance(said, str) else said))
        for kind, texts in tomllib.loads(text).items()
        for code, said in texts.items()
    }


def say(code: str, error: type[ColltuneError] | None = None, /, **values: Any) -> ColltuneError:
    """Return the error with this `code`, of its own class or `error`, whose text has `values`."""
    said = complaints()[code]
    made = (error or said.error)(said.finding.format(**values), said.mend.format(**values))
    plain = (int, float, str, Path)
    told = {n: v if isinstance(v, plain) else str(v) for n, v in values.items()}
    return made.named(code, told)


class UsageError(ColltuneError):
    """A command line that makes no sense."""

    exit_status = 2


class SiteError(UsageError):
    """A site file that cannot be read or makes no sense."""


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
    """The time budget ended before anything usable was measured.

    The value ``enough_s``, where it is known, are the seconds that would do.
    """

    exit_status = 6


class BundleError(ColltuneError):
    """A bundle that is missing, damaged, or of a version this colltune cannot read."""

    exit_status = 7


class RegistryConflict(BundleError):  # noqa: N818 - it names what happened
    """Somebody else changed which bundle is in force; nothing was done."""


class LibraryError(ColltuneError):
    """An MPI library, release, algorithm or configuration file that is unknown or invalid."""

    exit_status = 8


class NoSettingsError(LibraryError):
    """A job script that sets no variable of an MPI library that is known here."""

    def __init__(self, source: str, what: str) -> None:
        super().__init__(f"{source}: {what}")
        self.what = what


class OutputError(ColltuneError):
    """A file or folder that cannot be written."""

    exit_status = 9


class TokenFileError(ColltuneError):
    """A file of tokens that is missing, unsafe, damaged or of an unknown version."""

    exit_status = 15


class ResourceError(ColltuneError):
    """The system gives this process no more memory, or no further thread."""

    exit_status = 16


class Interrupted(ColltuneError):  # noqa: N818 - it names what happened
    """The user, or the system, ended the work; the message tells what is left of it."""

    exit_status = 130


UNFINISHED = 10
"""Exit status of a measuring process that leaves a part of its campaign to the next one."""
NOTHING_NEW = 11
"""Exit status of a retraining that found nothing to do."""
KEPT = 12
"""Exit status of a retraining whose candidate was not shown to be as good as what is in force."""
DRIFT = 13
"""Exit status of a retraining that found the machine changed, whatever it promoted."""
BUSY = 14
"""Exit status of a retraining that left the work to another one that is at it."""
UNOBSERVED = 17
"""Exit status of a verification that saw nothing of a file, for it or against it."""


def unknown(
    what: str, name: str, known: Iterable[str], error: type[ColltuneError]
) -> ColltuneError:
    """Return the `error` that nothing of the kind `what` has this `name`, with the `known` ones."""
    return say("unknown", error, what=what, name=name, known=", ".join(known))


EXIT_STATUSES: dict[int, str] = {
    0: "done",
    1: "an error of no other kind",
    2: "wrong usage of the command line, or a site file that makes no sense",
    3: "data: measurements that cannot be read or must not be joined",
    4: "campaign: a campaign file or measuring request that makes no sense",
    5: "program: mpirun, compiler, benchmark or an extra of colltune missing, or failed",
    6: "budget: the time budget ended before anything usable was measured",
    7: "bundle: missing, damaged, or of an unknown version",
    8: "library: unknown MPI library, release or algorithm, or an invalid configuration file",
    9: "output: a file or folder that cannot be written",
    UNFINISHED: "unfinished: the batch job's time ended before the campaign; run the command again",
    NOTHING_NEW: "nothing new: no measurements came in that were not learned from",
    KEPT: "kept: the new bundle was not shown to be as good; the one in force stays",
    DRIFT: "drift: runtimes are not what they were when the bundle in force was fitted",
    BUSY: "busy: another retraining of the registry is at it",
    TokenFileError.exit_status: "tokens: a file of tokens that is missing, unsafe or damaged",
    ResourceError.exit_status: "memory: the system gives no more of it, or no further thread",
    UNOBSERVED: "not observed: nothing was seen of the file's rules, for or against them",
    Interrupted.exit_status: "interrupted; what was measured is kept",
}
