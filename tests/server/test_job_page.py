"""A job's configuration as the page offers it."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, render, selector_for
from colltune.selector.decision_table import intervals
from colltune.server.job_page import JobView, job_view
from tests.models.machines import measured

SLOT = "openmpi-4.1.4"


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of two collectives for Open MPI 4.1.4."""
    return fit(measured(collectives=(Collective.ALLREDUCE, Collective.BCAST)), "knn")


def viewed(
    bundle: Bundle, nodes: int, ppn: int, release: str = "4.1.4", named: str | None = None
) -> JobView:
    """Return what the page shows for a job."""
    target = Target.named(named or "openmpi", release)
    selector = selector_for(bundle, target)
    return job_view(
        selector,
        SLOT,
        render(selector, Shape(nodes, ppn), target),
        {} if named is None else {"format": named},
    )


def test_variables_name_the_file_in_a_folder_to_be_filled_in(bundle: Bundle) -> None:
    """Environment and command line say the same, with a mark where the folder stands."""
    view = viewed(bundle, 8, 4)
    rules = f"@folder@/{view.files[0].name}"
    assert view.environment["OMPI_MCA_coll_tuned_dynamic_rules_filename"] == rules
    assert view.command[:4] == ("mpirun", "--mca", "coll_tuned_use_dynamic_rules", "1")
    assert rules in view.command
    assert len(view.command) == 1 + 3 * len(view.environment)


def test_other_launchers_take_variables_by_genv() -> None:
    """MPICH's and Intel MPI's mpiexec set variables by -genv, Open MPI's those of others by -x."""
    assert LIBRARIES["mpich"].command({"MPIR_X": "1"}) == ("mpiexec", "-genv", "MPIR_X", "1")
    assert LIBRARIES["openmpi"].command({"UCX_TLS": "rc"}) == ("mpirun", "-x", "UCX_TLS=rc")


def test_intervals_are_those_of_the_file(bundle: Bundle) -> None:
    """Each collective's intervals cover all messages and hold what the table says."""
    view = viewed(bundle, 8, 4)
    assert [one.name for one in view.collectives] == ["allreduce", "bcast"]
    for one in view.collectives:
        assert one.intervals[0].first_bytes == 0
        assert one.intervals[-1].last_bytes is None
        for before, after in zip(one.intervals, one.intervals[1:], strict=False):
            assert before.last_bytes == after.first_bytes - 1
    used = [i for i in view.collectives[1].intervals if not i.is_default]
    assert used
    assert all(i.gain is not None and i.gain > 1 and "faster" in i.reason for i in used)


def test_gains_are_those_that_select_prints(bundle: Bundle) -> None:
    """The page, `select` and a report tell one predicted gain of a range: that at its middle."""
    selector = ModelSelector(bundle)
    shown = viewed(bundle, 8, 4).collectives[1].intervals
    printed = intervals(selector, Collective.BCAST, Shape(8, 4))
    by_range = {(i.first_bytes, i.last_bytes): i for i in printed if i.gain is not None}
    same = [i for i in shown if (i.first_bytes, i.last_bytes) in by_range]
    assert same
    for interval in same:
        found = by_range[interval.first_bytes, interval.last_bytes]
        assert interval.gain == pytest.approx(found.gain, rel=1e-3)
        assert interval.reason == found.reason


def test_a_measured_shape_needs_no_warning(bundle: Bundle) -> None:
    """Nothing is to be said against a shape that was measured."""
    assert viewed(bundle, 8, 4).warnings == ()


def test_unmeasured_shapes_and_other_releases_are_warned_of(bundle: Bundle) -> None:
    """Between what was measured, outside it, and for another release the page says so."""
    assert any("itself was not measured for" in text for text in viewed(bundle, 5, 4).warnings)
    assert any("outside the measured shapes" in text for text in viewed(bundle, 40, 4).warnings)
    assert any("measured with 4.1.4" in t for t in viewed(bundle, 8, 4, "4.1.8").warnings)


def test_far_away_everything_is_left_to_the_library(bundle: Bundle) -> None:
    """A job without communicators that anything is known of needs no file, and is told why."""
    assert viewed(bundle, 8, 4).changes_anything
    assert not viewed(bundle, 1, 1).changes_anything
    far = viewed(bundle, 5000, 4)
    assert all(i.is_default for one in far.collectives for i in one.intervals)
    assert all("far from" in i.reason for one in far.collectives for i in one.intervals)
