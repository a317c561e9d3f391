"""The format ``openmpi-classic``: a stream of numbers with rules for coll/tuned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Format, ParsedFile, Written
from colltune.mpi.openmpi import activation, han_setups, writer
from colltune.mpi.openmpi.classic import converting
from colltune.mpi.openmpi.classic.parsed import NAME, ClassicFile
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of

_HEADER = "rule-file-version-"
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,xXa-fA-FkKmMgG]*")
# what only the rules of coll/han have between their numbers
_OTHERS = frozenset({"self", "basic", "libnbc", "tuned", "sm", "adapt", "han", "xhc"})
_FIRST_BYTES, _ENOUGH = 65536, 0.9


class OpenMpiClassic(Format):
    """See `file_format.Format`."""

    name = NAME
    library = LIBRARY
    title = "Open MPI's classic rules file for coll/tuned"
    one_choice = False
    knows_layout = False
    leaves_parts = True

    def why_not_expressed(self, release: str, configuration: Configuration) -> str:
        """See `file_format.Format`: coll/han's setups are no algorithms of coll/tuned."""
        if han_setups.is_setup(configuration):
            return f"{self.name} cannot name {configuration.id}, which holds for a whole job"
        return super().why_not_expressed(release, configuration)

    def recognises(self, text: str) -> bool:
        """See `file_format.Format`."""
        head = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if head.startswith(_HEADER):
            return True
        words = [w for line in head.split("\n") for w in line.partition("#")[0].split()]
        numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)
        return numbers > _ENOUGH * len(words) and not _OTHERS & {word.lower() for word in words}

    def unreadable_by(self, release: str) -> str:
        """See `file_format.Format`: all releases read it, each in its own way."""
        catalogue_of(release)
        return ""

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        """See `file_format.Format`: the library takes any text, so that none is an error."""
        return ClassicFile(text, source, release)

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """See `writer.write`."""
        return writer.write(table, release, builtin_operations_only=builtin_operations_only)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """See `converting.convert`.

        Raises
        ------
        LibraryError
            If its own release drops the file.
        """
        catalogue_of(release)
        if parsed.dropped:
            raise LibraryError(f"{parsed.source}: nothing to convert: {parsed.dropped}")
        return converting.convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """See `activation.activation`; coll/han's file is used where the job may span nodes."""
        dispatch = paths.get(writer.DISPATCH)
        parameters = activation.activation(
            release,
            Path(paths[""]),
            spans_nodes=job is None or job.nodes > 1,
            dispatch_path=Path(dispatch) if dispatch is not None else None,
        )
        return activation.environment(parameters)
