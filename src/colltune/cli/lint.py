"""`colltune rules lint`: what is wrong with configuration files of MPI libraries."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import Mark, Verbatim, activation_lines, output, painted
from colltune.cli.options import (
    Environment,
    ForEverybody,
    FormatName,
    Json,
    Parameters,
    Release,
    job_variables,
    programs_of,
)
from colltune.errors import LibraryError, NoSettingsError
from colltune.text import UNPRINTED, computed, counted, printable

if TYPE_CHECKING:
    from colltune.mpi.opened_file import OpenFile
    from colltune.mpi.programs import Programs
    from colltune.mpi.rules import Finding, Rules


def lint(
    files: Annotated[
        list[Path],
        typer.Argument(help="Configuration files; - reads standard input.", metavar="FILE…"),
    ],
    release: Release = None,
    format_: FormatName = None,
    environment: Environment = None,
    parameters: Parameters = None,
    programs: ForEverybody = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Treat notes as findings: they set the exit status, too."),
    ] = False,
    json: Json = False,
) -> int:
    """Check configuration files: what is wrong, and how an MPI release reads them.

    The library need not be installed. Exit status: 0 if nothing is found (or only notes), 1 if
    there are findings, 2 if a file cannot be read or is not a configuration file.

    Examples: for one release, for machines, with a job's variables.

    colltune rules lint rules.conf --release openmpi@5.0.8

    colltune rules lint tuning.json --release mpich@4.3.2 --json

    colltune rules lint rules.conf --release 4.1.6 --parameters job.params
    """
    from colltune.mpi.programs import ANY_LEGAL

    variables = job_variables(environment, parameters)
    meant = programs_of(programs, otherwise=ANY_LEGAL)
    linted = [
        one.meant_for(meant) for file in files for one in _linted(file, release, format_, variables)
    ]
    status = _exit_status(linted, strict=strict)
    output(LintReport(status, tuple(linted)), _lines(linted), json=json)
    return status


def _linted(
    file: Path, release: str | None, format_name: str | None, variables: Mapping[str, str] | None
) -> list[Linted]:
    """Return what is found in one file, for each library of which it sets variables.

    A file that cannot be read is no error here.
    """
    from colltune.mpi.opened_file import check_names, open_each, source_name
    from colltune.mpi.rules import Fault, Finding

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
    from colltune.mpi.opened_file import source_name

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
    import os

    from colltune.mpi import library
    from colltune.mpi.activation_check import effect_findings, named_variables, outranked_findings
    from colltune.mpi.in_effect import values
    from colltune.mpi.installation import in_effect_here
    from colltune.mpi.libcolltune.library import with_libcolltune

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


_MARKS = {"error": Mark.BAD, "warning": Mark.DOUBTFUL, "note": Mark.REMARK}


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


def _exit_status(linted: Sequence[Linted], *, strict: bool) -> int:
    """Return 2 if a file cannot be read at all, 1 if there are findings (notes: if `strict`)."""
    if any(one.error for one in linted):
        return 2
    counted = {"error", "warning", *(["note"] if strict else [])}
    return int(any(finding.severity in counted for one in linted for finding in one.findings))


def _lines(linted: Sequence[Linted]) -> Iterator[str]:
    for one in linted:
        if one.error:
            named = one.error.startswith(one.file)
            yield printable(one.error if named else f"{one.file}: {one.error}")
            continue
        yield from _folded(one)
        if one.opened is None:
            continue
        assumed = " (assumed; name your release with --release)" if one.opened.assumed else ""
        read_as = f"{one.opened.format.name} for {one.opened.reader}{assumed}"
        yield printable(f"{one.file}: {read_as}: {_total([one])}")
        # nobody is to be told how to switch on what ends programs or does nothing
        if not one.activation_checked and not any(f.severity == "error" for f in one.findings):
            yield from _advice(one.opened, one.activation)
    if len(linted) > 1:
        yield f"{len(linted)} files: {_total(linted)}"


_MOST_SHOWN = 50
_NUMBERS = re.compile(r"\d+")


def _folded(one: Linted) -> Iterator[str]:
    """Yield the findings, those that differ in numbers only in one line: the worst if many."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in one.findings:
        alike.setdefault((finding.fault, _NUMBERS.sub("0", finding.message)), []).append(finding)
    groups = list(alike.values())
    if len(groups) > _MOST_SHOWN:
        rank = {severity: place for place, severity in enumerate(_MARKS)}
        groups.sort(key=lambda group: (rank[group[0].severity], -len(group)))
        groups = sorted(groups[:_MOST_SHOWN], key=lambda group: group[0].line)
    for finding, *others in groups:
        where = printable(f"{one.file}:{finding.line}" if finding.line else one.file)
        severity = painted(finding.severity, _MARKS.get(finding.severity))
        mend = finding.mend[:1].upper() + finding.mend[1:]
        again = ", ".join(str(each.line) for each in others[:2]) + ", …" * (len(others) > 2)
        also = f" Also on {counted(len(others), 'more line')}: {again}" if others else ""
        what = printable(f"{finding.message}. {mend} ({finding.fault})")
        yield f"{where}: {severity}: {what}{also}"
    if len(alike) > len(groups):
        yield f"{one.file}: {len(alike) - len(groups)} more kinds of findings; --json has all"


def _advice(opened: OpenFile, activation: Mapping[str, str]) -> Iterator[str]:
    """Yield how a file is put into effect; a job script is as it stands."""
    from colltune.mpi.job_files import has_directives, read_script
    from colltune.mpi.job_variables import concerns_collectives, is_script

    if not opened.format.lists_variables or not is_script(opened.text) or opened.path is None:
        yield from activation_lines(activation)
        return
    script = read_script(opened.text)
    sets = any(concerns_collectives(each.name) for each in script.found)
    if sets and not script.launches and not has_directives(opened.text):
        name = shlex.quote(str(opened.path.absolute()))
        exports = "export" in opened.text or "setenv" in opened.text
        yield "to put it into effect, add to the job:"
        yield Verbatim(printable(f"  . {name}" if exports else f"  set -a; . {name}; set +a"))


def _total(linted: Sequence[Linted]) -> str:
    """Return the numbers of findings: ``2 errors, 1 warning``."""
    from colltune.mpi.rules import Severity

    counts = Counter(finding.severity for one in linted for finding in one.findings)
    unreadable = sum(bool(one.error) for one in linted)
    parts = [f"{n} {severity}{'s' * (n != 1)}" for severity in Severity if (n := counts[severity])]
    parts += [f"{unreadable} cannot be read"] * bool(unreadable)
    return ", ".join(parts) or "nothing found"
