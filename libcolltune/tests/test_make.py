"""libcolltune stands alone: make builds, tests and installs it as colltune would compile it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from colltune.mpi import installation
from tests.integration.install import FOLDER
from tests.integration.real import Real, installed

# with the standard ABI of MPI 5; what is compiled for the first runs with the other, too
WITH_ABI = ("mpich-5.0.2", "intelmpi-2021.18.1")
CONFORMANCE = tuple(f"{name}.c" for name in ("conformance", "areas", "moves", "reductions"))
FORCED = "colltune.allreduce.ring:leaders=1;colltune.allgather.hierarchical:leaders=1"
# without allreduce: beside it the program checks reductions that MPICH itself gets wrong
IDS = (
    "colltune.bcast.hierarchical:groups=2,inner=binomial",
    "colltune.allgather.hierarchical:leaders=2,chunk=500",
    "colltune.alltoallv.eager_pairwise:threshold=40",
    "colltune.alltoallv.adaptive:every=2,start=0,tests=1",
)
RING = "MPIR_CVAR_BCAST_INTRA_ALGORITHM=scatter_ring_allgather"
pytestmark = [pytest.mark.mpi, pytest.mark.slow]
HOUSE = Path(__file__).parents[1]
ASK = """
import ctypes
version = ctypes.CDLL(None).colltune_version
version.restype = ctypes.c_char_p
print(version().decode())
"""


def make(folder: Path, *words: str, mpi: Real | None = None) -> str:
    """Run make for an MPI, with its results in `folder`; return what it prints."""
    if not shutil.which("make"):
        pytest.skip("no make on PATH")
    mpi = mpi or Real(installed(), folder)
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
    told = make(tmp_path, "test", mpi=Real(installed(library), tmp_path))
    checked = r"checked \d+ allgathers, \d+ allreduces"
    held = (r"\d+ right, 0 wrong", checked, r"\d+ sums held", "thresholds held")
    assert all(re.search(f"^{line}$", told, re.M) for line in held)


def test_flags_are_those_of_colltune() -> None:
    """Whoever compiles it, the library is the same."""
    told = make(Path("none"), "--dry-run", "none/libcolltune.so").split()
    words = {w for w in told if w.startswith("-")} - {"-p", "-C", "-o", "-Iinclude", "-Isrc"}
    mapped = "-Wl,--version-script=src/exported.map"
    assert words == {*build._LIBRARY.flags, *build._LIBRARY.linked, mapped}


@pytest.fixture(scope="module")
def of_abi(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Real]:
    """Return MPIs with the standard ABI, and the library that is built once, by the first."""
    folder, found = tmp_path_factory.mktemp("abi"), {}
    for name in WITH_ABI:
        mpirun = FOLDER / name / "bin" / "mpirun"
        if not mpirun.exists():
            pytest.skip(f"{mpirun} is not there; python -m tests.integration.install brings it")
        found[name] = Real(installation.find(str(mpirun), None), folder)
    make(folder, "abi", "all", mpi=found[WITH_ABI[0]])
    return found


def by_abi(mpi: Real, folder: Path) -> Real:
    """Return an MPI whose programs are compiled for its library with the ABI."""
    mpicc = mpi.installation.mpicc.with_name("mpicc_abi")
    return Real(dataclasses.replace(mpi.installation, mpicc=mpicc), folder)


@pytest.mark.parametrize("name", WITH_ABI)
def test_one_build_serves_all_with_the_standard_abi(of_abi: dict[str, Real], name: str) -> None:
    """The same program and library run with another MPI, and every result is right."""
    mpi, first = of_abi[name], of_abi[WITH_ABI[0]]
    compiled, ours = by_abi(first, first.folder).compiled, str(mpi.folder / "libcolltune-abi.so")
    settings = {"COLLTUNE_NODES": "by-rank:2", "COLLTUNE_FORCE": FORCED}
    for command in (
        [compiled(*CONFORMANCE), "ours", *IDS],
        [compiled("hierarchical.c"), "1", "10"],
    ):
        outcome = mpi.run(3, command, settings, preload=ours)
        assert outcome.ok, outcome.explain()
        (held,) = re.findall(r"^(?:checked )?(\d+) (?:checks held|allg)", outcome.stdout, re.M)
        assert int(held) >= 10
        assert "colltune: " not in outcome.stderr


def test_algorithms_of_the_library_are_steered_through_the_abi(of_abi: dict[str, Real]) -> None:
    """Control variables choose MPICH's own algorithms, as without the ABI."""
    mpi = of_abi[WITH_ABI[0]]
    program = by_abi(mpi, mpi.folder).compiled("steers.c")
    ours = mpi.folder / "libcolltune-abi.so"
    outcome = mpi.run(2, [program, "many", RING], preload=str(ours))
    assert outcome.ok, outcome.explain()
    assert outcome.stdout.endswith("all right\n")
    assert "colltune: " not in outcome.stderr


@pytest.mark.parametrize(("library", "has_abi"), [("", True), ("-abi", False)])
def test_handles_of_the_other_kind_are_left_alone(
    of_abi: dict[str, Real], library: str, has_abi: bool, tmp_path: Path
) -> None:
    """A library for MPICH stays out of its programs with the ABI, and the other way round."""
    mpi = Real(of_abi[WITH_ABI[0]].installation, tmp_path)
    program = (by_abi(mpi, tmp_path) if has_abi else mpi).compiled("timed_calls.c")
    ours = of_abi[WITH_ABI[0]].folder / f"libcolltune{library}.so"
    forced = {"COLLTUNE_FORCE": IDS[0]}
    outcome = mpi.run(2, [program, "bcast:64:2:3"], forced, preload=str(ours))
    assert outcome.ok, outcome.explain()
    assert len(re.findall("^colltune: this libcolltune", outcome.stderr, re.M)) == 1
