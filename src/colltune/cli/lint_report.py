"""What `colltune lint` prints; docs/reference/lint.md describes the JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from colltune.cli.configuration_file import OpenFile
from colltune.cli.console import Mark, painted, printable, show, show_activation, show_json
from colltune.mpi.file_format import Finding, ParsedFile, Severity

JSON_VERSION = 1
_MARKS = {
    Severity.ERROR: Mark.BAD,
    Severity.WARNING: Mark.DOUBTFUL,
    Severity.NOTE: Mark.REMARK,
}
_NOTHING, _FINDINGS, _UNREADABLE = 0, 1, 2


@dataclass(frozen=True)
class Linted:
    """One file and what was found in it.

    ``error`` tells why it cannot be read at all; there is nothing else then. ``activation`` has the
    variables that put the file into effect, ``activation_checked`` whether the job's were compared.
    """

    name: str
    opened: OpenFile | None = None
    parsed: ParsedFile | None = None
    findings: tuple[Finding, ...] = ()
    activation: dict[str, str] = field(default_factory=dict)
    activation_checked: bool = False
    error: str = ""

    def count(self, severity: Severity) -> int:
        """Return how many findings are of that severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the file's part of the JSON document."""
        opened = self.opened
        return {
            "file": self.name,
            "error": self.error,
            "format": opened.format.name if opened else None,
            "library": opened.format.library if opened else None,
            "release": opened.release if opened else None,
            "release_assumed": opened.assumed if opened else False,
            "dropped": self.parsed.dropped if self.parsed else "",
            "rules": len(self.parsed.rules) if self.parsed else 0,
            "findings": [
                {
                    "line": finding.line,
                    "fault": finding.fault.value,
                    "severity": finding.severity.value,
                    "message": finding.message,
                    "mend": finding.mend,
                }
                for finding in self.findings
            ],
            "activation": self.activation,
            "activation_checked": self.activation_checked,
        }


def exit_status(linted: Sequence[Linted], *, strict: bool) -> int:
    """Return 2 if a file cannot be read at all, 1 if there are findings, else 0.

    Notes count only when `strict`.
    """
    if any(one.error for one in linted):
        return _UNREADABLE
    counted = {Severity.ERROR, Severity.WARNING} | ({Severity.NOTE} if strict else set())
    found = any(finding.severity in counted for one in linted for finding in one.findings)
    return _FINDINGS if found else _NOTHING


def show_all(linted: Sequence[Linted], *, as_json: bool, strict: bool) -> None:
    """Print what was found in all files, for people or machines."""
    if as_json:
        show_json(
            {
                "version": JSON_VERSION,
                "exit_status": exit_status(linted, strict=strict),
                "files": [one.as_json() for one in linted],
            }
        )
        return
    for one in linted:
        _show(one)
    if len(linted) > 1:
        show(f"{len(linted)} files: {_total(linted)}")


def _show(one: Linted) -> None:
    if one.error:
        named = one.error.startswith(one.name)
        show(printable(one.error if named else f"{one.name}: {one.error}"))
        return
    for finding in one.findings:
        where = printable(f"{one.name}:{finding.line}" if finding.line else one.name)
        severity = painted(finding.severity, _MARKS.get(finding.severity))
        what = printable(f"{finding.message}; {finding.mend} ({finding.fault})")
        show(f"{where}: {severity}: {what}")
    show(printable(_summary(one)))
    # nobody is to be told how to switch on what ends programs or does nothing
    if not one.activation_checked and not one.count(Severity.ERROR):
        show_activation(one.activation)


def _summary(one: Linted) -> str:
    assert one.opened is not None
    assumed = " (assumed; name yours with --release)" if one.opened.assumed else ""
    return f"{one.name}: {one.opened.format.name} for {one.opened.reader}{assumed}: {_total([one])}"


def _total(linted: Sequence[Linted]) -> str:
    """Return the numbers of findings: ``2 errors, 1 warning``."""
    counts = Counter(finding.severity for one in linted for finding in one.findings)
    unreadable = sum(bool(one.error) for one in linted)
    parts = [f"{n} {severity}{'s' * (n != 1)}" for severity in Severity if (n := counts[severity])]
    parts += [f"{unreadable} cannot be read"] * bool(unreadable)
    return ", ".join(parts) or "nothing found"
