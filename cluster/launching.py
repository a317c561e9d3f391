"""Starts of MPI programs on a virtual cluster, for colltune's backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.virtual import VirtualCluster
from colltune.bench.launchers import Launcher, Start
from colltune.domain import Shape


@dataclass(frozen=True)
class OnCluster:
    """Lets `launcher` start programs on `cluster` from outside of it; a `Launcher`.

    Attributes
    ----------
    realtime
        See `VirtualCluster.enter`.
    """

    launcher: Launcher
    cluster: VirtualCluster
    realtime: bool = False

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line; rank r runs on host ``r // start.shape.ppn``."""
        words = self.launcher.command(start)
        return tuple(self.cluster.enter(words, realtime=self.realtime))

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return the environment of the launch; what the cluster needs goes before all else."""
        told = dict(user) | self.cluster.environment
        return self.launcher.environment(told, wanted, shape)
