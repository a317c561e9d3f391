"""Checks, each with one finding and its mend: those of this machine, and those of a site.

A check changes nothing and is independent of the others: one that fails or hangs says so, and the
others go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from colltune import process
from colltune.errors import ColltuneError
from colltune.text import computed

LIMIT_S = 30.0
_Subject = TypeVar("_Subject")


class CheckStatus(StrEnum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class CheckResult(NamedTuple):
    """What a check found, in a line, and the command or step that mends it."""

    status: CheckStatus
    """ok, note or problem"""
    finding: str
    """what was found"""
    mend: str = ""
    """what to do about it, empty if there is nothing to do"""


@dataclass(frozen=True)
class CheckReport:
    """What `doctor` and `site check` print."""

    checks: Mapping[str, CheckResult]
    """what was found, by name of the check"""

    @computed
    def exit_status(self) -> int:
        """1 if a problem was found, else 0."""
        return int(any(each.status is CheckStatus.PROBLEM for each in self.checks.values()))


def ok(finding: str) -> CheckResult:
    return CheckResult(CheckStatus.OK, finding)


def note(finding: str, mend: str = "") -> CheckResult:
    return CheckResult(CheckStatus.NOTE, finding, mend)


def problem(finding: str, mend: str) -> CheckResult:
    return CheckResult(CheckStatus.PROBLEM, finding, mend)


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def explained(error: ColltuneError) -> tuple[str, str]:
    """Return what an error finds, and its mend or the command that failed."""
    finding, outcome = first_line(error.finding), getattr(error, "outcome", None)
    if error.mend or not isinstance(outcome, process.ProcessResult):
        return finding, error.mend
    said = first_line(outcome.stderr)
    return f"{finding}: {said}" if said else finding, " ".join(outcome.command)


class Check(NamedTuple, Generic[_Subject]):
    """A check; it is left out where one that it ``needs`` found a problem."""

    look: Callable[[_Subject], CheckResult]
    needs: tuple[str, ...] = ()
    limit_s: float = LIMIT_S


def answers_of(
    checks: Mapping[str, Check[_Subject]],
    subject: _Subject,
    tell: Callable[[str], None] = lambda _name: None,
) -> dict[str, CheckResult]:
    """Return what each check finds of `subject`; `tell` hears of each before it begins."""
    found: dict[str, CheckResult] = {}
    for name, check in checks.items():
        tell(name)
        broken = [need for need in check.needs if found[need].status is CheckStatus.PROBLEM]
        left_out = note(f"not looked at: see {broken[0]}") if broken else None
        found[name] = left_out or answer_of(check, subject)
    return found


def answer_of(check: Check[_Subject], subject: _Subject) -> CheckResult:
    """Return a check's answer, or that it has none within its time."""
    found: list[CheckResult] = []

    def look() -> None:
        try:
            with process.ending_by(time.monotonic() + check.limit_s):
                found.append(check.look(subject))
        except ColltuneError as error:
            found.append(problem(*explained(error)))
        except OSError as error:
            said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            found.append(problem(said, f"ls -ld {error.filename or '.'}"))
        except Exception as error:
            said = f"this check broke: {type(error).__name__}: {error}"
            found.append(problem(said, "please report it"))

    # a file system that hangs cannot be interrupted, only left alone
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(check.limit_s + 2 * process.GRACE_S)
    late = problem(f"no answer in {check.limit_s:g} s", "does a file system or the network hang?")
    return found[0] if found else late
