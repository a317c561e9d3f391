"""libcolltune stands alone: make builds, tests and installs it as colltune would compile it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from tests.integration.real import Real, installed

pytestmark = [pytest.mark.mpi, pytest.mark.slow]
HOUSE = Path(__file__).parents[1]
ASK = """
import ctypes
version = ctypes.CDLL(None).colltune_version
version.restype = ctypes.c_char_p
print(version().decode())
"""


def make(folder: Path, *words: str, library: str = "openmpi") -> str:
    """Run make for an MPI, with its results in `folder`; return what it prints."""
    if not shutil.which("make"):
        pytest.skip("no make on PATH")
    mpi = Real(installed(library), folder)
    start = " ".join([str(mpi.installation.mpirun), *mpi.crowded])
    facts = (f"BUILD={folder}", f"MPICC={mpi.installation.mpicc}", f"MPIEXEC={start}")
    command: list[str | Path] = ["make", "-C", HOUSE, *facts, *words]
    outcome = process.run(command, timeout_s=300.0, env=mpi.environment())
    return process.check(outcome, " ".join(words)).stdout


def test_it_is_built_installed_and_tells_its_version(tmp_path: Path) -> None:
    """What is installed loads into programs without MPI, with the version of the header."""
    make(tmp_path / "build", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    header = (tmp_path / "usr/include/colltune_rules.h").read_text(encoding="utf-8")
    preload = {"LD_PRELOAD": str(tmp_path / "usr/lib/libcolltune.so")}
    told = process.run([sys.executable, "-c", ASK], env=os.environ | preload, timeout_s=60.0)
    versions = re.findall(r'LIBCOLLTUNE_VERSION "(\d+\.\d+\.\d+)"', header)
    assert process.check(told, "asking for the version").stdout.split() == versions


@pytest.mark.parametrize("library", ["openmpi", "mpich", "intelmpi"])
def test_its_own_tests_pass(library: str, tmp_path: Path) -> None:
    """`make test` needs an MPI and a compiler only, and checks each of its algorithms."""
    told = make(tmp_path, "test", library=library)
    held = (r"\d+ right, 0 wrong", r"checked \d+ allgathers, \d+ allreduces", "thresholds held")
    assert all(re.search(f"^{line}$", told, re.M) for line in held)


def test_flags_are_those_of_colltune() -> None:
    """Whoever compiles it, the library is the same."""
    told = make(Path("none"), "--dry-run", "none/libcolltune.so").split()
    words = {w for w in told if w.startswith("-")} - {"-p", "-C", "-o", "-Iinclude", "-Isrc"}
    mapped = "-Wl,--version-script=src/exported.map"
    assert words == {*build._LIBRARY.flags, *build._LIBRARY.linked, mapped}
