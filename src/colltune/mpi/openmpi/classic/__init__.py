"""The format ``openmpi-classic``: a stream of numbers with rules for coll/tuned."""

from __future__ import annotations

import re

from colltune.decisions import DecisionTable
from colltune.mpi.file_format import Finding, ParsedFile, Written, refuse_dropped
from colltune.mpi.openmpi.classic import writing
from colltune.mpi.openmpi.classic.parsed import NAME, ClassicFile
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.tuned_format import TunedFormat

_HEADER = "rule-file-version-"
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,xXa-fA-FkKmMgG]*")
# what only the rules of coll/han have between their numbers
_OTHERS = frozenset({"self", "basic", "libnbc", "tuned", "sm", "adapt", "han", "xhc"})
_FIRST_BYTES, _ENOUGH = 65536, 0.9


class OpenMpiClassic(TunedFormat):
    name = NAME
    title = "Open MPI's classic rules file for coll/tuned"

    def recognises(self, text: str) -> bool:
        head = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if head.startswith(_HEADER):
            return True
        words = [w for line in head.split("\n") for w in line.partition("#")[0].split()]
        numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)
        return numbers > _ENOUGH * len(words) and not _OTHERS & {word.lower() for word in words}

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        return ClassicFile(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.classic.lint import lint

        assert isinstance(parsed, ClassicFile)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        return writing.write(table, release, builtin_operations_only=builtin_operations_only)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed)
        return writing.convert(parsed, release)
