"""The format ``openmpi-parameters``: parameters that are in effect at once, in files of all kinds.

Read are ``mca-params.conf`` (``name = value``), files for ``mpirun --tune`` and
``mca_base_envar_file_prefix`` (``--mca name value``), and listings of an environment
(``OMPI_MCA_name=value``). What is written is one of the second kind, with forced single choices.
"""

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
from colltune.mpi.openmpi.parameters import lint, reading, writing
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
    name = NAME
    library = LIBRARY
    title = "Open MPI's parameters (mca-params.conf, --tune, environment)"
    single_algorithm = True

    def recognises(self, text: str) -> bool:
        return _OWN.search(text[:_FIRST_BYTES].removeprefix("\ufeff")) is not None

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        catalogue_of(release)
        settings = reading.read(text)
        if settings.others and not settings.found:
            line, other = settings.others[0]
            raise LibraryError(
                f"{source}:{line}: {other[:60]!r} sets no parameter, and no other line does; a line"
                " looks like coll_tuned_priority = 30 or --mca coll_tuned_priority 30"
            )
        return ParameterFile(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParameterFile)
        return lint.lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        return writing.write(table, release, builtin_operations_only=builtin_operations_only)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed)
        return writing.convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; the users' and the system's parameter files stay in effect."""
        catalogue_of(release)
        path = absolute_path(paths[""], "a parameter file")
        return activation.environment({"mca_base_envar_file_prefix": path})
