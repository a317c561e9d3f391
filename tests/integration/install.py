"""``python -m tests.integration.install [FOLDER]``: installs the MPIs of the integration tests.

Each file in ``wheels/`` beside this one locks one MPI, by version and hashes; to add one, add a
file. Each goes into a virtual environment of its own, from the index that pip is configured for.
What is installed already stays; what cannot be installed is told, and the others follow.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.errors import ProgramError

FOLDER = Path(__file__).parents[2] / ".mpi"
WHEELS = Path(__file__).parent / "wheels"
VARIABLES = {
    "openmpi": "COLLTUNE_TEST_MPI",
    "mpich": "COLLTUNE_TEST_MPICH",
    "intelmpi": "COLLTUNE_TEST_INTELMPI",
}
"""By which variable the tests of a library are told where it is."""
_INSTALL_S = 900.0


@dataclass(frozen=True)
class Wanted:
    """One MPI: which library, which release, and the file that locks its packages."""

    library: str
    release: str
    lock: Path

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.library}-{self.release}"


def wanted() -> list[Wanted]:
    """Return all MPIs that can be installed, each library's newest release first."""
    found = []
    for lock in WHEELS.glob("*.txt"):
        library, _, release = lock.stem.partition("-")
        found.append(Wanted(library, release, lock))
    return sorted(found, key=lambda w: (w.library, _numbers(w.release)), reverse=True)


def installed(folder: Path = FOLDER) -> list[Wanted]:
    """Return those that are installed in `folder`, each library's newest release first."""
    return [one for one in wanted() if _is_complete(folder / one.name, one)]


def rounds(folder: Path = FOLDER) -> list[dict[str, str]]:
    """Return the variables of each run of the tests that it takes to test all that is installed.

    The first one has the newest release of every library, the next one the next, and so on.
    """
    found: list[dict[str, str]] = []
    for library, variable in VARIABLES.items():
        for at, one in enumerate(w for w in installed(folder) if w.library == library):
            if at == len(found):
                found.append({})
            found[at][variable] = str((folder / one.name).absolute())
    return found


def install(one: Wanted, folder: Path = FOLDER) -> str:
    """Install an MPI into `folder`, unless it is there; return what was done."""
    target = folder / one.name
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f".{one.name}.lock"):
        if _is_complete(target, one):
            return "is there"
        shutil.rmtree(target, ignore_errors=True)
        for command in _commands(target, one):
            outcome = process.run(command, timeout_s=_INSTALL_S, env=_environment())
            process.check(outcome, f"installing {one.name}")
        (target / ".complete").write_text(_key(one, target), encoding="utf-8")
    return "installed"


def main(arguments: list[str]) -> None:
    """Install everything that can be installed, and tell what cannot."""
    folder = Path(arguments[0]) if arguments else FOLDER
    for one in wanted():
        try:
            _say(f"{one.name}: {install(one, folder)}")
        except (ProgramError, OSError) as error:
            _say(f"{one.name}: cannot be installed: {error}")


def _commands(target: Path, one: Wanted) -> Iterator[list[str | Path]]:
    python = target / "bin" / "python"
    locked: list[str | Path] = ["--require-hashes", "--requirement", one.lock]
    # as setup.sh does
    if uv := shutil.which("uv"):
        yield [uv, "venv", "--quiet", "--python", sys.executable, target]
        yield [uv, "pip", "install", "--quiet", "--python", python, *locked]
        return
    yield [sys.executable, "-m", "venv", target]
    quiet = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    yield [python, "-m", "pip", "install", *quiet, *locked]


def _environment() -> Mapping[str, str]:
    # a virtual environment is its own; what makes Python look elsewhere would follow into it
    return {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "PYTHONHOME")}


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until nobody else installs the same; the system ends it with its holder."""
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _is_complete(target: Path, one: Wanted) -> bool:
    marker = target / ".complete"
    # moved or copied, its programs would look where they were installed
    return marker.is_file() and marker.read_text(encoding="utf-8") == _key(one, target)


def _key(one: Wanted, target: Path) -> str:
    locked = hashlib.sha256(one.lock.read_bytes()).hexdigest()
    return f"{locked} {target.absolute()}\n"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)))


def _say(line: str) -> None:
    sys.stdout.write(f"test-mpi: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
