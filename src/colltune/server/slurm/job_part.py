"""What a job is told about one MPI library's release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from colltune.domain import Shape
from colltune.errors import OutputError
from colltune.models.bundle import Bundle
from colltune.mpi import UserPatterns
from colltune.selector.configuration import Rendered

MAIN = "rules"
_PLAIN = re.compile(r"/[A-Za-z0-9_./+@~%=-]*")


@dataclass(frozen=True)
class Section:
    """A job of one shape: its files' texts by name, and the variables that put them into effect."""

    shape: Shape
    files: Mapping[str, str]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class JobPart:
    """The decisions of one bundle for one release of a library."""

    bundle_id: str
    library: str
    release: str
    patterns: UserPatterns
    sections: tuple[Section, ...]

    @property
    def name(self) -> str:
        """The name of its folder within the job's."""
        return part_name(self.library, self.release)


def part_name(library: str, release: str) -> str:
    """Return the name of the folder for a release, ``openmpi-4.1.4``."""
    return f"{library}-{release}"


def part_of(
    bundle: Bundle, rendered: Rendered, job_folder: PurePath, interposed: str | None = None
) -> JobPart:
    """Return what a job in `job_folder` is told where `bundle` was rendered for it.

    `interposed` is the path of libcolltune, for tables.
    """
    target, shape = rendered.target, rendered.table.shape
    mpi = target.mpi
    main = job_folder / part_name(mpi.name, target.release) / str(shape) / MAIN
    variables = rendered.environment(str(main), interposed)
    files = {f"{MAIN}{end}": text for end, text in rendered.written.texts.items()}
    section = Section(shape, files if variables else {}, variables)
    return JobPart(bundle.id, mpi.name, target.release, mpi.user_patterns(), (section,))


def check_plain(folder: PurePath) -> None:
    """Insist on a path that can stand in variables and lists as it is."""
    if not _PLAIN.fullmatch(str(folder)):
        raise OutputError(
            f"{str(folder)!r} is no absolute path of letters, digits and _./+@~%=- alone; name"
            " another folder with --folder"
        )
