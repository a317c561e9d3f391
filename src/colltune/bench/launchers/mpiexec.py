"""Hydra's mpiexec: the launcher of MPICH and of Intel MPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from colltune.bench.launchers.protocol import Start
from colltune.domain import Shape
from colltune.mpi.installation import Installation
from colltune.mpi.vendors import Vendor

# under a batch system Intel MPI would take the job's processes per node in place of ours
_PLACEMENT = {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0"}


@dataclass(frozen=True)
class Mpiexec:
    """MPICH's and Intel MPI's own launcher; it oversubscribes without being asked."""

    program: Path

    @classmethod
    def starts(cls, vendor: Vendor) -> bool:
        return vendor.launcher == "mpiexec"

    @classmethod
    def of(cls, installation: Installation) -> Self:
        return cls(installation.mpirun)

    def command(self, start: Start) -> tuple[str, ...]:
        shape = start.shape
        command = [str(self.program), "-n", str(shape.nprocs)]
        if start.hostfile is not None:
            command += ["-f", str(start.hostfile)]
        if shape.nodes > 1:
            command += ["-ppn", str(shape.ppn)]
        for name, value in sorted(start.exported.items()):
            command += ["-genv", name, value]
        return (*command, *start.options, *start.words)

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        added = dict(wanted)
        if shape.nodes > 1:
            added = _PLACEMENT | added
        return added | dict(user)
