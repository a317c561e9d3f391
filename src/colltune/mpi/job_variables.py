"""The environment variables of a job: how files name them, and which concern collectives."""

from __future__ import annotations

import re
import shlex

from colltune.errors import LibraryError

_MCA = "OMPI_MCA_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MCA_PREFIXES = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")
_SHELL_PREFIXES = (*_MCA_PREFIXES, "MPIR_", "MPICH_", "I_MPI_", "MV2_", "MVP_", "FI_", "UCX_")
_CONCERNED = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_", "MV2_", "MVP_", "I_MPI_ADJUST", "I_MPI_TUNING")


def concerns_collectives(name: str) -> bool:
    """Tell whether a variable may bear on which algorithm runs, and not just on the launcher."""
    return "coll" in name.lower() or name.startswith(_CONCERNED)


def variable_of(parameter: str) -> str:
    """Return the variable that sets a parameter of a launcher's command line or file."""
    return f"{_MCA}{parameter}"


def parameter_of(variable: str) -> str:
    """Return what a launcher's command line calls a variable."""
    return variable.removeprefix(_MCA)


def variables_of(text: str, source: str) -> dict[str, str]:
    """Return the variables that a parameter file sets.

    It may have lines of a shell (``export NAME=VALUE``), of Open MPI's parameter files (``name =
    value``) and of its ``--tune`` files (``--mca name value``, several to a line). Open MPI's
    parameters get the prefix ``OMPI_MCA_``. The last of equal names counts.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "//")):
            continue
        pairs = _tuned(stripped) or _exported(stripped) or _assigned(stripped)
        if not pairs:
            raise LibraryError(
                f"{source}:{number}: {stripped[:60]!r} sets no parameter. Write export "
                "NAME=VALUE, name = value or --mca name value."
            )
        found |= pairs
    return found


def _tuned(line: str) -> dict[str, str]:
    """Return the parameters of a line of a ``--tune`` file; nothing if it is none."""
    if not line.startswith("-"):
        return {}
    words = _words(line)
    found = {}
    while words:
        if words[0] in ("--mca", "-mca", "--omca") and len(words) >= 3:
            found[_MCA + words[1]] = words[2]
            words = words[3:]
        elif words[0] in ("-x", "--x") and len(words) >= 2 and "=" in words[1]:
            name, _, value = words[1].partition("=")
            found[name] = value
            words = words[2:]
        else:
            return {}
    return found


def _exported(line: str) -> dict[str, str]:
    """Return what a line of a shell sets: ``export A=1 B=2``, or ``NAME=VALUE`` in capitals."""
    words = _words(line)
    if words[:1] == ["export"]:
        words = words[1:]
    elif not words or not words[0].partition("=")[0].startswith(_SHELL_PREFIXES):
        return {}
    pairs = [word.partition("=") for word in words]
    if not all(equals and _NAME.fullmatch(name) for name, equals, _ in pairs):
        return {}
    return {name: value for name, _, value in pairs}


def _assigned(line: str) -> dict[str, str]:
    """Return the parameter of a line of Open MPI's parameter files."""
    name, equals, value = (part.strip() for part in line.partition("="))
    if not equals or not _NAME.fullmatch(name):
        return {}
    return {(name if name.startswith(_MCA_PREFIXES) else _MCA + name): value}


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []
