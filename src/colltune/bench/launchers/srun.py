"""Slurm's srun, within an allocation or for one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from colltune import process
from colltune.bench.launchers.protocol import Start
from colltune.domain import Shape
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.mpi.vendors import Vendor

_MEND = "install Slurm's client programs, or name another launcher"


@dataclass(frozen=True)
class Srun:
    """Slurm's own launcher; `mpi_type` names the plugin by which processes find each other.

    What the user may want otherwise is asked for by srun's environment variables, so that his own
    variables and his options both win.
    """

    program: Path
    mpi_type: str

    @classmethod
    def starts(cls, vendor: Vendor) -> bool:
        return bool(vendor.slurm_mpi_type)

    @classmethod
    def of(cls, installation: Installation) -> Self:
        vendor = LIBRARIES[installation.library].vendor
        return cls(process.find("srun", _MEND), vendor.slurm_mpi_type)

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line.

        A step shares its nodes with others of the job, and ends when one process dies, as with
        every other launcher.
        """
        shape = start.shape
        command = [str(self.program), f"--nodes={shape.nodes}", f"--ntasks={shape.nprocs}"]
        command += [f"--ntasks-per-node={shape.ppn}", "--overlap", "--kill-on-bad-exit=1"]
        command.append("--export=ALL")
        if start.hostfile is not None:
            # srun takes a word for a file by its slash
            command.append(f"--nodelist={start.hostfile.absolute()}")
        if shape.ppn > start.cores:
            command.append("--overcommit")
        return (*command, *start.options, *start.words)

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        ours = {"SLURM_MPI_TYPE": self.mpi_type, "SLURM_DISTRIBUTION": "block"}
        return ours | dict(wanted) | dict(user)
