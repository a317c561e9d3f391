"""mpi4py's source package with its tests: fetched, and built for one MPI after the other.

What is locked beside this file comes from the index that pip is configured for, into a folder that
is not part of the repository; nothing of it is installed anywhere else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.mpi.installation import Installation

HERE = Path(__file__).parent
_SOURCE, _TOOLS = HERE / "mpi4py.txt", HERE / "tools.txt"
_FETCH_S, _BUILD_S = 600.0, 1800.0
_COMPLETE = ".complete"


@dataclass(frozen=True)
class Suite:
    """mpi4py built for one MPI: the Python that runs it, and the folder that it was built in."""

    python: Path
    folder: Path

    @property
    def tests(self) -> Path:
        """The folder of its tests."""
        return self.folder / "test"

    @property
    def variables(self) -> dict[str, str]:
        """Variables with which Python finds what was built."""
        (built,) = (self.folder / "build").glob("lib*")
        return {"PYTHONPATH": str(built), "PYTHONDONTWRITEBYTECODE": "1"}


def locked() -> str:
    """Return what tells one version of the tests from another."""
    return hashlib.sha256(_SOURCE.read_bytes() + _TOOLS.read_bytes()).hexdigest()


def built(mpi: Installation, folder: Path) -> Suite:
    """Return mpi4py for `mpi`, built below `folder` unless it is there."""
    python = _tools(folder / "tools")
    source = _source(folder / "source", python)
    # of another installation in the same place nothing is left
    identity = hashlib.sha256(f"{locked()} {mpi.mpicc} {mpi.compile_line}".encode()).hexdigest()
    target = folder / f"{mpi.library}-{mpi.release}-{identity[:8]}"
    if not (target / _COMPLETE).exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        # to compile takes a third of the time without optimisation, and the tests no longer
        variables = {"MPICC": str(mpi.mpicc), "CFLAGS": "-O0"} | mpi.launch_environment()
        _run(
            [python, "setup.py", "--quiet", "build"], "building mpi4py", _BUILD_S, variables, target
        )
        (target / _COMPLETE).touch()
    return Suite(python, target)


def _tools(target: Path) -> Path:
    """Return a Python that has what mpi4py is built and tested with."""
    python = target / "bin" / "python"
    if _is_complete(target):
        return python
    shutil.rmtree(target, ignore_errors=True)
    _run([sys.executable, "-m", "venv", target], "making an environment", _FETCH_S)
    _pip(python, ["install", "--only-binary=:all:"], _TOOLS)
    (target / _COMPLETE).write_text(locked(), encoding="utf-8")
    return python


def _source(target: Path, python: Path) -> Path:
    """Return the folder of the unpacked source package."""
    if not _is_complete(target):
        shutil.rmtree(target, ignore_errors=True)
        options = ["--no-binary=:all:", "--no-deps", "--no-build-isolation"]
        _pip(python, ["download", *options, "--dest", target], _SOURCE)
        for archive in target.glob("*.tar.gz"):
            with tarfile.open(archive) as opened:
                opened.extractall(target, filter="data")
        (target / _COMPLETE).write_text(locked(), encoding="utf-8")
    (source,) = (path for path in target.iterdir() if path.is_dir())
    return source


def _is_complete(target: Path) -> bool:
    marker = target / _COMPLETE
    return marker.is_file() and marker.read_text(encoding="utf-8") == locked()


def _pip(python: Path, words: Sequence[str | Path], lock: Path) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    locked: list[str | Path] = ["--require-hashes", "--requirement", lock]
    what = f"fetching what {lock.name} locks (is there a network, and an index for pip?)"
    _run([python, "-m", "pip", *words, *quiet, *locked], what, _FETCH_S)


def _run(
    command: Sequence[str | Path],
    what: str,
    timeout_s: float,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Run `command`."""
    others = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "PYTHONHOME")}
    environment = others | dict(variables or {})
    outcome = process.run(command, timeout_s=timeout_s, env=environment, cwd=folder)
    process.check(outcome, what)
