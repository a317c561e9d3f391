"""What a real Open MPI runs with random files and variables is what `decide` says, every time."""

from __future__ import annotations

import pytest

from colltune.domain import Collective
from colltune.mpi.openmpi.decide import decide
from colltune.mpi.rules import Call
from tests.integration.differential_openmpi import Request
from tests.integration.openmpi_scenarios import (
    SMALL_WORLD,
    WORLDS,
    Comparison,
    Scenario,
    comparison,
    scenarios,
)
from tests.integration.random_parameters import KINDS, Kind
from tests.integration.real import on_request
from tests.mpi.component_choices import STARTABLE, UNSTARTABLE

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
    if scenario.name.startswith("components"):
        return  # they may leave coll/tuned out
    has_a_say = scenario.forced or (scenario.activated and not real.parse(scenario).dropped)
    assert (found.decided > found.compared * 0.2) is bool(has_a_say)


@pytest.mark.parametrize("variable", [*UNSTARTABLE, *STARTABLE], ids="=".join)
def test_programs_start_if_they_are_said_to(real: Comparison, variable: tuple[str, str]) -> None:
    """MPI_Init fails with exactly those choices of components that are told to make it fail."""
    mpi, job = real.bench.mpi, dict((variable,))
    said = decide(mpi.release, Call(Collective.BARRIER, 2, 0), job).ends_program
    outcome = mpi.call(2, ["barrier:0"], job)
    assert outcome.ok is (not said), outcome.explain()
    assert bool(said) is (variable in UNSTARTABLE)


def test_an_exscan_of_one_process_crashes_in_basic(real: Comparison) -> None:
    """It is the only call that does."""
    bench = real.bench
    job = {"OMPI_MCA_coll_basic_priority": "95"}
    for collective in Collective:
        call = Call(collective, 1, 64)
        said = decide(bench.mpi.release, call, job).ends_program
        assert bool(said) is (collective is Collective.EXSCAN)
        if not said:
            assert bench.perform(1, [Request(call)], job)
    with pytest.raises(AssertionError):
        bench.perform(1, [Request(Call(Collective.EXSCAN, 1, 64))], job)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: str(k.name))
@pytest.mark.parametrize("seed", [0, 1])
def test_parameter_files_say_what_runs(real: Comparison, kind: Kind, seed: int) -> None:
    """Files of both kinds, alone and with the rules file that they name."""
    found = real.run_parameters(kind, seed)
    assert found.disagreements == ()
    assert found.compared > WORLDS[SMALL_WORLD] * 0.8
    assert found.decided > found.compared * 0.2
