"""The user's own launcher line, with our program behind it, and what it preloads."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from colltune import process
from colltune.bench import build
from colltune.bench.launchers import Start
from colltune.domain import Shape
from colltune.errors import CampaignError, say
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import FILE_STEM

_MPI_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun")
_SRUN = "srun"
_GIVE = "the launcher with its options after --, such as: -- mpirun -np 8"
_MEND = f"Give {_GIVE}."


@dataclass(frozen=True)
class UserLine:
    """A launcher with its options, without a program; fulfils the Protocol of a launcher."""

    words: tuple[str, ...]
    user: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    def command(self, start: Start) -> tuple[str, ...]:
        return (*self.words, *start.words)

    def environment(
        self,
        user: Mapping[str, str],
        wanted: Mapping[str, str],
        shape: Shape,
    ) -> dict[str, str]:
        return self.variables(wanted)

    def variables(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return `wanted` and the user's own environment, which wins."""
        own = {n: v for n, v in self.user.items() if n not in self.left_out}
        return dict(wanted) | own

    @property
    def text(self) -> str:
        return shlex.join(self.words)


def check_line(words: Sequence[str]) -> None:
    """Insist on a launcher with options, and without a program of several parts."""
    if not words:
        raise say("missing", CampaignError, what="a launcher", give=_GIVE)
    if ":" in words[1:]:
        raise say("several-programs", line=shlex.join(words))
    process.find(words[0], _MEND)


def installation_of(words: Sequence[str], mpi: str | None) -> Installation:
    """Return the MPI that the launcher in `words` belongs to, or that `mpi` names."""
    if mpi is not None:
        return installation.find(mpi)
    launcher = process.find(words[0], _MEND)
    names = (launcher.name, launcher.resolve().name)
    if _SRUN in names:
        return installation.find()
    if any(name.startswith(_MPI_LAUNCHERS) for name in names):
        return installation.find(os.fspath(launcher))
    raise say("unknown-launcher", name=words[0], known=", ".join((*_MPI_LAUNCHERS, _SRUN)))


@dataclass(frozen=True)
class Preloaded:
    """The libraries that a job preloads: ``users`` without libcolltune, and with it in all."""

    users: tuple[str, ...]
    library: str

    @property
    def without(self) -> dict[str, str]:
        return {PRELOAD: ":".join(self.users)} if self.users else {}

    @property
    def together(self) -> str:
        return ":".join((*self.users, self.library))


def preloaded(user: Mapping[str, str], installation: Installation, cache: Path) -> Preloaded:
    """Return what `user` preloads; libcolltune is compiled in `cache` where that is not of it."""
    words = words_of(user.get(PRELOAD, ""))
    ours = [word for word in words if PurePath(word).name.startswith(FILE_STEM)]
    if not ours:
        compiled = build.interposed_library(installation, cache)
        ours = [str(compiled)]
    return Preloaded(tuple(word for word in words if word not in ours), ours[0])


def without_preload(line: UserLine) -> UserLine:
    """Return the line with an environment that preloads nothing by itself."""
    return replace(line, user={n: v for n, v in line.user.items() if n != PRELOAD})


def reaches(wanted: str, got: str) -> bool:
    """Tell whether a process that sees `got` preloads all of `wanted`."""
    return set(words_of(wanted)) <= set(words_of(got))


def words_of(value: str) -> list[str]:
    return [word for word in value.replace(" ", ":").split(":") if word]
