"""Writes a job's configuration to disk: the library's own files, and what puts them into effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.files import whole
from colltune.mpi.file_format import Written
from colltune.mpi.interposed.beside import assignment
from colltune.selector.configuration import Rendered


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


def write_rendered(
    found: Rendered, path: Path, interposed: Path | None = None, notes: tuple[str, ...] = ()
) -> WrittenConfiguration:
    """Write a job's files to `path` and beside it; `interposed` is where libcolltune lies."""
    main = path.absolute()
    environment = found.environment(str(main), None if interposed is None else str(interposed))
    parameter_path = main.with_name(f"{main.name}.params")
    for end, name in found.names(str(main)).items():
        write_text(Path(name), found.written.texts[end])
    write_text(parameter_path, found.parameter_text(environment))
    return WrittenConfiguration(
        found.table,
        replace(found.written, notes=(*found.written.notes, *notes)),
        main,
        parameter_path,
        environment,
        found.target.mpi.start_line(parameter_path),
    )


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
