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
from colltune.mpi import ConfigurableLibrary, RulesFile, configurable
from colltune.selector.argmin import ModelSelector
from colltune.selector.decision_table import decision_table

LARGEST_ELEMENT_BYTES = 8
"""Of the datatypes for which a written algorithm has to run as itself: a double."""


@dataclass(frozen=True)
class WrittenConfiguration:
    """The files of a job's configuration and how they are put into effect.

    ``rules_path`` is the rules file, ``parameter_path`` the file for ``mpirun --tune``;
    ``environment`` does the same by variables.
    """

    table: DecisionTable
    rules: RulesFile
    release: str
    rules_path: Path
    parameter_path: Path
    environment: dict[str, str]

    @property
    def job_line(self) -> str:
        """The one line that a user adds to a job."""
        pairs = (f"{name}={shlex.quote(value)}" for name, value in self.environment.items())
        return "export " + " ".join(pairs)

    def show(self, *, as_json: bool) -> None:
        """Print the files, the notes and the job's line."""
        from colltune.cli.console import show, show_json, warn

        if as_json:
            show_json(
                {
                    "rules": str(self.rules_path),
                    "parameters": str(self.parameter_path),
                    "environment": self.environment,
                    "notes": list(self.rules.notes),
                    "release": self.release,
                }
            )
            return
        for note in self.rules.notes:
            warn(f"note: {note}")
        show(f"rules for {self.table.library} {self.release}, {self.table.shape}:")
        show(f"  {self.rules_path}")
        show(f"add to the job: {self.job_line}")
        show(f"or start it with: mpirun --tune {self.parameter_path}")


def write_configuration(
    bundle: Bundle,
    shape: Shape,
    *,
    library_name: str,
    release: str | None,
    path: Path,
    builtin_operations_only: bool,
    guard: bool = True,
) -> WrittenConfiguration:
    """Select for `shape` and write the library's configuration to `path` and beside it.

    Raises
    ------
    LibraryError
        If the bundle is of another library, or the release is not supported.
    OutputError
        If a file cannot be written.
    """
    mpi = configurable(library_name)
    if bundle.context.library != library_name:
        raise LibraryError(
            f"the bundle was measured with {bundle.context.library}; it says nothing about"
            f" {library_name}"
        )
    release = release or bundle.context.library_version
    selector = selector_for(
        bundle, mpi, release, builtin_operations_only=builtin_operations_only, guard=guard
    )
    table = table_for(selector, shape, mpi, release)
    return write_table(mpi, table, release, path, builtin_operations_only=builtin_operations_only)


def selector_for(
    bundle: Bundle,
    mpi: ConfigurableLibrary,
    release: str,
    *,
    builtin_operations_only: bool,
    guard: bool = True,
) -> ModelSelector:
    """Return the selector among what is safe in a file of `release`."""
    usable_from = _usable_from(mpi, release, builtin_operations_only=builtin_operations_only)
    return ModelSelector(bundle, guard=guard, usable_from=usable_from)


def table_for(
    selector: ModelSelector,
    shape: Shape,
    mpi: ConfigurableLibrary,
    release: str,
    *,
    describe: bool = True,
) -> DecisionTable:
    """Return the decisions for a job of `shape` on all collectives of the selector's bundle."""
    collectives = selector.bundle.collectives
    return decision_table(
        selector, shape, collectives, single_rule=mpi.one_rule(release), describe=describe
    )


def _usable_from(
    mpi: ConfigurableLibrary, release: str, *, builtin_operations_only: bool
) -> Callable[[Configuration, int], int | None]:
    """Return from which message size on a configuration may stand in a file of `release`."""

    def usable_from(configuration: Configuration, nprocs: int) -> int | None:
        try:
            spelled = mpi.canonical(release, configuration)
        except LibraryError:
            return None
        if not mpi.safe(
            release, spelled, builtin_operations_only=builtin_operations_only, nprocs=nprocs
        ):
            return None
        return mpi.running_from(release, spelled, nprocs, LARGEST_ELEMENT_BYTES)

    return usable_from


def write_table(
    mpi: ConfigurableLibrary,
    table: DecisionTable,
    release: str,
    path: Path,
    *,
    builtin_operations_only: bool,
) -> WrittenConfiguration:
    """Write `table` to `path`, read it back strictly, and write its parameter file beside it."""
    rules = mpi.write(table, release, builtin_operations_only=builtin_operations_only)
    target = path.absolute()
    dispatch = target.with_name(f"{target.name}.dispatch") if rules.dispatch else None
    spans_nodes = table.shape.nodes > 1
    parameters = mpi.activation(release, target, spans_nodes=spans_nodes, dispatch_path=dispatch)
    parameter_path = target.with_name(f"{target.name}.params")
    _write(target, rules.text)
    if dispatch is not None:
        _write(dispatch, rules.dispatch)
    _write(parameter_path, mpi.parameter_file(parameters))
    mpi.read(target.read_text(encoding="utf-8"), str(path), release)
    return WrittenConfiguration(
        table, rules, release, target, parameter_path, mpi.environment(parameters)
    )


def _write(path: Path, text: str) -> None:
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
