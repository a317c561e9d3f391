"""`colltune rules lint`: what is wrong with configuration files of MPI libraries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import Mark, painted, show, show_activation, show_json
from colltune.cli.options import Environment, FormatName, Json, Parameters, Release
from colltune.errors import LibraryError
from colltune.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colltune.mpi.file_format import Finding, ParsedFile
    from colltune.mpi.opened_file import OpenFile


def lint(
    files: Annotated[
        list[Path],
        typer.Argument(help="Configuration files; - is standard input.", metavar="FILE…"),
    ],
    release: Release = None,
    format_: FormatName = None,
    environment: Environment = None,
    parameters: Parameters = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Count notes as findings in the exit status, too.")
    ] = False,
    json: Json = False,
) -> int:
    """Say what a release of an MPI library makes of configuration files, and what is wrong.

    The library need not be installed. Exit status: 0 nothing found (or notes only), 1 findings, 2 a
    file cannot be read at all or is of no known format.

    Examples: for one release, for machines, with a job's variables.

    colltune rules lint rules.conf --release openmpi@5.0.8

    colltune rules lint tuning.json --release mpich@4.3.2 --json

    colltune rules lint rules.conf --release 4.1.6 --parameters job.params
    """
    from colltune.cli.options import job_variables

    variables = job_variables(environment, parameters)
    linted = [_linted(file, release, format_, variables) for file in files]
    _show_all(linted, as_json=json, strict=strict)
    return _exit_status(linted, strict=strict)


def _linted(
    file: Path, release: str | None, format_name: str | None, variables: Mapping[str, str] | None
) -> Linted:
    """Return everything that is found in one file; a file that cannot be read is no error here."""
    from colltune.mpi.opened_file import check_names, open_file, source_name

    check_names(release, format_name)
    try:
        opened = open_file(file, release, format_name)
    except LibraryError as error:
        return Linted(source_name(file), error=str(error))
    # a release that is not supported is an error of the command, not of the file
    opened.format.unreadable_by(opened.release)
    try:
        parsed = opened.parse()
    except LibraryError as error:
        return Linted(source_name(file), opened, error=str(error))
    activation, findings, checked = _effect(opened, parsed, variables)
    return Linted(source_name(file), opened, parsed, tuple(sorted(findings)), activation, checked)


def _effect(
    opened: OpenFile, parsed: ParsedFile, variables: Mapping[str, str] | None
) -> tuple[dict[str, str], tuple[Finding, ...], bool]:
    """Return how the file is put into effect, all findings, and whether a job was checked.

    It is checked against `variables`, or else against this process's own where they already name
    one of those that the file needs.
    """
    import os

    from colltune.mpi.activation_check import effect_findings, named_variables, outranked_findings

    if not opened.paths or parsed.dropped:
        return {}, opened.format.lint(parsed), False
    own = opened.format.lint(parsed)
    activation = opened.format.activation(opened.release, opened.paths)
    job = variables
    if job is None and named_variables(activation, os.environ):
        job = dict(os.environ)
    if job is None:
        return activation, own, False
    found = effect_findings(parsed, activation, opened.paths, job)
    return activation, (*outranked_findings(own, parsed, opened.paths, job), *found), True


JSON_VERSION = 1
_MARKS = {"error": Mark.BAD, "warning": Mark.DOUBTFUL, "note": Mark.REMARK}
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

    def as_json(self) -> dict[str, Any]:
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


def _exit_status(linted: Sequence[Linted], *, strict: bool) -> int:
    """Return 2 if a file cannot be read at all, 1 if there are findings (notes: if `strict`)."""
    if any(one.error for one in linted):
        return _UNREADABLE
    counted = {"error", "warning", *(["note"] if strict else [])}
    found = any(finding.severity in counted for one in linted for finding in one.findings)
    return _FINDINGS if found else _NOTHING


def _show_all(linted: Sequence[Linted], *, as_json: bool, strict: bool) -> None:
    if as_json:
        show_json(
            {
                "version": JSON_VERSION,
                "exit_status": _exit_status(linted, strict=strict),
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
    if not one.activation_checked and not any(f.severity == "error" for f in one.findings):
        show_activation(one.activation)


def _summary(one: Linted) -> str:
    assert one.opened is not None
    assumed = " (assumed; name yours with --release)" if one.opened.assumed else ""
    return f"{one.name}: {one.opened.format.name} for {one.opened.reader}{assumed}: {_total([one])}"


def _total(linted: Sequence[Linted]) -> str:
    """Return the numbers of findings: ``2 errors, 1 warning``."""
    from colltune.mpi.file_format import Severity

    counts = Counter(finding.severity for one in linted for finding in one.findings)
    unreadable = sum(bool(one.error) for one in linted)
    parts = [f"{n} {severity}{'s' * (n != 1)}" for severity in Severity if (n := counts[severity])]
    parts += [f"{unreadable} cannot be read"] * bool(unreadable)
    return ", ".join(parts) or "nothing found"
