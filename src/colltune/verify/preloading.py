"""What of a job's LD_PRELOAD is libcolltune, and what the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from colltune.bench import build
from colltune.mpi.installation import Installation
from colltune.mpi.interposed.beside import FILE_STEM, PRELOAD
from colltune.verify.user_line import UserLine


@dataclass(frozen=True)
class Preloaded:
    """The libraries that a job preloads: ``users`` without libcolltune, and with it in all.

    ``library`` is the path of libcolltune.
    """

    users: tuple[str, ...]
    library: str

    @property
    def without(self) -> dict[str, str]:
        """The variable in a job that has no libcolltune."""
        return {PRELOAD: ":".join(self.users)} if self.users else {}

    @property
    def together(self) -> str:
        return ":".join((*self.users, self.library))


def preloaded(user: Mapping[str, str], installation: Installation, cache: Path) -> Preloaded:
    """Return what `user` preloads; libcolltune is compiled in `cache` where that is not of it."""
    words = words_of(user.get(PRELOAD, ""))
    ours = [word for word in words if PurePath(word).name.startswith(FILE_STEM)]
    if not ours:
        compiled = build.interposed_library(
            installation.mpicc,
            installation.compile_line,
            cache,
            installation.launch_environment(),
        )
        ours = [str(compiled)]
    return Preloaded(tuple(word for word in words if word not in ours), ours[0])


def without_preload(line: UserLine) -> UserLine:
    """Return the line with an environment that preloads nothing by itself."""
    return replace(line, user={n: v for n, v in line.user.items() if n != PRELOAD})


def reaches(wanted: str, got: str) -> bool:
    """Tell whether a process that sees `got` preloads all of `wanted`."""
    return set(words_of(wanted)) <= set(words_of(got))


def words_of(value: str) -> list[str]:
    """Return the libraries that a value of LD_PRELOAD names."""
    return [word for word in value.replace(" ", ":").split(":") if word]
