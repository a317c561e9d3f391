"""What a real Open MPI runs with random files and variables is what `decide` says, every time."""

from __future__ import annotations

import pytest

from tests.integration.openmpi_scenarios import (
    SMALL_WORLD,
    WORLDS,
    Comparison,
    Scenario,
    comparison,
    scenarios,
)
from tests.integration.random_parameters import KINDS, Kind
from tests.integration.real_mpi import on_request

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Return the comparison on the MPI under test, or skip with the reason."""
    on_request("COLLTUNE_TEST_MPI")
    return comparison(tmp_path_factory.mktemp("differential"))


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda s: str(s.name))
def test_what_ran_is_what_was_said(real: Comparison, scenario: Scenario) -> None:
    """Function, fall-back, parameters and errors of every one of over a hundred calls agree."""
    found = real.run(scenario)
    assert found.disagreements == ()
    assert found.compared > WORLDS[scenario.world] * 0.8
    has_a_say = scenario.forced or (scenario.activated and not real.parse(scenario).dropped)
    assert (found.decided > found.compared * 0.2) is bool(has_a_say)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: str(k.name))
@pytest.mark.parametrize("seed", [0, 1])
def test_parameter_files_say_what_runs(real: Comparison, kind: Kind, seed: int) -> None:
    """Files of both kinds, alone and with the rules file that they name."""
    found = real.run_parameters(kind, seed)
    assert found.disagreements == ()
    assert found.compared > WORLDS[SMALL_WORLD] * 0.8
    assert found.decided > found.compared * 0.2
