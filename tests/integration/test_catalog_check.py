"""The catalogues agree with the MPI libraries that are installed here."""

from __future__ import annotations

import os

import pytest

from colltune.errors import ProgramError
from colltune.mpi import LIBRARIES, installation_facts
from colltune.mpi.installation import find_launcher
from colltune.mpi.installation_facts import DifferenceKind
from tests.cli.conftest import Verb, colltune  # noqa: F401 (a fixture)
from tests.integration.install import VARIABLES

pytestmark = pytest.mark.mpi


def named(library: str) -> str:
    """Return the launcher of an installed MPI, or skip the test with the reason."""
    try:
        return str(find_launcher(os.environ.get(VARIABLES[library]), library).mpirun)
    except ProgramError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("library", VARIABLES)
def test_the_installed_release_agrees(colltune: Verb, library: str) -> None:  # noqa: F811
    """Nothing differs between the catalogue and what the installation tells; the status is 0."""
    answer = colltune("rules", "catalog", "--check", "--mpi", named(library), "--json")
    assert answer.json["differences"] == []
    assert answer.status == 0


@pytest.mark.parametrize("library", VARIABLES)
def test_another_series_differs(colltune: Verb, library: str) -> None:  # noqa: F811
    """The oldest or the newest catalogue does not fit the installation, and status 1 tells so."""
    mpirun = named(library)
    series = LIBRARIES[library].series
    statuses = [
        colltune("rules", "catalog", f"{library}@{each}", "--check", "--mpi", mpirun).status
        for each in (series[0], series[-1])
    ]
    assert 1 in statuses


def test_every_name_has_the_number_that_the_library_gives_it() -> None:
    """MPICH is asked for the number of each name, and tells one for every catalogued algorithm."""
    launcher = find_launcher(named("mpich"), "mpich")
    known = LIBRARIES["mpich"].catalogue_of(launcher.release)
    found = installation_facts.INSPECTORS["mpich"](launcher, known)
    for collective, entry in known.collectives.items():
        told = found.algorithms[collective]
        assert {a.number: a.value or a.name for a in entry.algorithms} == told


def test_a_priority_set_in_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user or the site has set is a difference, told with who set it."""
    mpirun = named("openmpi")
    monkeypatch.setenv("OMPI_MCA_coll_tuned_priority", "77")
    (difference,) = installation_facts.check(mpirun, "openmpi").differences
    assert difference.kind is DifferenceKind.OTHER_PRIORITY
    assert difference.here == "priority 77 (set: environment)"
