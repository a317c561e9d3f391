"""Decision tables of libcolltune as formats, one for each MPI library."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.file_format import (
    Fault,
    Finding,
    Format,
    ParsedFile,
    Written,
    absolute_path,
    refuse_dropped,
)
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import (
    FILE_STEM,
    TABLE,
    WithLibcolltune,
    with_libcolltune,
)
from colltune.mpi.libcolltune.table.lint import lint
from colltune.mpi.libcolltune.table.parsed import ParsedTable
from colltune.mpi.libcolltune.table.text import (
    AGAIN,
    Broken,
    Content,
    looks_like,
    read,
    rendered,
    version_of,
)
from colltune.mpi.libcolltune.table.writing import TableWriter, why_not_told


class TableFormat(Format):
    """See `file_format.Format`; a table is read only beside the release that it was made for."""

    knows_layout = True
    interposed = True

    @property
    def mpi(self) -> WithLibcolltune:
        return with_libcolltune(LIBRARIES[self.library])

    def recognises(self, text: str) -> bool:
        return looks_like(text, self.library)

    def release_in(self, text: str) -> str | None:
        words = text.split("\n", 2)[1].split() if self.recognises(text) else []
        return words[2] if len(words) == 3 else None

    def why_not_expressed(self, release: str, configuration: Configuration) -> str:
        bound = self.mpi.at(release)
        return why_not_told(bound, bound.canonical(configuration))

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        self.mpi.catalogue_of(release)
        version_of(text, source)
        try:
            content = read(text)
        except Broken as broken:
            return self._dropped(source, release, broken.line, broken.message)
        if content.library != self.library:
            why = f"it is for {content.library}, not for {self.library}"
            return self._dropped(source, release, 2, why)
        if content.release != release:
            why = f"it is for {self.mpi.title} {content.release}, not for {release}"
            return self._dropped(source, release, 2, why)
        return ParsedTable(self.mpi.at(release), self.name, source, content)

    def _dropped(self, source: str, release: str, line: int, why: str) -> ParsedTable:
        message = f"{why}; libcolltune ignores the table, and the library decides"
        finding = Finding(line, Fault.FILE_DROPPED, message, AGAIN)
        nothing = Content(self.library, release, Shape(1, 1))
        dropped = f"line {line}: {why}" if line else why
        return ParsedTable(self.mpi.at(release), self.name, source, nothing, dropped, (finding,))

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParsedTable)
        found = () if parsed.dropped else lint(parsed)
        return tuple(sorted((*parsed.form_findings, *found)))

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Return `table` for libcolltune; algorithms of the library are chosen by MPI_T."""
        self.mpi.catalogue_of(release)
        writer = TableWriter(self.mpi.at(release), builtin_operations_only=builtin_operations_only)
        text = rendered(writer.content(table))
        return Written(self.name, release, {"": text}, tuple(writer.notes))

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        self.mpi.catalogue_of(release)
        if not isinstance(parsed, ParsedTable) or parsed.format != self.name:
            raise LibraryError(
                f"{parsed.source}: a table is for exactly the communicators of one job, which"
                f" {parsed.format} does not tell; {AGAIN}"
            )
        refuse_dropped(parsed)
        return self.write(parsed.table(), release, builtin_operations_only=True)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables that preload libcolltune and name the table.

        ``paths["library"]`` is where it was compiled; without it the loader looks for its name.
        """
        path = absolute_path(paths[""], "a table")
        ours = {PRELOAD: paths.get("library", f"{FILE_STEM}.so"), TABLE: path}
        return ours | self.mpi.at(release).base_environment()


class OpenMpiTable(TableFormat):
    name = "openmpi-table"
    library = "openmpi"
    title = "libcolltune's decision table, beside Open MPI"


class MpichTable(TableFormat):
    name = "mpich-table"
    library = "mpich"
    title = "libcolltune's decision table, beside MPICH"


class IntelMpiTable(TableFormat):
    """Tables beside Intel MPI, whose own algorithms they cannot choose."""

    name = "intelmpi-table"
    library = "intelmpi"
    title = "libcolltune's decision table, beside Intel MPI"
