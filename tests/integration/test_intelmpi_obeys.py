"""A real Intel MPI takes every preset of the catalogue, has no others, and computes right.

It does not tell which algorithm runs; its own list and its own warnings are the evidence.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import library
from tests.integration.real import Real, installed

pytestmark = pytest.mark.mpi
INTEL = library("intelmpi")
VARIANTS = {
    "allreduce": ("inplace", "noncommutative"),
    "reduce": ("inplace", "noncommutative"),
    "allgather": ("inplace", "types"),
    "allgatherv": ("inplace", "types"),
    "alltoall": ("inplace", "types"),
    "gather": ("inplace", "null"),
    "scatter": ("inplace", "null"),
}
WARNING = "Incorrect algorithm"


@pytest.fixture(scope="module")
def intel(tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Return the Intel MPI under test, or skip the test with the reason."""
    return Real(installed("intelmpi"), tmp_path_factory.mktemp("intel"))


def calls(intel: Real, steps: list[str]) -> list[str | Path]:
    """Return the test program with its steps."""
    return [intel.compiled("calls.c"), *steps]


@pytest.mark.parametrize("collective", list(Collective))
def test_the_catalogue_has_the_presets_of_the_release(intel: Real, collective: Collective) -> None:
    """``impi_info`` names the same highest number."""
    variable = f"I_MPI_ADJUST_{collective.upper()}"
    info = intel.installation.mpirun.with_name("impi_info")
    asked = process.run([info, "-v", variable], timeout_s=60, env=intel.environment())
    told = re.search(r"range: 0-(\d+)", asked.stdout)
    assert told is not None
    release = intel.installation.release
    highest = INTEL.at(release).portfolio(collective).configurations[-1]
    assert INTEL.at(release).forced_environment(highest) == {variable: told[1]}
    beyond = Configuration("intelmpi", collective, str(int(told[1]) + 1))
    with pytest.raises(LibraryError, match="has no"):
        INTEL.at(release).canonical(beyond)


@pytest.mark.slow
@pytest.mark.parametrize("collective", list(Collective))
def test_every_preset_is_taken_and_right(intel: Real, collective: Collective) -> None:
    """No warning, right results at several sizes, and in programs with awkward arguments."""
    release = intel.installation.release
    sizes = (0,) if collective is Collective.BARRIER else (0, 8, 960, 20_000)
    steps = [f"{collective}:{size}:plain:{ranks}" for size in sizes for ranks in (4, 3)]
    steps += [f"{collective}:{s}:{v}" for v in VARIANTS.get(collective, ()) for s in (16, 4096)]
    for c in INTEL.at(release).portfolio(collective).configurations[1:]:
        outcome = intel.run(4, calls(intel, steps), INTEL.at(release).forced_environment(c))
        assert outcome.ok, f"{c.id}\n{outcome.explain()}"
        assert "WRONG" not in outcome.stderr, f"{c.id}\n{outcome.stderr}"
        assert WARNING not in outcome.stdout + outcome.stderr, c.id
        assert outcome.stderr.count("MARK") == len(steps)


def test_a_number_too_high_is_taken_for_another(intel: Real) -> None:
    """That is why the catalogue must be exact: the program ends well, after one line."""
    highest = INTEL.at(intel.installation.release).portfolio(Collective.BCAST).configurations[-1]
    (number,) = INTEL.at(intel.installation.release).forced_environment(highest).values()
    above = {"I_MPI_ADJUST_BCAST": str(int(number) + 1)}
    outcome = intel.run(2, calls(intel, ["bcast:64"]), above)
    assert outcome.ok
    assert WARNING in outcome.stdout + outcome.stderr


def test_the_default_is_left_alone(intel: Real) -> None:
    """Its environment is empty, and a launch shows no variable; a forced one shows exactly it."""
    release = intel.installation.release
    debug = {"I_MPI_DEBUG": "5"}
    for text in ("bcast.default", "bcast.preset3"):
        environment = INTEL.at(release).forced_environment(Configuration.parse(f"intelmpi.{text}"))
        outcome = intel.run(2, calls(intel, ["bcast:64"]), environment | debug)
        assert outcome.ok, outcome.explain()
        shown = re.findall(r"(I_MPI_ADJUST_\w+)=(\S+)", outcome.stdout + outcome.stderr)
        assert dict(shown) == environment
