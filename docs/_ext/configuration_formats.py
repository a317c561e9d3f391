"""The formats of MPI libraries' configuration files, and which release reads which."""

from __future__ import annotations

from colltune.mpi.file_format import Format
from colltune.mpi.formats import CURRENT, FORMATS, PREFERRED, RELEASES, readers
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
                code(library),
                ", ".join(releases),
                CURRENT[library],
                " or ".join(map(code, PREFERRED[library])),
            )
            for library, releases in RELEASES.items()
        ),
    )
    return formats + libraries


def _holds(known: Format) -> str:
    if known.one_choice:
        return "one choice per collective"
    layout = ", and by the layout over nodes" if known.knows_layout else ""
    return f"rules by communicator and message size{layout}"
