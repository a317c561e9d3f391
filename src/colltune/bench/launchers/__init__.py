"""Launchers of MPI programs: the Protocol, and the registry beside it."""

from colltune.bench.launchers.mpiexec import Mpiexec
from colltune.bench.launchers.mpirun import Mpirun
from colltune.bench.launchers.placed import Placed
from colltune.bench.launchers.protocol import KnownLauncher, Launcher, Start
from colltune.bench.launchers.srun import Srun
from colltune.errors import CampaignError
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation

LAUNCHERS: dict[str, type[KnownLauncher]] = {
    "mpirun": Mpirun,
    "mpiexec": Mpiexec,
    "srun": Srun,
}


def launcher_of(installation: Installation, name: str | None = None) -> KnownLauncher:
    """Return the launcher `name`, by default the library's own, for programs of `installation`."""
    library = installation.library
    vendor = LIBRARIES[library].vendor
    name = vendor.launcher if name is None else name
    if name not in LAUNCHERS:
        raise CampaignError(f"unknown launcher {name!r}; known: {', '.join(LAUNCHERS)}")
    if not LAUNCHERS[name].starts(vendor):
        able = [known for known, launcher in LAUNCHERS.items() if launcher.starts(vendor)]
        raise CampaignError(
            f"launcher {name!r} cannot start programs of {library}; name {' or '.join(able)}"
        )
    return LAUNCHERS[name].of(installation)


__all__ = [
    "LAUNCHERS",
    "KnownLauncher",
    "Launcher",
    "Mpiexec",
    "Mpirun",
    "Placed",
    "Srun",
    "Start",
    "launcher_of",
]
