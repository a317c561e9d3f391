"""Going through a campaign without running anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colltune.bench import campaign_file
from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launch_costs import LaunchCosts
from colltune.bench.launchers import Mpirun
from colltune.bench.progress import cells_of
from colltune.bench.rehearsal import rehearse
from colltune.bench.schedule import Cell
from colltune.cli.campaigns import planned_backend
from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    Shape,
    Synchronisation,
)
from colltune.mpi.installation import Installation

NODES, PPN, MSIZES = (1, 2, 4), (1, 4), (8, 1024)
ALGORITHMS = ("default", "a", "b")
CAMPAIGN = Campaign(
    (Collective.BCAST,),
    MSIZES,
    machine="m",
    nodes=NODES,
    ppn=PPN,
    total_s=100.0,
    max_reps=100,
    cell_s=0.5,
)


def _backend() -> ReplayBackend:
    measurements = [
        Measurement(
            Instance(Collective.BCAST, Shape(n, p), m),
            Configuration("openmpi", Collective.BCAST, a),
            "l",
            times_s=(1.0,),
        )
        for n in NODES
        for p in PPN
        for m in MSIZES
        for a in ALGORITHMS
    ]
    return ReplayBackend(PerformanceDataset.of(Context("m", "openmpi", "5.0.11"), measurements))


def _slow_large(cell: Cell) -> float:
    return 2.0 if cell.instance.msize_bytes == 1024 else 1e-3


def test_a_rehearsal_counts_cells_launches_and_hours() -> None:
    """Six shapes of six cells; one launch holds them all, and node-hours count its four nodes."""
    found = rehearse(CAMPAIGN, _backend(), lambda _cell: 1e-3, costs=LaunchCosts(2.0))
    assert (found.every.cells, found.launches_for_all) == (36, 1)
    assert found.every.expected_s == pytest.approx(36 * 0.1)
    assert found.every.worst_s == pytest.approx(36 * 0.5)
    assert {visited.shape for visited in found.launches} == {Shape(4, 4)}
    assert found.node_hours == pytest.approx(found.wall_s * 4 / 3600)
    assert found.left_out == found.skipped == ()


def test_without_subshapes_every_shape_has_its_launches() -> None:
    """Each shape is launched by itself, and occupies its own nodes only."""
    apart = CAMPAIGN.changed(subshapes=False)
    found = rehearse(apart, _backend(), lambda _cell: 1e-3, costs=LaunchCosts(2.0))
    assert found.launches_for_all == 6
    assert {visited.shape for visited in found.launches} == set(CAMPAIGN.shapes)
    hours = sum(v.wall_s * v.shape.nodes for v in found.launches) / 3600
    assert found.node_hours == pytest.approx(hours)


def test_what_the_budget_leaves_out_is_named() -> None:
    """A budget that is too small leaves cells out, and the launches stay within it."""
    small = CAMPAIGN.changed(total_s=20.0)
    found = rehearse(small, _backend(), _slow_large, costs=LaunchCosts(2.0))
    assert found.left_out
    assert {cell.instance.msize_bytes for cell in found.left_out} <= set(MSIZES)
    assert found.wall_s <= 20.0 + 2.0
    everything = {*found.left_out, *found.skipped}
    assert len(everything) == len(found.left_out) + len(found.skipped) < 36


def test_a_rehearsal_is_repeatable() -> None:
    """The same seed gives the same launches."""
    first, second = (
        rehearse(CAMPAIGN, _backend(), _slow_large, costs=LaunchCosts(2.0)) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_budget_for_some_launches_is_spent_on_some(share: float) -> None:
    """ReproMPI has a launch per configuration: too little time for all is enough for some."""
    nowhere = Path("mpirun")
    imagined = Installation("openmpi", "5.0.11", nowhere, nowhere, nowhere, "")
    backend = ReproMpiBackend(imagined, Mpirun(nowhere), nowhere, cores=8)
    campaign = replace(CAMPAIGN, nodes=(1,), ppn=(4,), max_reps=10)
    launches = len(backend.together(cells_of(campaign, backend, Shape(1, 4))))
    assert launches >= 10
    within = campaign.changed(total_s=share * 2.0 * launches)
    found = rehearse(within, backend, lambda _cell: 1e-3, costs=LaunchCosts(2.0))
    made = len(found.launches)
    assert share * launches - 1 <= made <= share * launches + 1
    assert found.wall_s <= 1.01 * within.budget_s
    left_out = {cell.configuration for cell in found.left_out}
    assert 0 < len(left_out) <= launches - made + 1
    assert not any(configuration.is_default for configuration in left_out)


@pytest.mark.parametrize("name", ["hydra", "jupiter", "supermuc-ng"])
def test_the_papers_campaigns_are_planned_for_reprompi(name: str) -> None:
    """Made small, every configuration of each is launched, in windows; the native one is beside."""
    folder = Path(__file__).parents[2] / "reprompi_configs"
    whole = campaign_file.load(folder / f"{name}-reprompi.toml")
    native = campaign_file.load(folder / f"{name}.toml")
    assert (whole.backend, whole.synchronisation) == ("reprompi", (Synchronisation.WINDOW,))
    shared = ("collectives", "nodes", "ppn", "msizes_bytes", "max_reps", "cell_s", "total_s")
    assert all(getattr(whole, field) == getattr(native, field) for field in shared)
    small = replace(whole, nodes=whole.nodes[:1], ppn=whole.ppn[:1], msizes_bytes=(16384,))
    small = replace(small, segsizes_bytes=(0, 4096), fanouts=(4,), total_s=900.0)
    backend = planned_backend(small, None)
    assert isinstance(backend, ReproMpiBackend)
    found = rehearse(small, backend, lambda _cell: 1e-4, costs=LaunchCosts(2.0))
    assert found.left_out == ()
    assert len(found.launches) >= 1
