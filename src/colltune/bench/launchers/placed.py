"""A launcher together with what a campaign says of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from colltune.bench.launchers.protocol import Launcher, Start
from colltune.domain import Shape


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
        return self.launcher.environment(user, wanted, shape)
