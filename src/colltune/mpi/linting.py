"""What is wrong with configuration files, each for the library and release that reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from colltune.domain import Collective, Shape
from colltune.errors import LibraryError, NoSettingsError
from colltune.mpi import library
from colltune.mpi.activation_check import effect_findings, named_variables, outranked_findings
from colltune.mpi.in_effect import values
from colltune.mpi.installation import in_effect_here
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.opened_file import OpenFile, check_names, open_each, source_name
from colltune.mpi.programs import MOST_PROMISED, Programs, Results
from colltune.mpi.rules import Call, Fault, Finding, Rule, Rules, Severity
from colltune.mpi.running import Promises
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
        """Return it without what `programs` leave out; other bits weigh more where they promise."""
        found = [f for f in self.findings if not f.promise or not programs.keep(f.promise)]
        if programs.results is Results.SAME_BITS:
            found = [
                f._replace(fault=Fault.OTHER_BITS) if f.fault is Fault.ROUNDS_OTHERWISE else f
                for f in found
            ]
        return replace(self, findings=tuple(found))


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
    if not parsed.dropped:
        findings = (*findings, *_roundings(parsed, opened.format.library))
    return Linted(source_name(file), opened, parsed, tuple(sorted(findings)), activation, checked)


def _roundings(parsed: Rules, name: str) -> Iterator[Finding]:
    """Yield one note for each reduction that may round otherwise by the file, on one node."""
    bound = with_libcolltune(library(name)).at(parsed.release)
    for collective in (c for c in Collective if c.reduces):
        found: dict[int, Rule] = {}
        for nprocs in _PROCESSES:
            points = parsed.switch_points(collective, nprocs)[:_MOST_SIZES]
            for first, after in zip(points, [*points[1:], None], strict=False):
                outcome = parsed.decide(Call(collective, nprocs, first))
                if outcome.rule is None or outcome.configuration.is_default:
                    continue
                runs = bound.runs(outcome.configuration, Shape(1, nprocs), _SAME_BITS)
                last = None if after is None else after - 1
                if not all(may for *_, may in runs.pieces(first, last)):
                    found.setdefault(nprocs, outcome.rule)
        if found:
            rule, all_of_them = next(iter(found.values())), list(found) == list(_PROCESSES)
            where = "2 to 16" if all_of_them else ", ".join(map(str, found))
            what = f"{collective} may round otherwise than by the library's own decision"
            message = f"{what}, on one node with {where} processes"
            yield Finding(rule.line, Fault.ROUNDS_OTHERWISE, message, _MEND)


_PROCESSES = range(2, 17)
_MOST_SIZES = 64
_SAME_BITS = Promises(replace(MOST_PROMISED, builtin_operations=False, results=Results.SAME_BITS))
_MEND = "select with --results same-bits, where each bit counts"


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
