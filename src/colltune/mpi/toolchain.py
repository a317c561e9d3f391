"""How the programs of each MPI library are told apart, and what starts them and what they need."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

DERIVATIVES = r"mvapich|cray-mpich|psmpi|hpcx"
"""Modules of these are not of the library whose name they contain."""


def module_named(pattern: str) -> re.Pattern[str]:
    """Return what finds a library's modules by `pattern`, and none of its derivatives."""
    return re.compile(rf"(?!.*(?i:{DERIVATIVES}))(?:.*(?:{pattern}))")


class Toolchain(Protocol):
    """What to ask the programs of one MPI library, how to read the answers, and what starts them.

    ``suffix`` is the one by which distributions keep several MPIs apart. ``compiler_version`` and
    ``compiler_line`` are the options by which mpicc tells its release and what it calls,
    ``compiler_variable`` names another C compiler; ``root_variable`` is the folder of an
    installation; ``development`` and ``mend`` tell what to install. ``version_program`` is the
    program beside mpirun, with its option, that tells the library where mpirun speaks of Hydra
    alone; without one mpirun itself is asked for ``--version``. ``runtimes`` are launchers that
    tell the release of a runtime system instead; the mpirun beside them is taken.

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
    version_program: tuple[str, str] | None = None
    runtimes: tuple[str, ...] = ()
    launcher: str = "mpiexec"
    slurm_mpi_type: str = "pmi2"
    modules: re.Pattern[str]
    easybuild: str

    def launcher_release(self, answer: str) -> str | None:
        """Return the release in what mpirun, or `version_program`, says; None if another's."""
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


def root_allowance(euid: int) -> dict[str, str]:
    """Return what Open MPI's mpirun wants to see before it serves the user `euid`."""
    if euid:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


# no collective uses the one-sided ofi transport on one node, and its search for adapters costs a
# second per launch
_ON_ONE_NODE = {"mpirun": {"OMPI_MCA_btl": "^ofi"}}
# under a batch system Intel MPI would take the job's processes per node in place of ours
_ACROSS_NODES = {"mpiexec": {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0"}}


def launch_defaults(launcher: str, nodes: int) -> dict[str, str]:
    """Return what the programs of a `Toolchain.launcher` are started with, unless the user did."""
    return (_ON_ONE_NODE if nodes == 1 else _ACROSS_NODES).get(launcher, {})


def before(folders: list[str], search_path: str | None) -> str:
    """Return the search path with `folders` in front."""
    return os.pathsep.join([*folders, *filter(None, [search_path])])
