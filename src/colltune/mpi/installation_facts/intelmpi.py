"""How many presets an installed Intel MPI has, through impi_info."""

from __future__ import annotations

import re

from colltune import process
from colltune.domain import Collective
from colltune.errors import say
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.installation import LauncherProgram
from colltune.mpi.installation_facts.facts import InstallationFacts, Variable, asked, set_by_user
from colltune.mpi.intelmpi.library import LIBRARY, variable

_MEND = "it comes with Intel MPI; name a complete one with --mpi"
_RANGE = re.compile(r"\brange:\s*0-(\d{1,6})\b")
_UNKNOWN = "Didn't find"


def inspect(launcher: LauncherProgram, _known: Catalogue) -> InstallationFacts:
    """Return what ``impi_info`` beside the launcher tells of the variables I_MPI_ADJUST_*."""
    program = launcher.program("impi_info", _MEND)
    presets, variables = {}, {}
    for collective in Collective:
        name = variable(collective)
        outcome = asked(launcher, program, "-v", name)
        if _UNKNOWN in outcome.stdout + outcome.stderr:
            continue
        highest = highest_preset(process.check(outcome, f"asking Intel MPI for {name}").stdout)
        if highest is not None:
            presets[collective] = highest
            variables[name] = set_by_user(Variable("", writable=False), name)
    if not presets:
        raise say("no-presets", program=program)
    told = launcher.release, str(program)
    return InstallationFacts(LIBRARY, *told, presets=presets, variables=variables)


def highest_preset(text: str) -> int | None:
    """Return the highest preset in what ``impi_info -v`` printed of a variable; None if none."""
    match = _RANGE.search(text)
    return None if match is None else int(match[1])
