"""A real SimGrid: right and wrong algorithms, the same digits again, our own algorithms."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.backends import Ending, LaunchPlan
from colltune.bench.backends.smpi import ALGORITHMS, TESTED, SimGrid, SmpiBackend
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.bench.simulated import Simulation
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.errors import ProgramError

pytestmark = pytest.mark.mpi
SHAPE = Shape(8, 2)
LATENCY_S = 5e-6
FLAT = Simulation(latency_us=LATENCY_S * 1e6, checked_bytes=1 << 20)


@pytest.fixture(scope="module")
def simgrid() -> SimGrid:
    """Return the installed SimGrid, or skip with the reason."""
    try:
        return SimGrid.find()
    except ProgramError as error:
        pytest.skip(str(error).splitlines()[0])


def times(
    simgrid: SimGrid, wanted: list[str], sizes: list[int], folder: Path
) -> dict[tuple[str, int], float | RunStatus]:
    """Simulate configurations, by id, on the shape; return times or statuses."""
    configurations = [Configuration.parse(text) for text in wanted]
    cells = tuple(Cell(c, Instance(c.collective, SHAPE, m)) for c in configurations for m in sizes)
    steps = tuple(ScheduleStep(i, 1, 1.0) for i in range(len(cells)))
    backend = SmpiBackend(FLAT, simgrid)
    result = backend.run(LaunchPlan(SHAPE, cells, steps, 120.0), "l", folder, lambda _: None)
    assert result.ending is Ending.PLAN, result.message
    return {
        (m.configuration.id, m.instance.msize_bytes): m.times_s[0] if m.times_s else m.status
        for m in result.measurements
    }


def test_wrong_algorithms_are_not_timed(simgrid: SimGrid, tmp_path: Path) -> None:
    """A result is compared with what it should be; one that cannot be is not believed either."""
    broken = "smpi.bcast.mvapich2_inter_node"
    seen = times(simgrid, ["smpi.bcast.default", broken], [8, 1 << 20], tmp_path)
    assert [seen[broken, size] for size in (8, 1 << 20)] == [RunStatus.WRONG_RESULT] * 2
    default_s = seen["smpi.bcast.default", 8]
    assert isinstance(default_s, float)
    # the farthest process of a tree is at least two links away
    assert default_s >= 2 * LATENCY_S


def test_the_same_digits_come_out_again(simgrid: SimGrid, tmp_path: Path) -> None:
    """Two simulations of the same cells agree to the last digit."""
    ids = ["smpi.allreduce.default", "smpi.allreduce.rdb", "smpi.allreduce.lr"]
    runs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        runs.append(times(simgrid, ids, [8, 8192], tmp_path / name))
    assert runs[0] == runs[1]
    assert len(set(runs[0].values())) > 4


def test_our_own_algorithms_run_in_it(simgrid: SimGrid, tmp_path: Path) -> None:
    """A hierarchical broadcast beats its flat self where latency rules, and leaves nothing."""
    ring = "colltune.bcast.hierarchical:groups={},inner=scatter_ring_allgather"
    ids = [ring.format(1), ring.format(4)]
    seen = times(simgrid, ids, [8, 1024], tmp_path)
    for size in (8, 1024):
        flat_s, grouped_s = (seen[name, size] for name in ids)
        assert isinstance(flat_s, float)
        assert isinstance(grouped_s, float)
        assert grouped_s < flat_s
    assert {file.name for file in tmp_path.iterdir()} == {"cells.json", "raw-0.txt", "raw-1.txt"}


def test_what_is_planned_is_what_is_there(simgrid: SimGrid) -> None:
    """The algorithms known without SimGrid are those that the tried release tells."""
    if simgrid.release != TESTED:
        pytest.skip(f"SimGrid {simgrid.release}, not {TESTED}")
    campaign = Campaign((Collective.BCAST,), (8,))
    backend = SmpiBackend(FLAT, simgrid)
    for collective in (Collective.BCAST, Collective.REDUCE_SCATTER):
        portfolio = backend.portfolio(campaign, collective)
        names = [c.algorithm for c in portfolio.configurations if not c.is_default]
        assert sorted(names) == sorted(ALGORITHMS[collective])
