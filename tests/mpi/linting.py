"""The lint of a parsed file, by the name of its format."""

from __future__ import annotations

from colltune.mpi.formats import FORMATS
from colltune.mpi.rules import Finding, Rules


def lint(parsed: Rules) -> tuple[Finding, ...]:
    """Return everything that is wrong with a parsed file."""
    return FORMATS[parsed.format].lint(parsed)
