"""Programs are compiled once, and what others could have put into the cache is never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from colltune.bench import build
from colltune.errors import OutputError, ProgramError
from colltune.mpi import trace
from colltune.mpi.installation import Installation
from tests.refusals import refused

COMPILER = """#!/bin/sh
echo compiled >> "${0%/*}/log"
while [ "$1" != -o ]; do shift; done
echo honest > "$2"
"""
Compile = Callable[[Path], Path]


@pytest.fixture
def mpicc(entered: Path) -> Path:
    """Return a compiler that notes when it is run."""
    program = entered / "mpicc"
    program.write_text(COMPILER)
    program.chmod(0o755)
    return program


def _with(mpicc: Path) -> Installation:
    return Installation("openmpi", "5.0.11", mpicc, mpicc, mpicc, "")


@pytest.fixture(params=["collbench", "canary", "libcolltune", "simbench", "tracer"])
def compiled(
    request: pytest.FixtureRequest, mpicc: Path, monkeypatch: pytest.MonkeyPatch
) -> Compile:
    """Return a function that returns the program in a cache."""
    monkeypatch.setattr(trace, "unavailable", lambda: "")
    monkeypatch.setattr(trace, "_exported", lambda _libmpi: ["MPI_Bcast"])
    ways: dict[str, Compile] = {
        "collbench": lambda cache: build.native_benchmark(_with(mpicc), cache),
        "canary": lambda cache: build.canary(_with(mpicc), cache),
        "libcolltune": lambda cache: build.interposed_library(_with(mpicc), cache),
        "simbench": lambda cache: build.simulated_benchmark(mpicc, "", cache, own=True),
        "tracer": lambda cache: trace.build(_with(mpicc), cache),
    }
    return ways[request.param]


def test_a_program_is_compiled_once(compiled: Compile, mpicc: Path, entered: Path) -> None:
    """The second use takes what is there."""
    program = compiled(entered / "cache")
    assert compiled(entered / "cache") == program
    assert program.read_text() == "honest\n"
    assert (mpicc.parent / "log").read_text() == "compiled\n"


def test_a_cache_that_others_can_write_is_refused(compiled: Compile, entered: Path) -> None:
    """Whatever lies there; the folder and the mend are named."""
    cache = entered / "cache"
    planted = compiled(cache)
    planted.write_text("planted")
    cache.chmod(0o777)
    with refused("could-be-changed", OutputError):
        compiled(cache)


def test_a_planted_program_is_not_run(compiled: Compile, entered: Path) -> None:
    """One that others can write is compiled anew."""
    cache = entered / "cache"
    planted = compiled(cache)
    cache.chmod(0o755)
    planted.write_text("planted")
    planted.chmod(0o777)
    assert compiled(cache).read_text() == "honest\n"


def test_a_failing_compiler_is_told(mpicc: Path, entered: Path) -> None:
    """With the program that was to be made, and what the compiler said."""
    mpicc.write_text("#!/bin/sh\necho no such flag >&2; exit 1\n")
    with pytest.raises(ProgramError, match=r"compiling canary .*(?s:.*)no such flag"):
        build.canary(_with(mpicc), entered / "cache")
