"""Open MPI's mpirun, in the spelling that both the 4.1 and the 5.0 series understand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from colltune.bench.launchers.protocol import Start
from colltune.domain import Shape
from colltune.mpi.installation import Installation
from colltune.mpi.vendors import Vendor


@dataclass(frozen=True)
class Mpirun:
    """Open MPI's own launcher; within a Slurm job it starts its daemons by srun."""

    program: Path

    @classmethod
    def starts(cls, vendor: Vendor) -> bool:
        return vendor.launcher == "mpirun"

    @classmethod
    def of(cls, installation: Installation) -> Self:
        return cls(installation.mpirun)

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line.

        Oversubscription is asked for only where it is needed: it changes how processes wait.
        """
        shape = start.shape
        command = [str(self.program), "-np", str(shape.nprocs)]
        if start.hostfile is not None:
            command += ["--hostfile", str(start.hostfile)]
        if shape.nodes > 1:
            command += ["--map-by", f"ppr:{shape.ppn}:node"]
        if shape.ppn > start.cores:
            command.append("--oversubscribe")
        for name in sorted(start.exported):
            command += ["-x", name]
        return (*command, *start.options, *start.words)

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return the environment of the launch.

        On a single node the one-sided ofi transport, which no collective uses there, is left out:
        its search for adapters costs a second per launch.
        """
        added = dict(wanted)
        if shape.nodes == 1:
            added.setdefault("OMPI_MCA_btl", "^ofi")
        return added | dict(user)
