"""Whose a file is, asked before it is run or loaded."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from colltune.errors import say
from colltune.files import make_folder, writing
from colltune.files.temporary import temporary_folder

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH
_MOST_STEPS = 1000
_WRITABLE = "Make it writable, or name your own folder in COLLTUNE_CACHE."


def insist_preloadable(path: Path) -> Path:
    """Return the absolute `path`, which a list of libraries to preload can name.

    Raises
    ------
    OutputError
        If it has a blank or a colon, which separate the names of such a list.
    """
    whole = path.absolute()
    if any(character.isspace() or character == ":" for character in str(whole)):
        raise say("not-preloadable", path=whole)
    return whole


class Risk(NamedTuple):
    """Who else could change a file, and by which place on the way to it."""

    place: Path
    why: str
    is_open: bool = False
    """Whether its mode lets others write, which `chmod` mends."""


def danger(path: Path, trusted: int = 0) -> str:
    """Tell who else could change what lies at `path`; empty if only this user and root can."""
    found = risk(path, trusted)
    return f"{found.place} {found.why}" if found else ""


def risk(path: Path, trusted: int = 0) -> Risk | None:
    """Return how somebody else could change what lies at `path`, None if only we and root can.

    All folders above it count, and those that symbolic links lead through. Below a folder of ours
    that nobody else can enter, modes do not matter. A sticky folder, such as ``/tmp``, keeps what
    is in it from others.
    """
    names, at, sealed = [*reversed(path.absolute().parts)], Path("/"), False
    try:
        for _ in range(_MOST_STEPS):
            if not names:
                return None
            at = at / names.pop()
            if at.name == "..":
                at, sealed = at.parent.parent, False
            status = at.lstat()
            owners, through = {0, os.geteuid(), trusted}, bool(names)
            if _is_foreign(status, owners, through=through):
                return Risk(at, f"belongs to uid {status.st_uid}")
            if not sealed and _is_open(status.st_mode, through=through):
                mode = f"{stat.S_IMODE(status.st_mode):04o}"
                return Risk(at, f"is writable by others (mode {mode})", is_open=True)
            if stat.S_ISLNK(status.st_mode):
                names += reversed(at.readlink().parts)
                at, sealed = at.parent, False
            elif status.st_uid == os.geteuid() and not status.st_mode & _ENTERED_BY_OTHERS:
                sealed = True
    except OSError as error:
        return Risk(at, f"cannot be inspected ({error.strerror})")
    return Risk(path, "has too many symbolic links")


def _is_foreign(status: os.stat_result, owners: set[int], *, through: bool) -> bool:
    # where a container knows one user only, all others look alike; the owner of / is the system
    is_system = through and status.st_uid == Path("/").stat().st_uid
    return status.st_uid not in owners and not is_system


def _is_open(mode: int, *, through: bool) -> bool:
    kept = stat.S_ISLNK(mode) or (through and mode & stat.S_ISVTX)
    return bool(mode & _OTHERS) and not kept


def own_folder(path: Path) -> Path:
    """Return the folder `path`, made if need be, for what will be run or loaded."""
    with writing(path, _WRITABLE):
        make_folder(path, stat.S_IRWXU)
    if why := danger(path):
        raise say("could-be-changed", why=why, path=path)
    return path


def made_once(folder: Path, name: str, make: Callable[[Path], Path]) -> Path:
    """Return the program or library `name` in `folder`, made at first use."""
    target = own_folder(folder) / name
    if target.is_file() and not danger(target):
        return target
    with writing(folder, _WRITABLE), temporary_folder(target) as work:
        made = make(work)
        made.chmod(0o755)
        made.replace(target)
    return target
