"""The format ``openmpi-han`` behind `file_format.Format`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Format, ParsedFile, Written
from colltune.mpi.openmpi import activation
from colltune.mpi.openmpi.han import reading, writer
from colltune.mpi.openmpi.han.lint import lint
from colltune.mpi.openmpi.han.parsed import NAME, HanFile, parameters
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of

_FIRST_BYTES = 65536
_COMPONENT = re.compile(
    r"^\s*[0-9]+\s+(?:self|basic|libnbc|tuned|sm|adapt|han|xhc)\b", re.MULTILINE
)
_COMMENT = re.compile("#[^\n]*")


class OpenMpiHan(Format):
    """See `file_format.Format`."""

    name = NAME
    library = LIBRARY
    title = "Open MPI's dynamic rules for coll/han"
    one_choice = False
    knows_layout = False
    leaves_parts = True

    def recognises(self, text: str) -> bool:
        """See `file_format.Format`."""
        plain = _COMMENT.sub("", text[:_FIRST_BYTES]).lstrip()
        return plain[:1].isdecimal() and bool(_COMPONENT.search(plain))

    def unreadable_by(self, release: str) -> str:
        """See `file_format.Format`: all supported releases read it."""
        catalogue_of(release)
        return ""

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        """See `file_format.Format`."""
        catalogue = catalogue_of(release)
        found = reading.read(text, catalogue)
        findings = list(found.findings)
        levels = tuple(found.levels)
        if not found.dropped and not found.ends_program:
            findings += lint(levels, catalogue)
        return HanFile(
            release,
            source,
            found.dropped,
            tuple(found.rules),
            tuple(sorted(findings)),
            found.ends_program,
            levels if not found.dropped else (),
        )

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """See `file_format.Format`; all components keep the order of operands."""
        return writer.write(table, release)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """See `file_format.Format`.

        Raises
        ------
        LibraryError
            If the file is dropped, ends programs, or speaks of coll/tuned.
        """
        catalogue_of(release)
        if parsed.dropped:
            raise LibraryError(f"{parsed.source}: nothing to convert: {parsed.dropped}")
        if not isinstance(parsed, HanFile):
            raise LibraryError(
                f"{parsed.source}: what {parsed.format} says cannot be said in {NAME}, which names"
                " components and no algorithms of coll/tuned"
            )
        if parsed.ends_program:
            raise LibraryError(f"{parsed.source}: nothing to convert: {parsed.ends_program}")
        return writer.convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """See `file_format.Format`; 4.1 needs coll/han's priority raised.

        Raises
        ------
        LibraryError
            If a path is relative.
        """
        path = Path(paths[""])
        if not path.is_absolute():
            raise LibraryError(f"{path}: the path of a rules file must be absolute")
        return activation.environment(parameters(release, str(path)))
