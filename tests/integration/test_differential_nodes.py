"""Across (emulated) nodes, too, a real Open MPI runs what is said: coll/han and its parts."""

from __future__ import annotations

import pytest

from tests.integration.differential_nodes import CALLS, NodesComparison, scenarios
from tests.integration.real import RealMpi, on_request
from tests.integration.virtual_nodes import Namespaces

pytestmark = [pytest.mark.mpi, pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def real(
    spaces: Namespaces, mpi: RealMpi, tmp_path_factory: pytest.TempPathFactory
) -> NodesComparison:
    """Return the comparison on emulated nodes, or skip with the reason."""
    on_request("COLLTUNE_TEST_MPI")
    return NodesComparison(mpi, spaces, tmp_path_factory.mktemp("nodes"))


@pytest.mark.parametrize("number", range(len(scenarios("5.0.11"))))
def test_what_ran_is_what_was_said(real: NodesComparison, number: int) -> None:
    """Owner, algorithm, fall-back, parameters and inner calls of two hundred calls agree."""
    found = real.run(scenarios(real.release)[number])
    assert found.disagreements == ()
    assert found.compared == CALLS
    assert found.decided > CALLS * 0.3
