"""What a verification found out."""

from __future__ import annotations

from dataclasses import dataclass

from colltune.mpi.file_format import Rule
from colltune.verify.alternating import Gain
from colltune.verify.canary import CanaryCall
from colltune.verify.judging import Judgement, Status
from colltune.verify.readability import Readability
from colltune.verify.settings import JobSettings


@dataclass(frozen=True)
class Verdict:
    """What became of one rule, and what it brings.

    ``call`` is the call that shows it; ``default_ran`` what the library runs there by itself.
    """

    rule: Rule
    judgement: Judgement
    call: CanaryCall | None = None
    default_ran: str = ""
    gain: Gain | None = None
    is_regression: bool = False


@dataclass(frozen=True)
class Proof:
    """Everything that was found out about a file in a job."""

    readability: Readability
    format: str = ""
    release: str = ""
    library: str = ""
    nodes: tuple[tuple[str, int], ...] = ()
    settings: JobSettings | None = None
    dropped: str = ""
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all rules that this job can reach are applied, and none makes it slower."""
        failed = any(v.judgement.status.is_failure or v.is_regression for v in self.verdicts)
        return not (self.readability.problems or self.dropped or failed)

    def count(self, status: Status) -> int:
        """Return how many rules are of that status."""
        return sum(verdict.judgement.status is status for verdict in self.verdicts)
