"""What is wrong with configuration files, each for the library and release that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from colltune.errors import LibraryError, NoSettingsError
from colltune.mpi import library
from colltune.mpi.activation_check import effect_findings, named_variables, outranked_findings
from colltune.mpi.in_effect import values
from colltune.mpi.installation import in_effect_here
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.opened_file import OpenFile, check_names, open_each, source_name
from colltune.mpi.programs import Programs
from colltune.mpi.rules import Fault, Finding, Rules, Severity
from colltune.text import UNPRINTED, computed


@dataclass(frozen=True)
class Linted:
    """One file and what was found in it."""

    file: str
    """name"""
    opened: OpenFile | None = field(default=None, metadata=UNPRINTED)
    parsed: Rules | None = field(default=None, metadata=UNPRINTED)
    findings: tuple[Finding, ...] = ()
    """what is wrong"""
    activation: dict[str, str] = field(default_factory=dict)
    """variables that put the file into effect"""
    activation_checked: bool = False
    """whether the job's own variables were compared"""
    error: str = ""
    """why it cannot be read, else empty"""

    @computed
    def format(self) -> str | None:
        """Format; null: it cannot be read."""
        return self.opened.format.name if self.opened else None

    @computed
    def library(self) -> str | None:
        """MPI library."""
        return self.opened.format.library if self.opened else None

    @computed
    def release(self) -> str | None:
        """Release that was asked about."""
        return self.opened.release if self.opened else None

    @computed
    def release_assumed(self) -> bool:
        """Whether no release was named."""
        return self.opened is not None and self.opened.assumed

    @computed
    def dropped(self) -> str:
        """Why the release ignores the file as a whole, else empty."""
        return self.parsed.dropped if self.parsed else ""

    @computed
    def rules(self) -> int:
        """Rules in the file."""
        return len(self.parsed.rules) if self.parsed else 0

    def meant_for(self, programs: Programs) -> Linted:
        """Return it without programs that `programs` leave out."""
        found = tuple(f for f in self.findings if not f.promise or not programs.keep(f.promise))
        return replace(self, findings=found)


@dataclass(frozen=True)
class LintReport:
    """What `rules lint` prints."""

    exit_status: int
    """0 nothing, 1 findings, 2 a file cannot be read"""
    files: tuple[Linted, ...]
    """every file"""

    @classmethod
    def of(cls, files: Sequence[Linted], *, strict: bool) -> LintReport:
        """Return the report of `files`; `strict`: notes are findings, too."""
        counted = {Severity.ERROR, Severity.WARNING, *([Severity.NOTE] if strict else [])}
        findings = (finding for one in files for finding in one.findings)
        if any(one.error for one in files):
            return cls(2, tuple(files))
        return cls(int(any(finding.severity in counted for finding in findings)), tuple(files))


def lint_file(
    file: Path, release: str | None, format_name: str | None, variables: Mapping[str, str] | None
) -> list[Linted]:
    """Return what is found in one file, for each library of which it sets variables.

    A file that cannot be read is no error here.
    """
    check_names(release, format_name)
    try:
        found = open_each(file, release, format_name)
    except NoSettingsError as error:
        remark = Finding(0, Fault.REMARK, error.what.rstrip("."), "none needed")
        return [Linted(source_name(file), findings=(remark,))]
    except LibraryError as error:
        return [Linted(source_name(file), error=str(error))]
    return [_linted_as(file, opened, variables) for opened in found]


def _linted_as(file: Path, opened: OpenFile, variables: Mapping[str, str] | None) -> Linted:
    # a release that is not supported is an error of the command, not of the file
    opened.format.unreadable_by(opened.release)
    try:
        parsed = opened.parse()
    except LibraryError as error:
        return Linted(source_name(file), opened, error=str(error))
    activation, findings, checked = _effect(opened, parsed, variables)
    return Linted(source_name(file), opened, parsed, tuple(sorted(findings)), activation, checked)


def _effect(
    opened: OpenFile, parsed: Rules, variables: Mapping[str, str] | None
) -> tuple[dict[str, str], tuple[Finding, ...], bool]:
    """Return how the file is put into effect, all findings, and whether a job was checked.

    It is checked against `variables`, or else against this process's own where they already name
    one of those that the file needs.
    """
    if not opened.paths or parsed.dropped:
        return {}, opened.format.lint(parsed), False
    own = opened.format.lint(parsed)
    activation = opened.format.activation(opened.release, opened.paths)
    mpi, job = with_libcolltune(library(opened.format.library)), variables
    if job is None and named_variables(activation, os.environ):
        job = values(in_effect_here(mpi, opened.release, os.environ))
    if job is None:
        return activation, own, False
    found = effect_findings(mpi, parsed, activation, opened.paths, job)
    return activation, (*outranked_findings(own, parsed, opened.paths, job), *found), True
