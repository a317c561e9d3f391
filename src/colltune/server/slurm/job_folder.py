"""Writes a job's folder: each shape whole or not at all, the first one for all time."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePath

from colltune.errors import OutputError
from colltune.server.slurm.job_file import JobDecisions, Section

_PLAIN = re.compile(r"/[A-Za-z0-9_./+@~%=-]*")
_THERE_ALREADY = (errno.EEXIST, errno.ENOTEMPTY)


def part_name(library: str, release: str) -> str:
    """Return the name of the folder for a release, ``openmpi-4.1.4``."""
    return f"{library}-{release}"


def check_plain(folder: PurePath) -> None:
    """Insist on a path that a shell and MPI libraries take as it is, in variables and lists."""
    if not _PLAIN.fullmatch(str(folder)):
        raise OutputError(
            f"{str(folder)!r} is no absolute path of letters, digits and _./+@~%=- alone; name"
            " another folder with --folder"
        )


def write(part: JobDecisions, job_folder: Path) -> None:
    """Write `part` into a job's folder; what is there already, and the same, stays."""
    check_plain(job_folder)
    folder = job_folder / part_name(part.library, part.release)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in _about(part).items():
            _put_file(folder / name, content)
        for section in part.sections:
            _put_section(folder / str(section.shape), section)
    except OSError as error:
        raise OutputError(
            f"cannot write {folder}: {error.strerror or error}; name a writable folder that all"
            " nodes see with --folder"
        ) from error


def _about(part: JobDecisions) -> dict[str, str]:
    return {
        "bundle": f"{part.bundle_id}\n",
        "deciding": " ".join(part.patterns.deciding or ("*",)) + "\n",
        "harmless": " ".join(part.patterns.harmless) + "\n",
    }


def _put_file(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            if path.read_text(encoding="utf-8") != content:
                raise _other(path.parent) from None
    finally:
        temporary.unlink(missing_ok=True)


def _put_section(path: Path, section: Section) -> None:
    contents = dict(section.files)
    contents["exports"] = "".join(f"{name}={value}\n" for name, value in section.variables.items())
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.mkdir()
        for name, content in contents.items():
            _write(temporary / name, content)
        temporary.rename(path)
    except OSError as error:
        if error.errno not in _THERE_ALREADY:
            raise
        if _read(path) != contents:
            raise _other(path) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(path: Path, content: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _read(folder: Path) -> Mapping[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def _other(path: Path) -> OutputError:
    return OutputError(
        f"{path}: another decision lies there and may be in use; name another folder with --folder"
    )
