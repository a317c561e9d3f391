"""Writes what was selected for a job as the MPI library's own configuration files."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from colltune.domain import Configuration, DecisionTable, Shape
from colltune.errors import LibraryError
from colltune.files import whole
from colltune.models.bundle import Bundle
from colltune.mpi import MpiLibrary, library
from colltune.mpi.file_format import Format, Written
from colltune.mpi.formats import format_for
from colltune.selector.argmin import ModelSelector
from colltune.selector.decision_table import decision_table, one_choice_table
from colltune.selector.guard import Guard
from colltune.selector.whole_table import whole_table

LARGEST_ELEMENT_BYTES = 8
"""Of the datatypes for which a written algorithm has to run as itself: a double."""


@dataclass(frozen=True)
class Target:
    """What is written for: a format, read by a release of its library."""

    form: Format
    release: str
    builtin_operations_only: bool = False

    @property
    def mpi(self) -> MpiLibrary:
        """The library."""
        return library(self.form.library)

    @classmethod
    def named(cls, name: str, release: str, *, builtin_operations_only: bool = False) -> Target:
        """Return the target for a format, or for a library's preferred one, called `name`.

        Raises
        ------
        LibraryError
            If there is none, or `release` is not supported or does not read it.
        """
        form = format_for(name, release)
        reason = form.unreadable_by(release)
        if reason:
            raise LibraryError(f"{form.name} for {form.library} {release}: {reason}")
        return cls(form, release, builtin_operations_only)


@dataclass(frozen=True)
class WrittenConfiguration:
    """The files of a job's configuration and how they are put into effect.

    ``rules_path`` is the main file, ``parameter_path`` the one that `start_line` names;
    ``environment`` does the same by variables.
    """

    table: DecisionTable
    written: Written
    rules_path: Path
    parameter_path: Path
    environment: dict[str, str]
    start_line: str

    @property
    def job_line(self) -> str:
        """The one line that a user adds to a job."""
        if not self.environment:
            return "true  # everything is left to the library"
        pairs = (f"{name}={shlex.quote(value)}" for name, value in self.environment.items())
        return "export " + " ".join(pairs)

    def show(self, *, as_json: bool) -> None:
        """Print the files, the notes and the job's line."""
        from colltune.cli.console import show, show_json, warn

        if as_json:
            show_json(
                {
                    "format": self.written.format,
                    "rules": str(self.rules_path),
                    "parameters": str(self.parameter_path),
                    "environment": self.environment,
                    "notes": list(self.written.notes),
                    "release": self.written.release,
                }
            )
            return
        for note in self.written.notes:
            warn(f"note: {note}")
        what = f"{self.table.library} {self.written.release}, {self.table.shape}"
        show(f"{self.written.format} for {what}:")
        show(f"  {self.rules_path}")
        show(f"add to the job: {self.job_line}")
        show(f"or start it with: {self.start_line}")


def write_configuration(
    bundle: Bundle,
    shape: Shape,
    *,
    format_name: str,
    release: str | None,
    path: Path,
    builtin_operations_only: bool,
    guard: bool | Guard = True,
) -> WrittenConfiguration:
    """Select for `shape` and write the library's configuration to `path` and beside it.

    Raises
    ------
    LibraryError
        If the bundle is of another library, or the release is not supported.
    OutputError
        If a file cannot be written.
    """
    target = Target.named(
        format_name,
        release or bundle.context.library_version,
        builtin_operations_only=builtin_operations_only,
    )
    if bundle.context.library != target.form.library:
        raise LibraryError(
            f"the bundle was measured with {bundle.context.library}; it says nothing about"
            f" {target.form.library}"
        )
    selector = selector_for(bundle, target, guard=guard)
    return write_table(target, table_for(selector, shape, target, describe=False), path)


def selector_for(bundle: Bundle, target: Target, *, guard: bool | Guard = True) -> ModelSelector:
    """Return the selector among what is safe in a file for `target`."""
    return ModelSelector(bundle, guard=guard, usable_from=_usable_from(target))


def table_for(
    selector: ModelSelector, shape: Shape, target: Target, *, describe: bool = True
) -> DecisionTable:
    """Return the decisions for a job of `shape` on all collectives of the selector's bundle."""
    collectives = selector.bundle.collectives
    if target.form.one_choice:
        return one_choice_table(selector, shape, collectives)
    if not target.form.leaves_parts:
        return whole_table(selector, shape, collectives, by_layout=target.form.knows_layout)
    return decision_table(
        selector,
        shape,
        collectives,
        single_rule=target.mpi.one_rule(target.release),
        by_layout=target.form.knows_layout,
        describe=describe,
    )


def _usable_from(target: Target) -> Callable[[Configuration, int], int | None]:
    """Return from which message size on a configuration may stand in a file for `target`."""
    mpi, release = target.mpi, target.release

    def usable_from(configuration: Configuration, nprocs: int) -> int | None:
        try:
            spelled = mpi.canonical(release, configuration)
        except LibraryError:
            return None
        if not mpi.safe(
            release,
            spelled,
            builtin_operations_only=target.builtin_operations_only,
            nprocs=nprocs,
        ):
            return None
        return mpi.running_from(release, spelled, nprocs, LARGEST_ELEMENT_BYTES)

    return usable_from


def write_table(target: Target, table: DecisionTable, path: Path) -> WrittenConfiguration:
    """Write `table` to `path`, read it back, and write beside it what puts it into effect.

    Raises
    ------
    LibraryError
        If what was written would not be read as it is meant.
    OutputError
        If a file cannot be written.
    """
    written = target.form.write(
        table, target.release, builtin_operations_only=target.builtin_operations_only
    )
    main = path.absolute()
    paths = {end: main.with_name(f"{main.name}{end}") for end in written.texts}
    environment = target.form.activation(
        target.release, {end: str(file) for end, file in paths.items()}, table.shape
    )
    parameter_path = main.with_name(f"{main.name}.params")
    parameters = target.mpi.parameter_file(environment)
    for end, file in paths.items():
        _write(file, written.texts[end])
    _write(parameter_path, parameters)
    _check(target, main)
    start_line = target.mpi.start_line(parameter_path)
    return WrittenConfiguration(table, written, main, parameter_path, environment, start_line)


def _check(target: Target, path: Path) -> None:
    """Read a file back as its release would."""
    parsed = target.form.parse(path.read_text(encoding="utf-8"), str(path), target.release)
    if parsed.dropped:
        raise LibraryError(
            f"{path}: {target.form.library} {target.release} would not read this file:"
            f" {parsed.dropped}; do not use it, and report this"
        )


def _write(path: Path, text: str) -> None:
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
