"""`colltune app interpose`: compiles libcolltune for the MPI at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import Verbatim, output, warn
from colltune.cli.options import Json, Mpi, writable_file


@dataclass(frozen=True)
class Interposing:
    """What `app interpose` prints."""

    path: Path
    """the library"""
    library: str
    """MPI library that it is for"""
    release: str
    """its release"""
    line: str
    """line for a job"""


def interpose(
    mpi: Mpi = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="MPI library: openmpi, mpich or intelmpi; default: the library of --mpi."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write, on a file system that all nodes see; default: in the user's "
            "cache.",
            callback=writable_file,
        ),
    ] = None,
    unlinked: Annotated[
        bool,
        typer.Option(
            help="Make one for a site that preloads it in whole steps: it says nothing unless a "
            "variable of the user asks for something."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Compile libcolltune for an MPI, and print the line that preloads it.

    libcolltune adds its own collective algorithms and reads decision tables. It is preloaded, so
    programs of that MPI need no change. Without a table it leaves all calls to MPI. This command
    needs a C compiler and the MPI's compiler wrapper; jobs need neither.

    Example: colltune app interpose --out /shared/libcolltune.so
    """
    from colltune.bench.build import interposed_library, unlinked_library
    from colltune.files import whole
    from colltune.files.ownership import danger, insist_preloadable
    from colltune.mpi import installation
    from colltune.mpi.libcolltune import PRELOAD, assignment

    if out is not None:
        insist_preloadable(out)
    found = installation.find(mpi, library)
    path = (unlinked_library if unlinked else interposed_library)(found)
    if out is not None:
        # whole or not at all: a job may have it preloaded
        with whole(out.absolute(), 0o755) as temporary:
            temporary.write_bytes(path.read_bytes())
        path = out.absolute()
        if why := danger(path):
            warn(f"{why}: anybody who can change it can run code in all jobs that preload it")
    line = f"export {assignment(PRELOAD, str(path))}"
    facts = Interposing(path, found.library, found.release, line)
    head = f"libcolltune for {found.library} {found.release}:"
    output(facts, [head, f"  {path}", Verbatim(f"add to the job: {line}")], json=json)
