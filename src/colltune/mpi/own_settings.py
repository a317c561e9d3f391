"""The user's own variables, which always win over what colltune would set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from colltune.mpi.protocol import Honoured


def _as_written(text: str) -> str:
    return text


def honoured(
    environment: Mapping[str, str],
    os_environ: Mapping[str, str],
    decides: Callable[[str], bool],
    *,
    same_variable: Callable[[str], str] = _as_written,
    same_value: Callable[[str], str] = _as_written,
) -> Honoured:
    """Return what may be set beside the user's own environment.

    If the user decides himself which algorithms run, nothing is set at all: half of our settings
    with half of his would be a third configuration that nobody measured.

    Parameters
    ----------
    environment
        What would be set.
    os_environ
        The user's environment.
    decides
        Tells whether a variable bears on which algorithms run.
    same_variable, same_value
        Return the one spelling of a name, or of a value, that the library takes in several.
    """
    ours = {same_variable(name): value for name, value in environment.items()}
    for name, value in sorted(os_environ.items()):
        if not decides(name):
            continue
        wanted = ours.get(same_variable(name))
        if wanted is None or same_value(value) != same_value(wanted):
            return Honoured({}, f"{name}={value} is set already, so nothing else was changed")
    users = {same_variable(name) for name in os_environ}
    return Honoured({n: v for n, v in environment.items() if same_variable(n) not in users})
