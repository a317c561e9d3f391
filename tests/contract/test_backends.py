"""What every benchmark backend must fulfil."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from colltune.bench.backends import BACKENDS, Backend, Means
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Mpirun
from colltune.bench.schedule import Cell
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import DataError
from colltune.mpi.installation import Installation

METHODS = [
    name
    for name, member in vars(Backend).items()
    if inspect.isfunction(member) and not name.startswith("_")
]
RECORDED = Path(__file__).parents[1] / "data" / "small_cluster.csv"
CAMPAIGN = Campaign((Collective.BCAST,), (64, 4096), nodes=(1,), ppn=(2, 4))
BINOMIAL = "openmpi.bcast.binomial:segsize=0"


def made(name: str) -> Backend:
    """Return a backend made for planning: none of its programs is there."""
    nowhere = Path("mpirun")
    imagined = Installation("openmpi", "5.0.11", nowhere, nowhere, nowhere, "")
    means = Means(lambda: imagined, lambda _found: Mpirun(nowhere), RECORDED, imagined=True)
    return BACKENDS[name].made_for(CAMPAIGN, means)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
def test_methods_take_what_the_protocol_says(name: str, method: str) -> None:
    """Callers may name the arguments."""
    found, wanted = getattr(BACKENDS[name], method), getattr(Backend, method)
    assert list(inspect.signature(found).parameters) == list(inspect.signature(wanted).parameters)


@pytest.mark.parametrize("name", BACKENDS)
def test_the_name_is_that_of_the_class(name: str) -> None:
    """The registry's key, as it stands in campaign files, names the class."""
    assert f"{name}backend" == BACKENDS[name].__name__.lower()
    assert isinstance(BACKENDS[name].measures_subshapes, bool)


@pytest.mark.parametrize("name", BACKENDS)
def test_it_can_be_made_for_a_campaign(name: str) -> None:
    """It knows whose times it measures, and guesses what a launch costs before there is one."""
    backend = made(name)
    assert backend.context("cluster").library in {"openmpi", name}
    assert backend.launch_s >= 0


@pytest.mark.parametrize("name", BACKENDS)
def test_the_portfolio_is_what_the_campaign_asks_for(name: str) -> None:
    """The default is always there; globs leave out others."""
    backend = made(name)
    every = backend.portfolio(CAMPAIGN, Collective.BCAST).configurations
    default = Configuration.default(backend.context("cluster").library, Collective.BCAST)
    assert default in every
    assert len(every) == len(set(every)) > 2
    binomial = next(c for c in every if c.id == BINOMIAL or c.algorithm == "binomial_tree")
    few = backend.portfolio(CAMPAIGN.changed(only=(binomial.id,)), Collective.BCAST).configurations
    assert set(few) == {default, binomial}


@pytest.mark.parametrize("name", BACKENDS)
def test_together_leaves_no_cell_out(name: str) -> None:
    """Every cell is in one group, with cells of its own shape unless smaller ones are measured."""
    backend = made(name)
    cells = [
        Cell(configuration, Instance(Collective.BCAST, shape, msize_bytes))
        for configuration in backend.portfolio(CAMPAIGN, Collective.BCAST).configurations[:4]
        for shape in (Shape(1, 2), Shape(1, 4))
        for msize_bytes in (64, 4096)
    ]
    groups = backend.together(cells)
    assert sorted(map(cells.index, sum(groups, ()))) == list(range(len(cells)))
    if not backend.measures_subshapes:
        assert all(len({cell.instance.shape for cell in group}) == 1 for group in groups)


@pytest.mark.parametrize("name", BACKENDS)
def test_nothing_is_salvaged_from_an_empty_folder(name: str, tmp_path: Path) -> None:
    """A launch that was killed before it wrote anything leaves nothing, or one clear error."""
    try:
        assert made(name).salvage(tmp_path) == ()
    except DataError as error:
        assert str(tmp_path) in str(error)  # noqa: PT017 (both are right)
