"""What `colltune env` is asked for, and what the job tells about the rest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from colltune.domain import Shape
from colltune.errors import ColltuneError, LibraryError


@dataclass(frozen=True)
class Request:
    """The options; empty where one was not given."""

    nodes: str = ""
    ppn: str = ""
    bundle: str = ""
    registry: str = ""
    url: str = ""
    library: str = ""
    release: str = ""
    mpi: str = ""
    folder: str = ""
    limit_s: float = 1.0
    builtin_operations_only: bool = False
    interposed: bool = False
    caution: float = 1.0


def shape_of(request: Request, environment: Mapping[str, str]) -> Shape:
    """Return the shape of the job, by the options or as Slurm tells.

    Raises
    ------
    ColltuneError
        If it is not known, or not the same number of processes on all nodes: no rule was made for
        such a job, and ranks of another layout than the measured one have other neighbours.
    """
    if not (request.nodes and request.ppn):
        _refuse_unclear(environment)
    nodes = _number(
        request.nodes or _first(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "nodes"
    )
    text = request.ppn or _first(environment, "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
    if not text and environment.get("SLURM_NTASKS", "").isdecimal():
        tasks = int(environment["SLURM_NTASKS"])
        text = str(tasks // nodes) if tasks % nodes == 0 else ""
    return Shape(nodes, _uniform(text, nodes))


def _refuse_unclear(environment: Mapping[str, str]) -> None:
    parts = [name for name in environment if "_HET_GROUP_" in name]
    if environment.get("SLURM_HET_SIZE") or parts:
        raise ColltuneError(
            "a heterogeneous job is left to the library; for a launch on one of its components name"
            " --nodes and --ppn"
        )
    if environment.get("SLURM_STEP_ID"):
        raise ColltuneError(
            "within a step Slurm tells of the step, not of the job; ask before srun or mpirun"
            " starts anything, or name --nodes and --ppn"
        )


def _first(environment: Mapping[str, str], *names: str) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _number(text: str, what: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit() and 0 < int(stripped[:10]) < 2**31):
        said = f"{text[:40]!r} is no number of {what}" if text else f"Slurm tells no {what}"
        raise ColltuneError(f"{said}; name --{what}")
    return int(stripped)


def _uniform(text: str, nodes: int) -> int:
    """Return the processes on each node, where ``4(x3)`` tells the same for all."""
    from colltune.bench.allocation import counts

    try:
        found = counts(text.strip())
    except ValueError:
        return _number(text, "ppn")
    if len(set(found)) > 1 or len(found) not in (1, nodes):
        raise ColltuneError(
            f"{text} processes per node are not the same on all {nodes} nodes; such a job is left"
            " to the library"
        )
    return _number(str(found[0]), "ppn")


def release_of(request: Request, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the MPI library and its release, by the options, modules, or mpirun.

    Raises
    ------
    LibraryError
        If the loaded MPI is one that colltune does not write for.
    ProgramError
        If there is no mpirun, or it does not tell.
    """
    from colltune.mpi.loaded import UNKNOWN, loaded

    if request.library and request.release:
        return request.library, request.release
    told = None if request.mpi else loaded(environment)
    if told is not None and request.library in ("", told.library):
        if told.library == UNKNOWN:
            raise LibraryError("the loaded MPI is one that colltune does not write for")
        if request.release or told.release:
            return told.library, request.release or told.release
    return _asked(request)


def _asked(request: Request) -> tuple[str, str]:
    from colltune.mpi.installation import find_launcher

    # the job's mpirun is the one on PATH, not one that lies beside this Python
    named = request.mpi or (None if request.library else shutil.which("mpirun"))
    if named is None and not request.library:
        raise LibraryError(
            "neither modules nor an mpirun on PATH tell which MPI the job uses; name --library and"
            " --release"
        )
    found = find_launcher(named, request.library or None)
    return found.library, request.release or found.release


def folder_of(request: Request, environment: Mapping[str, str], shape: Shape) -> Path:
    """Return the absolute path of the job's folder."""
    if request.folder:
        return Path(request.folder).absolute()
    home = Path(environment.get("SLURM_SUBMIT_DIR") or Path.cwd())
    return home.absolute() / ".colltune" / (environment.get("SLURM_JOB_ID") or str(shape))
