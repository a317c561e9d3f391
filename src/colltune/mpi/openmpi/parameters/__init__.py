"""The format ``openmpi-parameters``: parameters that are in effect at once, in files of all kinds.

Read are ``mca-params.conf`` (``name = value``), files for ``mpirun --tune`` and
``mca_base_envar_file_prefix`` (``--mca name value``), and listings of an environment
(``OMPI_MCA_name=value``). What is written is one of the second kind, with forced single choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Format, ParsedFile, Written
from colltune.mpi.openmpi import activation
from colltune.mpi.openmpi.parameters import reading, writing
from colltune.mpi.openmpi.parameters.parsed import NAME, ParameterFile
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of

_FIRST_BYTES = 65536
_OWN = re.compile(
    r"^[ \t]*(?:--?o?mca[ \t]+[A-Za-z]|(?:export[ \t]+)?OMPI_MCA_[A-Za-z0-9_]+[ \t]*="
    r"|(?:coll|mca|pml|btl|mtl|osc|io|opal|ompi|orte|mpi|rmaps|plm|oob|hwloc|pmix|prte|topo|op)"
    r"(?:_[a-z0-9_]+)?[ \t]*=)",
    re.MULTILINE,
)


class OpenMpiParameters(Format):
    """See `file_format.Format`."""

    name = NAME
    library = LIBRARY
    title = "Open MPI's parameters (mca-params.conf, --tune, environment)"
    one_choice = True
    knows_layout = False
    leaves_parts = True

    def recognises(self, text: str) -> bool:
        """See `file_format.Format`."""
        return _OWN.search(text[:_FIRST_BYTES].removeprefix("\ufeff")) is not None

    def unreadable_by(self, release: str) -> str:
        """See `file_format.Format`: all releases read it."""
        catalogue_of(release)
        return ""

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        """See `file_format.Format`.

        Raises
        ------
        LibraryError
            Also if no line sets a parameter, while others stand there.
        """
        catalogue_of(release)
        settings = reading.read(text)
        if settings.others and not settings.found:
            line, other = settings.others[0]
            raise LibraryError(
                f"{source}:{line}: {other[:60]!r} sets no parameter, and no other line does; a line"
                " looks like coll_tuned_priority = 30 or --mca coll_tuned_priority 30"
            )
        return ParameterFile(text, source, release)

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """See `writing.write`."""
        return writing.write(table, release, builtin_operations_only=builtin_operations_only)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """See `writing.convert`.

        Raises
        ------
        LibraryError
            If its own release drops the file.
        """
        catalogue_of(release)
        if parsed.dropped:
            raise LibraryError(f"{parsed.source}: nothing to convert: {parsed.dropped}")
        return writing.convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """See `file_format.Format`; the users' and the system's parameter files stay in effect.

        Raises
        ------
        LibraryError
            If a path is relative.
        """
        catalogue_of(release)
        path = Path(paths[""])
        if not path.is_absolute():
            raise LibraryError(f"{path}: the path of a parameter file must be absolute")
        return activation.environment({"mca_base_envar_file_prefix": str(path)})
