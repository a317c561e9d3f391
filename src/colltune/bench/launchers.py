"""Launchers of MPI programs: command lines and environments; the registry stands at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Protocol, Self

from colltune import process
from colltune.domain import Shape
from colltune.errors import CampaignError, say, unknown
from colltune.leftovers import MARK
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.toolchain import Toolchain, launch_defaults

_SRUN_MEND = "install Slurm's client programs, or name another launcher"


@dataclass(frozen=True)
class Start:
    """One start of `program` on all processes of `shape`.

    Attributes
    ----------
    cores
        Processors per node; more processes than that are allowed only where they are asked for.
    exported
        Environment variables, with their values, that processes on other nodes are to get too.
    hostfile
        File that names the nodes, in the launcher's own format; None: the launcher knows them.
    options
        The user's own options of the launcher, passed on behind ours.
    """

    shape: Shape
    program: tuple[str | Path, ...]
    cores: int
    exported: Mapping[str, str] = field(default_factory=dict)
    hostfile: Path | None = None
    options: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The program's own words."""
        return tuple(str(word) for word in self.program)


class Launcher(Protocol):
    """Starts MPI programs."""

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line; rank r runs on node ``r // start.shape.ppn``."""
        ...

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return the user's environment, and of `wanted` and our own what he has not set.

        `user` is the user's environment.
        """
        ...


@dataclass(frozen=True)
class KnownLauncher:
    """A launcher of the registry; `program` is its path.

    What the user set himself, variables or options, always wins.
    """

    program: Path
    key: ClassVar[str] = ""

    @classmethod
    def starts(cls, toolchain: Toolchain) -> bool:
        """Tell whether it can start programs of the MPI libraries of `toolchain`."""
        return toolchain.launcher == cls.key

    @classmethod
    def of(cls, installation: Installation) -> Self:
        """Return the launcher that starts programs of `installation`."""
        return cls(installation.starts_by)

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line."""
        words = (*self._words(start, start.shape), *start.options, *start.words)
        return (str(self.program), *words)

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return `wanted` and the environment of the `user`, which wins."""
        return self._defaults(shape) | dict(wanted) | dict(user)

    def _words(self, start: Start, shape: Shape) -> list[str]:
        raise NotImplementedError

    def _defaults(self, shape: Shape) -> dict[str, str]:
        return launch_defaults(self.key, shape.nodes)


class Mpirun(KnownLauncher):
    """Open MPI's mpirun, in the spelling that both the 4.1 and the 5.0 series understand.

    Within a Slurm job it starts its daemons by srun. `program` is its path.
    """

    key = "mpirun"

    def _words(self, start: Start, shape: Shape) -> list[str]:
        words = ["-np", str(shape.nprocs)]
        if start.hostfile is not None:
            words += ["--hostfile", str(start.hostfile)]
        if shape.nodes > 1:
            # it hands no variable on to other nodes by itself; the mark tells what is left there
            words += ["--map-by", f"ppr:{shape.ppn}:node", "-x", MARK]
        if shape.ppn > start.cores:
            # only where it is needed: it changes how processes wait
            words.append("--oversubscribe")
        return words + [word for name in sorted(start.exported) for word in ("-x", name)]


class Mpiexec(KnownLauncher):
    """Hydra's mpiexec, of MPICH and Intel MPI; it oversubscribes without being asked.

    `program` is its path.
    """

    key = "mpiexec"

    def _words(self, start: Start, shape: Shape) -> list[str]:
        words = ["-n", str(shape.nprocs)]
        if start.hostfile is not None:
            words += ["-f", str(start.hostfile)]
        if shape.nodes > 1:
            words += ["-ppn", str(shape.ppn)]
        for name, value in sorted(start.exported.items()):
            words += ["-genv", name, value]
        return words


@dataclass(frozen=True)
class Srun(KnownLauncher):
    """Slurm's own launcher, within an allocation or for one of its own; `program` is its path.

    `mpi_type` names the plugin by which processes find each other.
    """

    mpi_type: str

    @classmethod
    def starts(cls, toolchain: Toolchain) -> bool:
        """Tell whether a plugin is known that the library talks to."""
        return bool(toolchain.slurm_mpi_type)

    @classmethod
    def of(cls, installation: Installation) -> Self:
        """Return the srun on PATH, with the plugin that the installation's library talks to."""
        toolchain = LIBRARIES[installation.library].toolchain
        program = installation.named_launcher or process.find("srun", _SRUN_MEND)
        return cls(program, toolchain.slurm_mpi_type)

    def _words(self, start: Start, shape: Shape) -> list[str]:
        words = [f"--nodes={shape.nodes}", f"--ntasks={shape.nprocs}"]
        # a step shares its nodes with others of the job, and ends when one process dies, as with
        # every other launcher
        words += [f"--ntasks-per-node={shape.ppn}", "--overlap", "--kill-on-bad-exit=1"]
        words.append("--export=ALL")
        if start.hostfile is not None:
            # srun takes a word for a file by its slash
            words.append(f"--nodelist={start.hostfile.absolute()}")
        return [*words, "--overcommit"] if shape.ppn > start.cores else words

    def _defaults(self, shape: Shape) -> dict[str, str]:
        # by variables, so that both the user's own variables and his options win
        return {"SLURM_MPI_TYPE": self.mpi_type, "SLURM_DISTRIBUTION": "block"}


@dataclass(frozen=True)
class Placed:
    """Starts by `launcher` on the nodes of `hostfile`, each with `cores` processors.

    ``options`` are the user's own of the launcher; None for the others keeps what a start says.
    """

    launcher: Launcher
    cores: int | None = None
    hostfile: Path | None = None
    options: tuple[str, ...] = ()

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line."""
        placed = replace(
            start,
            cores=self.cores or start.cores,
            hostfile=self.hostfile or start.hostfile,
            options=(*self.options, *start.options),
        )
        return self.launcher.command(placed)

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return `wanted` and the environment of the `user`, which wins."""
        return self.launcher.environment(user, wanted, shape)


LAUNCHERS: dict[str, type[KnownLauncher]] = {"mpirun": Mpirun, "mpiexec": Mpiexec, "srun": Srun}


def launcher_of(installation: Installation, name: str | None = None) -> KnownLauncher:
    """Return the launcher `name`, by default the library's own, for programs of `installation`.

    Raises
    ------
    CampaignError
        If there is no such launcher, or it cannot start programs of that library.
    ProgramError
        If its program is missing.
    """
    library = installation.library
    toolchain = LIBRARIES[library].toolchain
    name = toolchain.launcher if name is None else name
    if name not in LAUNCHERS:
        raise unknown("launcher", name, LAUNCHERS, CampaignError)
    if not LAUNCHERS[name].starts(toolchain):
        able = [known for known, launcher in LAUNCHERS.items() if launcher.starts(toolchain)]
        raise say("launcher-does-not-start", name=name, library=library, able=" or ".join(able))
    return LAUNCHERS[name].of(installation)
