"""`colltune rules lint`: what is wrong with configuration files of MPI libraries."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import Mark, Verbatim, activation_lines, output, painted
from colltune.cli.options import (
    Environment,
    ForEverybody,
    FormatName,
    ForResults,
    Json,
    Parameters,
    Release,
    job_variables,
    programs_of,
)
from colltune.text import counted, printable

if TYPE_CHECKING:
    from colltune.mpi.linting import Linted
    from colltune.mpi.opened_file import OpenFile
    from colltune.mpi.rules import Finding


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
    results: ForResults = None,
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
    from colltune.mpi.linting import LintReport, lint_file
    from colltune.mpi.programs import ANY_LEGAL

    variables = job_variables(environment, parameters)
    meant = programs_of(programs, results, otherwise=ANY_LEGAL)
    linted = [
        one.meant_for(meant)
        for file in files
        for one in lint_file(file, release, format_, variables)
    ]
    report = LintReport.of(linted, strict=strict)
    output(report, _lines(linted), json=json)
    return report.exit_status


_MARKS = {"error": Mark.BAD, "warning": Mark.DOUBTFUL, "note": Mark.REMARK}


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
