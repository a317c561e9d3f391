"""What two bundles decide differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import BundleError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.selector.argmin import ModelSelector
from colltune.selector.bundle_diff import BundleDiff, diff
from tests.models.machines import CONTEXT, FORMULAS, measured
from tests.refusals import refused

BOTH = (Collective.ALLREDUCE, Collective.BCAST)
SHAPES = (Shape(4, 1), Shape(16, 4))


@pytest.fixture(scope="module")
def old() -> Bundle:
    """Return a bundle of a release that no catalogue knows, of bcast."""
    return fit(measured_elsewhere("before"), "knn")


@pytest.fixture(scope="module")
def new() -> Bundle:
    """Return a bundle of bcast and allreduce that knows one algorithm less."""
    return fit(
        measured_elsewhere("before", algorithms=list(FORMULAS)[:-1], collectives=BOTH), "knn"
    )


def measured_elsewhere(library: str, **options: Any) -> PerformanceDataset:
    """Return measurements of a library that colltune has no catalogue of."""
    data = measured(**options)
    return replace(data, context=replace(CONTEXT, library=library))


def test_equal_bundles_do_not_differ(old: Bundle) -> None:
    """A bundle compared with itself changes nothing anywhere."""
    found = diff(old, old)
    assert (found.changes, found.shapes) == ((), old.training_shapes)
    assert found.extents[Collective.BCAST].share == 0.0


def test_the_ranges_are_exact(old: Bundle, new: Bundle) -> None:
    """Inside a range the selectors choose what it says, outside they agree; to the byte."""
    found = diff(old, new, SHAPES)
    assert {c.shape for c in found.changes if c.collective is Collective.BCAST} == set(SHAPES)
    for shape in SHAPES:
        ranges = [c for c in found.changes if (c.shape, c.collective) == (shape, "bcast")]
        for change in ranges:
            assert chosen(old, new, shape, change.first_bytes) == (change.old, change.new)
            assert change.last_bytes is not None
            assert chosen(old, new, shape, change.last_bytes) == (change.old, change.new)
            if change.first_bytes:
                assert chosen(old, new, shape, change.first_bytes - 1) != (change.old, change.new)
            assert chosen(old, new, shape, change.last_bytes + 1) != (change.old, change.new)
        for size in (0, 1, 5, 700, 30_000, 262_144, 10**6, 4_194_304, 8_388_608, 8_388_609, 10**9):
            differs = len(set(chosen(old, new, shape, size))) > 1
            within = [c for c in ranges if c.first_bytes <= size <= (c.last_bytes or size)]
            assert bool(within) == differs


def chosen(
    old: Bundle, new: Bundle, shape: Shape, size: int
) -> tuple[Configuration, Configuration]:
    """Return what both bundles choose for a bcast."""
    instance = Instance(Collective.BCAST, shape, size)
    before, after = (ModelSelector(b).select(instance).configuration for b in (old, new))
    return before, after


def test_times_are_those_of_the_models(old: Bundle, new: Bundle) -> None:
    """Either bundle's prediction in the middle of the range is told, None where it has none."""
    found = diff(old, new, SHAPES, [Collective.BCAST])
    assert set(found.extents) == {Collective.BCAST}
    lost = [c for c in found.changes if c.old.algorithm == "scatter_allgather"]
    assert lost
    for change in lost:
        assert change.first_bytes <= change.at_bytes
        shape, model = change.shape, old.model(Collective.BCAST)
        for configuration, told in (
            (change.old, change.by_old.old_s),
            (change.new, change.by_old.new_s),
        ):
            times_s = model.forecast(shape.nodes, shape.ppn, change.at_bytes).time_s[0]
            assert told == pytest.approx(times_s[model.configurations.index(configuration)])
        assert change.by_old.ratio is not None
        assert change.by_old.ratio < 1.0
        assert (change.by_new.old_s, change.by_new.ratio) == (None, None)
        assert change.by_new.new_s is not None


def test_a_collective_that_one_lacks_is_left_to_the_library_by_it(old: Bundle, new: Bundle) -> None:
    """What only the new bundle decides is compared with the default, and the other way round."""
    forth, back = (diff(*pair, SHAPES, [Collective.ALLREDUCE]) for pair in ((old, new), (new, old)))
    assert forth.changes
    assert all(c.old.is_default and not c.new.is_default for c in forth.changes)
    assert [(c.new, c.old) for c in back.changes] == [(c.old, c.new) for c in forth.changes]
    assert share(forth) == share(back) > 0.0


def share(found: BundleDiff) -> float:
    """Return how much of allreduce changed."""
    return found.extents[Collective.ALLREDUCE].share


def test_what_a_release_could_not_run_is_no_change() -> None:
    """Decisions are those of a file for the release: what it has no algorithm for is not chosen."""
    known = measured(algorithms={"default", "binomial"})
    unknown = replace(known, frame=known.frame.replace("binomial", "teleport"))
    nothing = fit(measured(algorithms={"default"}), "knn")
    assert diff(nothing, fit(known, "knn")).changes
    assert diff(nothing, fit(unknown, "knn")).changes == ()


def test_libraries_are_not_compared(old: Bundle) -> None:
    """Configurations of different libraries have nothing to do with each other."""
    with refused("libraries-differ", BundleError, libraries="before, openmpi"):
        diff(old, fit(measured(), "knn"))
