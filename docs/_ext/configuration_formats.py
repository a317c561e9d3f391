"""The formats of MPI libraries' configuration files, and which release reads which."""

from __future__ import annotations

from colltune.mpi import LIBRARIES
from colltune.mpi.file_format import Format
from colltune.mpi.formats import FORMATS, readers
from docs._ext.markdown import code, table, text


def markdown(_argument: str) -> str:
    """Return a table of formats, and one of the libraries that they are for."""
    formats = table(
        ("format", "what it is", "read by", "holds"),
        (
            (code(known.name), text(known.title), ", ".join(readers(known)), _holds(known))
            for known in FORMATS.values()
        ),
    )
    libraries = table(
        ("library", "releases between which files change their meaning", "assumed", "written as"),
        (
            (
                code(mpi.name),
                ", ".join(mpi.releases),
                mpi.current,
                " or ".join(map(code, mpi.preferred)),
            )
            for mpi in LIBRARIES.values()
        ),
    )
    return formats + libraries


def _holds(known: Format) -> str:
    if known.single_algorithm:
        return "one choice per collective"
    layout = ", and by the layout over nodes" if known.knows_layout else ""
    return f"rules by communicator and message size{layout}"
