"""Writes what was selected for a job as the MPI library's own configuration files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Shape
from colltune.files import whole
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.mpi.file_format import Written
from colltune.mpi.interposed.beside import assignment
from colltune.selector.configuration import Rendered, Target, render, rendered, selector_for


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
        return "export " + " ".join(map(assignment, self.environment, self.environment.values()))

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
    selector = selector_for(bundle, target, guard=guard)
    return write_for_job(render(selector, shape, target), path)


def write_for_job(found: Rendered, path: Path) -> WrittenConfiguration:
    """Write as `write_rendered` does; where libcolltune reads it, with the one at hand.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    target = found.target
    if not target.form.interposed:
        return write_rendered(found, path)
    from colltune.cli.interposed_library import library_or_note

    interposed, notes = library_or_note(target.form.library, target.release)
    noted = replace(found.written, notes=(*found.written.notes, *notes))
    return write_rendered(replace(found, written=noted), path, interposed)


def write_table(
    target: Target, table: DecisionTable, path: Path, interposed: Path | None = None
) -> WrittenConfiguration:
    """Write `table` to `path`, and beside it what puts it into effect; see `write_rendered`.

    Raises
    ------
    LibraryError
        If what was written would not be read as it is meant.
    """
    return write_rendered(rendered(target, table), path, interposed)


def write_rendered(
    found: Rendered, path: Path, interposed: Path | None = None
) -> WrittenConfiguration:
    """Write a job's files to `path` and beside it; `interposed` is where libcolltune lies.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    main = path.absolute()
    environment = found.environment(str(main), None if interposed is None else str(interposed))
    parameter_path = main.with_name(f"{main.name}.params")
    for end, name in found.names(str(main)).items():
        _write(Path(name), found.written.texts[end])
    _write(parameter_path, found.parameter_text(environment))
    start_line = found.target.mpi.start_line(parameter_path)
    return WrittenConfiguration(
        found.table, found.written, main, parameter_path, environment, start_line
    )


def _write(path: Path, text: str) -> None:
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
