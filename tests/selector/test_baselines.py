"""The baselines."""

from __future__ import annotations

from colltune.domain import Collective, Instance, Shape
from colltune.models.cells import cell_matrices
from colltune.selector.baselines import LibraryDefault, SingleBest, VirtualBest
from tests.models.machines import FORMULAS, configuration, measured

LARGE = Instance(Collective.BCAST, Shape(16, 4), 4194304)
SMALL = Instance(Collective.BCAST, Shape(16, 4), 1)


def test_library_default_never_decides() -> None:
    """The default baseline answers everything with the library's own decision."""
    for instance in (LARGE, SMALL):
        assert LibraryDefault("openmpi").select(instance).configuration == configuration("default")


def test_single_best_is_one_for_all() -> None:
    """Binomial, the best on average here, is the answer to every instance, best or not."""
    selector = SingleBest(cell_matrices(measured()), "openmpi")
    got = {selector.select(instance).configuration for instance in (LARGE, SMALL)}
    assert got == {configuration("binomial")}


def test_single_best_counts_a_missing_cell_as_the_default() -> None:
    """A configuration is not the better for having been measured only where it is fast."""

    def hard(algorithm: str, instance: Instance) -> bool:
        return algorithm == "scatter_allgather" and instance != LARGE

    cells = cell_matrices(measured(left_out=hard))
    assert SingleBest(cells, "openmpi").select(LARGE).configuration == configuration("binomial")


def test_virtual_best_knows_each_instance() -> None:
    """The oracle answers with what was measured fastest, and its measured time."""
    selector = VirtualBest(cell_matrices(measured()), "openmpi")
    for instance in (LARGE, SMALL):
        nprocs, msize = instance.shape.nprocs, instance.msize_bytes
        best = min(FORMULAS, key=lambda name: FORMULAS[name](nprocs, msize))
        selection = selector.select(instance)
        assert selection.configuration == configuration(best)
        assert selection.prediction is not None
        assert selection.prediction.time_s == FORMULAS[best](nprocs, msize)


def test_virtual_best_leaves_the_unknown_to_the_default() -> None:
    """What was never measured is left to the library."""
    selector = VirtualBest(cell_matrices(measured()), "openmpi")
    unknown = Instance(Collective.GATHER, Shape(3, 1), 5)
    selection = selector.select(unknown)
    assert selection.configuration == configuration("default", Collective.GATHER)
    assert selection.reason == "never measured"
