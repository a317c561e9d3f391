"""Across (emulated) nodes, too, a real Open MPI runs what is said: coll/han and its parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.differential_nodes import CALLS, NodesComparison, scenarios
from tests.integration.real_mpi import on_request, prepare
from tests.integration.virtual_nodes import Namespaces, skip_without

pytestmark = [pytest.mark.mpi, pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesComparison]:
    """Return the comparison on emulated nodes, or skip with the reason."""
    skip_without()
    on_request("COLLTUNE_TEST_MPI")
    folder = tmp_path_factory.mktemp("nodes")
    mpi = prepare(folder)
    with Namespaces("launcher") as spaces:
        yield NodesComparison(mpi, spaces, folder)


@pytest.mark.parametrize("number", range(len(scenarios("5.0.11"))))
def test_what_ran_is_what_was_said(real: NodesComparison, number: int) -> None:
    """Owner, algorithm, fall-back, parameters and inner calls of two hundred calls agree."""
    found = real.run(scenarios(real.release)[number])
    assert found.disagreements == ()
    assert found.compared == CALLS
    assert found.decided > CALLS * 0.3
