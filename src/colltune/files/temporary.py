"""Temporary names that tell whose they are, so that nothing of a killed process stays for ever.

``.NAME.BOOT-PID-RANDOM.tmp`` becomes ``NAME``, and ``….old`` is what ``NAME`` was; BOOT stands for
the boot and the space of process numbers. What is of this boot is left over if its process is gone,
what is of another boot or host after a day.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

ABANDONED_S = 86400.0
"""What was left half-written for so long is not being written any more."""
_MARK = re.compile(r"([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{8}")
_NAME = re.compile(rf"\.(?P<name>.+)\.(?P<mark>{_MARK.pattern})\.(?P<end>tmp|old)")
_LONGEST = 180


def mark() -> str:
    """Return what tells this process's temporary names from those of all others."""
    return f"{_boot()}-{os.getpid()}-{os.urandom(4).hex()}"


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        space = os.fsencode(Path("/proc/self/ns/pid").readlink())
    except OSError:
        # another one each time: only age tells
        return os.urandom(4).hex()
    return hashlib.sha256(boot + space).hexdigest()[:8]


def is_left(made_by: str, age_s: float) -> bool:
    """Tell whether what a process marked, such a time ago, is left over; without mark by age."""
    match = _MARK.fullmatch(made_by)
    if match and match[1] == _boot():
        return not _lives(int(match[2]))
    return age_s > ABANDONED_S


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def temporary_name(path: Path, end: str = "tmp") -> Path:
    """Return a name beside `path` that nobody else takes."""
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST]) if end == "tmp" else path.name
    return path.with_name(f".{name}.{mark()}.{end}")


def is_left_name(name: str, age_s: float) -> bool:
    """Tell whether `name` is such a name, of which the process is gone."""
    match = _NAME.fullmatch(name)
    return match is not None and is_left(match["mark"], age_s)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside `path` for this user alone; it is gone at the end."""
    folder = temporary_name(path)
    sweep(path.parent)
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove from `folder` what processes of this user that are gone have left half-written."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match:
                with suppress(OSError):
                    _sweep(Path(entry.path), match, entry.stat(follow_symlinks=False))


def _sweep(path: Path, match: re.Match[str], status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or not is_left(match["mark"], time.time() - status.st_mtime):
        return
    target = path.with_name(match["name"])
    if match["end"] == "old" and not os.path.lexists(target):
        # it was not replaced any more
        path.rename(target)
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
