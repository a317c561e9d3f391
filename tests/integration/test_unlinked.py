"""libcolltune without a need of MPI's library, as a site preloads it in whole steps."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from tests.integration.real import TIMEOUT_S, Real, installed

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def unlinked(each: Real) -> Real:
    """Return each MPI of this machine, with the library that sites preload."""
    return replace(each, preload=str(build.unlinked_library(each.installation)))


def _is_silent(outcome: process.ProcessResult, folder: Path) -> None:
    assert outcome.ok, outcome.explain()
    assert "colltune" not in outcome.stderr
    assert list(folder.iterdir()) == []


def test_a_program_without_mpi_loads_none(unlinked: Real) -> None:
    """It has our library, and no part of MPI, also where all symbols are looked up at once."""
    for bind in ("", "1"):
        settings = {"LD_PRELOAD": unlinked.preload, "LD_BIND_NOW": bind}
        told = process.run(
            ["cat", "/proc/self/maps"], timeout_s=TIMEOUT_S, env=unlinked.environment(settings)
        )
        assert told.ok, told.explain()
        assert Path(unlinked.preload).name in told.stdout
        assert "libmpi" not in told.stdout


@pytest.mark.parametrize("bind", ["", "1"])
def test_a_program_that_loads_mpi_itself_is_recorded(
    unlinked: Real, tmp_path: Path, bind: str
) -> None:
    """Where MPI comes later and for a part of the program alone, its calls are counted."""
    library = unlinked.compiled("plugin.c", options=("-O2", "-fPIC", "-shared"))
    program = unlinked.compiled("loads.c", options=("-Wl,--as-needed",))
    settings = {"COLLTUNE_RECORD": str(tmp_path), "LD_BIND_NOW": bind}
    outcome = unlinked.run(2, [program, library], settings)
    assert outcome.ok, outcome.explain()
    assert "colltune" not in outcome.stderr
    (written,) = tmp_path.glob("*.profile")
    counts = {
        row.split()[1]: row.split()[6]
        for row in written.read_text().splitlines()
        if row.startswith("row ")
    }
    assert counts == {"allreduce": "40", "bcast": "40", "barrier": "2"}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what sites preload, and what users do, for each MPI of this machine."""
    found = [mpi for mpi in map(_found, ("openmpi", "mpich", "intelmpi")) if mpi]
    made = (build.unlinked_library, build.interposed_library)
    return [str(library(mpi)) for mpi in found for library in made]


def _found(library: str) -> Installation | None:
    try:
        return installation.find(None, library)
    except ProgramError:
        return None


def test_calls_that_end_a_function_come_to_their_mpi(each: Real, libraries: list[str]) -> None:
    """Each function of ours, called by a jump, in a program without MPI, under each library."""
    plugin = each.compiled("tails.c", options=("-O2", "-fPIC", "-shared"))
    host = each.compiled("tail_host.c", options=("-Wl,--as-needed",))
    for library in ("", *libraries):
        outcome = each.run(2, [host, plugin], preload=library)
        assert (outcome.ok, outcome.stdout) == (True, ""), outcome.explain()


def test_functions_that_an_mpi_lacks_are_not_offered(each: Real, libraries: list[str]) -> None:
    """A program that asks is told the same; references that found ours run with counts that fit."""
    program = each.compiled("weak.c")
    without = each.run(2, [program], preload="")
    assert without.stdout.startswith("right"), without.explain()
    for library in libraries:
        outcome = each.run(2, [program], preload=library)
        assert (outcome.ok, outcome.stdout) == (True, without.stdout), outcome.explain()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="has code for x86-64")
def test_code_of_no_library_calls_its_mpi(each: Real, libraries: list[str]) -> None:
    """As compilers at run time make it, under each library."""
    program = each.compiled("code.c", options=("-Wl,--as-needed",))
    for library in ("", *libraries):
        outcome = each.run(2, [program, each.installation.libmpi], preload=library)
        # the launcher may put the second rank's line into the first one's
        said = outcome.stdout.replace("\n", "")
        assert (outcome.ok, said) == (True, "right" * 2), outcome.explain()


def test_two_mpis_in_one_process_run_as_without(
    libraries: list[str], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Each call comes to the one that its own library is linked to, and nothing is recorded."""
    plugins = []
    for name in ("openmpi", "mpich"):
        mpi = Real(installed(name), tmp_path_factory.mktemp(name))
        options = ("-O0", "-fPIC", "-shared")
        plugins.append(mpi.compiled("plugin.c", options=options))
    host = mpi.compiled("loads.c", options=("-Wl,--as-needed",))
    for library in ("", *libraries):
        settings = {"COLLTUNE_RECORD": str(tmp_path), "LD_PRELOAD": library}
        for order in (plugins, plugins[::-1]):
            outcome = process.run(
                [host, *order], timeout_s=TIMEOUT_S, env=mpi.environment(settings)
            )
            _is_silent(outcome, tmp_path)


def test_another_mpi_runs_as_without(
    unlinked: Real, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """A program of another MPI than the library's runs, and nothing is recorded."""
    others = {"openmpi": "mpich", "mpich": "openmpi"}
    found = installed(others[unlinked.installation.library])
    other = Real(found, tmp_path_factory.mktemp("other"), unlinked.preload)
    program = other.compiled("profiled.c")
    _is_silent(other.run(2, [program, "many", "20"], {"COLLTUNE_RECORD": str(tmp_path)}), tmp_path)
