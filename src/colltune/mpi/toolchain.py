"""How the programs of each MPI library are told apart, and what starts them and what they need."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

DERIVATIVES = r"mvapich|cray-mpich|psmpi|hpcx"
"""Modules of these are not of the library whose name they contain."""


def module_named(pattern: str) -> re.Pattern[str]:
    """Return what finds a library's modules by `pattern`, and none of its derivatives."""
    return re.compile(rf"(?!.*(?i:{DERIVATIVES}))(?:.*(?:{pattern}))")


class Toolchain:
    """What to ask the programs of one MPI library, how to read the answers, and what starts them.

    ``launcher_says``, ``compiler_says`` and ``program_says`` find the release in what mpirun, mpicc
    and MPI_Get_library_version answer; of mpicc the beginning of it is enough. ``version_program``
    is the program beside mpirun, with its option, that answers for it where mpirun speaks of Hydra
    alone; ``runtimes`` are launchers that tell the release of a runtime system instead, for which
    the mpirun beside them is taken. ``compiler_version`` and ``compiler_line`` are the options by
    which mpicc tells its release and what it calls.

    ``place_variables`` tell programs of an installation where it lies, and mislead those of others.
    ``suffix`` is the one by which distributions keep several MPIs apart, ``compiler_variable``
    names another C compiler, ``root_variable`` the folder of an installation; ``development`` and
    ``mend`` tell what to install. ``launcher`` is the key of the library's own launcher in
    ``colltune.bench.launchers.LAUNCHERS``, ``slurm_mpi_type`` the plugin of srun that its programs
    talk to. ``yields`` tells that waiting processes leave their core to others where there are more
    of them than cores; where they spin, a call takes as long as the kernel's scheduler lets it.
    ``modules`` is matched against the names of loaded modules (``mpich/4.0.2``),
    ``easybuild`` is the variable in which EasyBuild's module tells the release.
    """

    launcher_says: str
    compiler_says: str
    program_says: str
    suffix: str
    compiler_version: str = "-v"
    compiler_line: str = "-show"
    compiler_variable: str
    root_variable: str
    place_variables: tuple[str, ...] = ()
    development: str
    mend: str
    version_program: tuple[str, str] | None = None
    runtimes: tuple[str, ...] = ()
    launcher: str = "mpiexec"
    slurm_mpi_type: str = "pmi2"
    yields: bool = False
    modules: re.Pattern[str]
    easybuild: str

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that its programs need beside the user's own: nothing."""
        return {}


def release_in(answer: str, pattern: str) -> str | None:
    """Return the release that a program tells, by a pattern of its toolchain; None if another's."""
    match = re.search(pattern, answer)
    return match and ".".join(filter(None, match.groups()))


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
