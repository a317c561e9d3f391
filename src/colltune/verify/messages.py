"""What libraries say by themselves of the configuration they were given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from colltune.verify.canary import Run

TALKATIVE: dict[str, dict[str, str]] = {"mpich": {"MPIR_CVAR_DEBUG_SUMMARY": "1"}}
"""Settings under which a library tells more; releases that do not know them ignore them."""

_TAKEN = re.compile(r"^MPIR: (?P<what>\S+)$", re.MULTILINE)
_REFUSED = re.compile(r"Incorrect (?:algorithm|adjust value)\b.*")


def said(run: Run, file: Path) -> Iterator[str]:
    """Yield in sentences what the library said in a launch with `file`.

    MPICH 5 tells which selection file it took, Intel MPI which values it takes for others.
    """
    text = f"{run.outcome.stdout}\n{run.outcome.stderr}"
    for taken in dict.fromkeys(match["what"] for match in _TAKEN.finditer(text)):
        if taken == str(file):
            yield f"MPICH itself says that it took {file.name}"
        else:
            yield f"MPICH itself says that its selection comes from {taken}"
    for refused in dict.fromkeys(match[0].strip() for match in _REFUSED.finditer(text)):
        yield f"the library says: {refused}"
