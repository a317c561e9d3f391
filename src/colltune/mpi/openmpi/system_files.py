"""Which of Open MPI's own parameter files are in effect for a program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from colltune import process
from colltune.errors import ProgramError, say
from colltune.mpi.in_effect import ProgramStarter, Rank
from colltune.mpi.in_effect import Setting as InEffect
from colltune.mpi.openmpi.mca import OVERRIDE_FILE, PREFIX, SYSTEM_FILE
from colltune.mpi.openmpi.parameters.reading import PARAMETER_FILES, read_parameters

_LISTED, _TUNED = (f"{PREFIX}{name}" for name in PARAMETER_FILES)
_PATH = re.compile(r"^path:(prefix|sysconfdir):(.*)$", re.MULTILINE)
_ASKED = ("--path", "prefix", "--path", "sysconfdir", "--parsable")
_TIMEOUT_S = 20.0


@lru_cache
def system_folder(launcher: ProgramStarter) -> Path | None:
    """Return the folder of the files of an installation; None where it does not tell.

    A relocated one is asked by its mpirun for the place that it has now.
    """
    try:
        program = launcher.program("ompi_info", "")
        words: list[str | Path] = [program, *_ASKED]
        told = dict(_PATH.findall(process.run(words, timeout_s=_TIMEOUT_S).stdout))
    except ProgramError:
        return None
    if not told.get("sysconfdir"):
        return None
    folder, prefix = Path(told["sysconfdir"]), Path(told.get("prefix", "/"))
    if folder.is_relative_to(prefix):
        return launcher.mpirun.resolve().parent.parent / folder.relative_to(prefix)
    return folder


def in_effect(
    environment: Mapping[str, str], launcher: ProgramStarter | None
) -> dict[str, InEffect]:
    """Return the variables that files set for a program started with `environment`.

    Without a `launcher` the system's own are not known.
    """
    folder = None if launcher is None else system_folder(launcher)
    hands_on = launcher is None or not launcher.release.startswith("4.")
    found: dict[str, InEffect] = {}
    for path in reversed(_files(environment, folder, hands_on=hands_on)):
        found |= _read(path, Rank.FILE)
    if folder is not None:
        found |= _read(folder / OVERRIDE_FILE, Rank.OVERRIDE)
    return found


def _files(environment: Mapping[str, str], folder: Path | None, *, hands_on: bool) -> list[Path]:
    """Return the files that the environment goes before, the strongest first."""
    home = environment.get("HOME")
    own = [Path(home, ".openmpi", "mca-params.conf")] if home else []
    system = [folder / SYSTEM_FILE] if folder else []
    tuned = [*_named(environment.get(_TUNED, ""))]
    if _LISTED not in environment:
        return [*own, *tuned, *system] if hands_on else [*tuned, *own, *system]
    listed = [*_named(environment[_LISTED])]
    return [*own, *tuned, *listed] if hands_on else [*tuned, *listed]


def _named(value: str) -> Iterator[Path]:
    yield from (Path(name).absolute() for name in value.split(",") if name)


def _read(path: Path, rank: Rank) -> dict[str, InEffect]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise say("system-file-unreadable", path=path, why=error.strerror) from error
    return {
        f"{PREFIX}{setting.name}": InEffect(setting.value, f"{path}:{setting.line}", rank)
        for setting in read_parameters(text).found
        if setting.name
    }
