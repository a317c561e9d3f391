"""What every algorithm was seen to do to legal programs, release by release."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.domain import DEFAULT_ALGORITHM, INTERPOSED, Collective
from colltune.mpi import LIBRARIES
from colltune.mpi.programs import MODES, Measured, ProgramOutcome, measured
from docs._ext.markdown import code, heading, table, text


def modes(_argument: str) -> str:
    """Return all modes, and which promise leaves each of them out."""
    rows = (
        (code(mode.name), text(f"programs that {mode.program}"), code(mode.left_out_by))
        for mode in MODES.values()
    )
    return table(("mode", "is about", "left out by"), rows)


def outcomes(_argument: str) -> str:
    """Return what went wrong, of all releases that were measured."""
    found = [one for library in (*LIBRARIES, INTERPOSED) for one in measured(library)]
    return "".join(map(_release, found))


def _release(found: Measured) -> str:
    title = f"{LIBRARIES[found.over or found.library].title} {found.release}"
    if found.over:
        title = f"libcolltune over {title}"
    processes = ", ".join(map(str, found.processes))
    rows = [row for collective in found.outcomes for row in _rows(found, collective)]
    right = "" if rows else "All algorithms are right wherever the default is.\n\n"
    return (
        heading(2, title)
        + f"{found.calls} calls on {processes} processes.\n\n{right}"
        + (table(("collective", "algorithm", "wrong", "aborts", "hangs"), rows) if rows else "")
    )


def _rows(found: Measured, collective: Collective) -> list[tuple[str, ...]]:
    """Return a row for each kind of configuration that is not right in all modes."""
    rows = []
    for kind, seen in found.outcomes[collective].items():
        cells = [
            _modes(seen, each)
            for each in (ProgramOutcome.WRONG, ProgramOutcome.ABORTS, ProgramOutcome.HANGS)
        ]
        name = "the default" if kind == DEFAULT_ALGORITHM else code(kind)
        if any(cells):
            rows.append((str(collective), name, *cells))
    return rows


def _modes(seen: Mapping[str, ProgramOutcome], wanted: ProgramOutcome) -> str:
    return ", ".join(code(mode) for mode, outcome in seen.items() if outcome is wanted)
