"""`colltune lint`: what is wrong with configuration files of MPI libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.options import Environment, FormatName, Json, Parameters, Release
from colltune.errors import LibraryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colltune.cli.configuration_file import OpenFile
    from colltune.cli.lint_report import Linted
    from colltune.mpi.file_format import Finding, ParsedFile


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

    colltune lint rules.conf --release openmpi@5.0.8

    colltune lint tuning.json --release mpich@4.3.2 --json

    colltune lint rules.conf --release 4.1.6 --parameters job.params
    """
    from colltune.cli.job_variables import job_variables
    from colltune.cli.lint_report import exit_status, show_all

    variables = job_variables(environment, parameters)
    linted = [_linted(file, release, format_, variables) for file in files]
    show_all(linted, as_json=json, strict=strict)
    return exit_status(linted, strict=strict)


def _linted(
    file: Path, release: str | None, format_name: str | None, variables: Mapping[str, str] | None
) -> Linted:
    """Return everything that is found in one file; a file that cannot be read is no error here."""
    from colltune.cli.configuration_file import check_names, open_file, source_name
    from colltune.cli.lint_report import Linted

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

    from colltune.mpi.effect import effect_findings, named_variables, outranked_findings

    if not opened.paths or parsed.dropped:
        return {}, parsed.findings, False
    activation = opened.format.activation(opened.release, opened.paths)
    job = variables
    if job is None and named_variables(activation, os.environ):
        job = dict(os.environ)
    if job is None:
        return activation, parsed.findings, False
    found = effect_findings(parsed, activation, opened.paths, job)
    return activation, (*outranked_findings(parsed, opened.paths, job), *found), True
