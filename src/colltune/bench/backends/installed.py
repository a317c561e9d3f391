"""What backends on an installed MPI share: its context, what runs as itself, starting programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from colltune import leftovers, process
from colltune.bench.launchers import Launcher, Start, launcher_of
from colltune.domain import Configuration, Context, Instance, Shape
from colltune.errors import ProgramError, say
from colltune.interrupts import held_back
from colltune.mpi import MpiLibrary, Release
from colltune.mpi.in_effect import ENVIRONMENT, Setting
from colltune.mpi.installation import Installation
from colltune.provenance import usable_cores

_CLEANING_S = 10.0


def runs_as_itself(release: Release, configuration: Configuration, instance: Instance) -> bool:
    """Tell whether a configuration runs there, and as no smaller configuration would."""
    shape, msize_bytes = instance.shape, instance.msize_bytes
    return configuration.is_default or (
        not release.runs(configuration, shape).why_not(msize_bytes)
        and release.effective(configuration, shape.nprocs, msize_bytes) == configuration
    )


def started_shape(shape: Shape) -> Shape:
    """Return what the launcher is asked for: one host where tests lay several nodes on it."""
    return Shape(1, shape.nprocs) if os.environ.get("COLLBENCH_NODES") == "by-rank" else shape


class InstalledMpi:
    """Starts programs with an installed MPI, by the library's own launcher unless another is given.

    ``cores`` are the processors of a node; default: those of this host.
    """

    def __init__(
        self, mpi: Installation, launcher: Launcher | None = None, cores: int | None = None
    ) -> None:
        self.mpi = mpi
        self.launcher = launcher or launcher_of(mpi)
        self.cores = cores or usable_cores()

    def context(self, machine: str) -> Context:
        return Context(machine, self.mpi.library, self.mpi.release)

    def command(
        self,
        shape: Shape,
        words: Sequence[str | Path],
        wanted: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        shape = started_shape(shape)
        user = os.environ | self.mpi.launch_environment()
        environment = self.launcher.environment(user, wanted, shape)
        exported = {name: environment[name] for name in wanted} if shape.nodes > 1 else {}
        start = Start(
            shape, tuple(words), cores=self.cores, exported=exported, options=tuple(options)
        )
        return self.launcher.command(start), environment

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings of the user, those in the library's files too."""
        return self.mpi.mpi.in_effect(os.environ, self.mpi)

    def refuse_settings(self, library: MpiLibrary, wanted: Mapping[str, str]) -> None:
        """Refuse where the user, who always wins, tells `library` something else than `wanted`.

        Raises
        ------
        CampaignError
            It names the variable, and the file with the line.
        """
        settings = self.settings
        for name, value in sorted(wanted.items()):
            user = settings.get(name)
            if user is not None and not library.same(name, user.value, value):
                raise say(
                    "set-otherwise",
                    name=name,
                    value=user.value,
                    source=user.source,
                    wanted=value,
                    mend=_mend(name, user),
                )
        for name, user in sorted(settings.items()):
            if name not in wanted and library.user_overrides(wanted, {name: user}).reason:
                raise say(
                    "decided-by-user",
                    name=name,
                    value=user.value,
                    source=user.source,
                    library=library.title,
                    mend=_mend(name, user),
                )

    def start(
        self,
        shape: Shape,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float,
        watch: Callable[[], bool] | None = None,
    ) -> process.ProcessResult:
        """Run what `command` returned; whatever it leaves behind on the nodes of `shape` is ended.

        The other arguments are those of `process.run`.
        """
        mark = leftovers.new_mark()
        ended_well = False
        try:
            outcome = process.run(
                command, timeout_s=timeout_s, env=environment, watch=watch, mark=mark
            )
            ended_well = outcome.ok
            return outcome
        finally:
            if shape.nodes > 1 and not ended_well:
                with held_back(), suppress(ProgramError):
                    self._end_elsewhere(shape, mark)

    def _end_elsewhere(self, shape: Shape, mark: str) -> None:
        words = leftovers.ending_words(mark)
        command, environment = self.command(Shape(shape.nodes, 1), words, {})
        process.run(command, timeout_s=_CLEANING_S, env=environment, mark=leftovers.new_mark())

    def answers(self, shape: Shape, within_s: float) -> bool:
        command, environment = self.command(shape, ["true"], {})
        return self.start(shape, command, environment, within_s).ok


def _mend(name: str, setting: Setting) -> str:
    if setting.source == ENVIRONMENT:
        return f"Unset {name}"
    return f"Take it out of {setting.source}"
