"""The native benchmark across (emulated) nodes that MPI itself takes for nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.backends import Ending, LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.launchers import launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Configuration, Instance, RunStatus, Shape, Synchronisation
from tests.integration.real import installed
from tests.integration.virtual_nodes import Inside, Namespaces, openmpi_hosts

pytestmark = [pytest.mark.mpi, pytest.mark.root]
LAUNCHED = Shape(3, 2)


@pytest.fixture(scope="module")
def across(spaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> NativeBackend:
    """Return a backend that launches on three emulated nodes."""
    found = installed("openmpi")
    if not found.release.startswith("5.0."):
        pytest.skip(f"nodes are emulated for Open MPI 5.0, not {found.release}")
    hosts = openmpi_hosts(tmp_path_factory.mktemp("hosts"), ["na", "nb", "nc"], slots=2)
    options = (*hosts, "--oversubscribe")
    return NativeBackend(found, launcher=Inside(launcher_of(found), spaces, options))


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize("sync", Synchronisation)
def test_all_shapes_of_an_allocation_are_measured(
    across: NativeBackend, tmp_path: Path, sync: Synchronisation, side_by_side: bool
) -> None:
    """Shapes of one to three nodes, in forced and default configurations, in one launch."""
    names = (
        "openmpi.bcast.default",
        "openmpi.bcast.pipeline:segsize=1024",
        "openmpi.reduce.default",
    )
    cells = tuple(
        Cell(configuration, Instance(configuration.collective, Shape(nodes, ppn), 4096))
        for nodes in (1, 2, 3)
        for ppn in (1, 2)
        if nodes * ppn > 1
        for configuration in map(Configuration.parse, names)
    )
    steps = tuple(ScheduleStep(i, 3, 600.0) for i in range(len(cells)))
    plan = LaunchPlan(LAUNCHED, cells, steps, 600.0, sync, side_by_side)
    result = across.run(plan, "l", tmp_path, lambda _: None)
    assert result.ending is Ending.PLAN, result.message
    told = [(m.status, len(m.times_s)) for m in result.measurements]
    # nodes that share processors take long for a round trip, so that a time may be below its half
    across_nodes = {(RunStatus.OK, 3), (RunStatus.TOO_FAST, 0)}
    for cell, found in zip(cells, told, strict=True):
        assert found in (across_nodes if cell.instance.shape.nodes > 1 else {(RunStatus.OK, 3)})
    hosts = [result.facts[f"node.{i}"] for i in range(3)]
    assert hosts == ["na, 2 processes", "nb, 2 processes", "nc, 2 processes"]
