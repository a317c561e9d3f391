"""The format ``openmpi-han`` behind `file_format.Format`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import (
    Finding,
    Format,
    ParsedFile,
    Written,
    absolute_path,
    refuse_dropped,
)
from colltune.mpi.openmpi import activation
from colltune.mpi.openmpi.han import lint, reading, writing
from colltune.mpi.openmpi.han.parsed import NAME, HanFile, parameters
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of

_FIRST_BYTES = 65536
_COMPONENT = re.compile(
    r"^\s*[0-9]+\s+(?:self|basic|libnbc|tuned|sm|adapt|han|xhc)\b", re.MULTILINE
)
_COMMENT = re.compile("#[^\n]*")


class OpenMpiHan(Format):
    name = NAME
    library = LIBRARY
    title = "Open MPI's dynamic rules for coll/han"

    def recognises(self, text: str) -> bool:
        plain = _COMMENT.sub("", text[:_FIRST_BYTES]).lstrip()
        return plain[:1].isdecimal() and bool(_COMPONENT.search(plain))

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        found = reading.read(text, catalogue_of(release))
        levels = tuple(found.levels)
        return HanFile(
            release,
            source,
            found.dropped,
            tuple(found.rules),
            tuple(found.findings),
            found.ends_program,
            levels if not found.dropped else (),
        )

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        assert isinstance(parsed, HanFile)
        found = list(parsed.form_findings)
        if not parsed.dropped and not parsed.ends_program:
            found += lint.lint(parsed.levels, catalogue_of(parsed.release))
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Write components, which all keep the order of operands."""
        text, notes = writing.write(table, release)
        return Written(NAME, release, {"": text}, notes)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, HanFile) else "")
        if not isinstance(parsed, HanFile):
            raise LibraryError(
                f"{parsed.source}: what {parsed.format} says cannot be said in {NAME}, which names"
                " components and no algorithms of coll/tuned"
            )
        text, notes = writing.convert(parsed.levels, parsed.release, release)
        return Written(NAME, release, {"": text}, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; 4.1 needs coll/han's priority raised."""
        path = absolute_path(paths[""], "a rules file")
        return activation.environment(parameters(release, path))
