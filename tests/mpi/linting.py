"""The lint of a parsed file, by the name of its format."""

from __future__ import annotations

from colltune.mpi.file_format import Finding, ParsedFile
from colltune.mpi.formats import FORMATS


def lint(parsed: ParsedFile) -> tuple[Finding, ...]:
    """Return everything that is wrong with a parsed file."""
    return FORMATS[parsed.format].lint(parsed)
