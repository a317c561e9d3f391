"""Left-out allocations and other machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import TIME_COLUMNS, join
from colltune.domain import Context
from colltune.evaluation.folds import Source, SplitError
from colltune.evaluation.splits import LeaveAllocationOut, Transfer
from tests.models.machines import measured


def launched(name: str, factor: float, **changes: object) -> PerformanceDataset:
    """Return the made-up machine, measured in the launch `name`, slower by `factor`."""
    data = measured(**changes)  # type: ignore[arg-type]
    times = {c: data.frame[c] * factor for c in TIME_COLUMNS}
    frame = data.frame.assign(launch=name, **times)
    frame["times_s"] = [()] * len(data)
    return replace(data, frame=frame)


def on_machine(
    data: PerformanceDataset, machine: str, library: str = "openmpi"
) -> PerformanceDataset:
    """Return the data as of another machine."""
    return replace(data, context=Context(machine, library, "5.0.8"))


def test_a_launch_is_tested_on_its_own_times() -> None:
    """Training holds medians over the other launches, testing the left-out launch's times."""
    parts = [launched("a", 1.0), launched("b", 2.0), launched("c", 4.0)]
    found = LeaveAllocationOut().folds(Source(join(parts)))
    assert [f.name for f in found] == ["launch a", "launch b", "launch c"]
    times = Source(parts[0]).matrices[found[0].collective].time_s
    for fold, tested, trained in zip(found, (1, 2, 4), (3, 2.5, 1.5), strict=True):
        np.testing.assert_allclose(fold.testing.time_s, tested * times)
        np.testing.assert_allclose(fold.training.time_s, trained * times)


def test_launches_of_one_allocation_are_left_out_together() -> None:
    """Where launches share an allocation, the allocation is the fold."""
    parts = [launched("a", 1.0), launched("b", 2.0), launched("c", 4.0)]
    source = Source(join(parts), {"a": "monday", "b": "monday", "c": "friday"})
    found = LeaveAllocationOut().folds(source)
    assert [f.name for f in found] == ["friday", "monday"]
    np.testing.assert_allclose(found[0].training.time_s * 4 / 1.5, found[0].testing.time_s)


def test_a_single_launch_cannot_be_left_out() -> None:
    """With one launch the error asks for another."""
    with pytest.raises(SplitError, match="at least 2 launches, and the data has 1"):
        LeaveAllocationOut().folds(Source(measured()))


def test_launches_without_a_default_have_nothing_to_decide() -> None:
    """A launch that measured no default beside another configuration is no fold."""
    parts = [
        launched("a", 1.0, algorithms=("default",)),
        launched("b", 1.0, algorithms=("linear", "binomial")),
    ]
    with pytest.raises(SplitError, match="no launch measured a default"):
        LeaveAllocationOut().folds(Source(join(parts)))


def test_transfer_trains_on_one_machine_and_tests_on_another() -> None:
    """All of the data is learned, all of the test data is decided."""
    other = on_machine(measured(nodes=(3, 5), msizes=(8, 16)), "other")
    split = Transfer(other)
    (fold,) = split.folds(Source(measured()))
    assert fold.name == "other"
    assert set(fold.training.nodes.tolist()) == {2, 4, 8, 16}
    assert set(fold.testing.nodes.tolist()) == {3, 5}
    assert split.options()["test_data"] == "other, openmpi 5.0.8"


@pytest.mark.parametrize(
    ("machine", "library", "message"),
    [
        ("other", "mpich", "different libraries"),
        ("made-up", "openmpi", "transfer is between two machines"),
    ],
)
def test_transfer_needs_another_machine_with_the_same_library(
    machine: str, library: str, message: str
) -> None:
    """The same context, or another library, is refused."""
    source = measured()
    other = replace(source, context=Context(machine, library, "4.1.4"))
    with pytest.raises(SplitError, match=message):
        Transfer(other).folds(Source(source))


def test_transfer_needs_a_common_collective() -> None:
    """Without a default on the other machine nothing can be scored."""
    other = on_machine(measured(algorithms=("linear", "binomial")), "other")
    with pytest.raises(SplitError, match="no collective was measured in made-up"):
        Transfer(other).folds(Source(measured()))
