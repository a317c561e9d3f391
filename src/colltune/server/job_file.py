"""The job file: all that a job is to be told, in one text that a shell can split.

Format history
--------------
1. Lines of a word and a rest: ``colltune-job 1`` first; ``bundle ID``; ``library NAME RELEASE``;
   ``user PATTERN`` for the variables by which users decide themselves, ``harmless PATTERN`` for
   those among them that decide nothing (patterns of a shell's ``case``); then for each shape a
   ``shape NODESxPPN`` with ``file PATH LINES`` (path below the job's folder, then so many lines
   verbatim) and ``set NAME=VALUE``, or nothing where all is left to the library; ``end`` last,
   without which the file is not whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltune.mpi import MpiLibrary
from colltune.selector.configuration import Rendered
from colltune.server.rendering import Rendering

VERSION = 1
MAIN = "rules"
"""What the main file of a shape is called."""


def job_file(
    bundle_id: str, mpi: MpiLibrary, release: str, folder: str, sections: Sequence[Rendering]
) -> str:
    """Return the job file."""
    patterns = mpi.user_patterns()
    lines = [f"colltune-job {VERSION}", f"bundle {bundle_id}", f"library {mpi.name} {release}"]
    lines += [f"user {pattern}" for pattern in patterns.deciding]
    lines += [f"harmless {pattern}" for pattern in patterns.harmless]
    for section in sections:
        lines.append(f"shape {section.rendered.table.shape}")
        if not section.is_empty:
            lines += _files(section.rendered, folder)
    return "\n".join([*lines, "end"]) + "\n"


def main_file(folder: str, rendered: Rendered) -> str:
    """Return the absolute path of the main file of a shape."""
    return f"{folder.rstrip('/')}/{rendered.table.shape}/{MAIN}"


def _files(rendered: Rendered, folder: str) -> Iterator[str]:
    variables = rendered.environment(main_file(folder, rendered))
    if not variables:
        return
    for end, text in rendered.written.texts.items():
        content = text.split("\n")
        if not content[-1]:
            content.pop()
        yield f"file {rendered.table.shape}/{MAIN}{end} {len(content)}"
        yield from content
    for name, value in variables.items():
        yield f"set {name}={value}"
