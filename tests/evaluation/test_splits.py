"""Which instances a split trains on and tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import TIME_COLUMNS, join
from colltune.domain import Collective, Instance
from colltune.evaluation.folds import Fold, FoldSource, SplitError, digest
from colltune.evaluation.splits import (
    Extrapolation,
    LeaveAllocationOut,
    LeaveNodesOut,
    LeavePpnOut,
    MaskSplit,
    MessageSizes,
    NodeCounts,
)
from tests.models.machines import measured
from tests.refusals import refused

NODES = (2, 3, 4, 8, 16, 32)


def folds(split: MaskSplit, **changes: Any) -> list[Fold]:
    """Return the folds of the made-up machine."""
    return split.folds(FoldSource(measured(**({"nodes": NODES} | changes))))


def counts(found: list[Fold], axis: str = "nodes") -> list[tuple[list[int], list[int]]]:
    """Return the values trained on and tested of each fold."""
    return [
        tuple(sorted({int(n) for n in getattr(cells, axis)}) for cells in (f.training, f.testing))  # type: ignore[misc]
        for f in found
    ]


def test_every_node_count_is_left_out_once() -> None:
    """Each fold tests one node count and trains on all others; instances are tested once."""
    found = folds(LeaveNodesOut())
    assert counts(found) == [([m for m in NODES if m != n], [n]) for n in NODES]
    assert sum(len(f.testing) for f in found) == len(NODES) * 2 * 6


def test_every_ppn_is_left_out_once_or_those_asked_for() -> None:
    """Leaving ppn out tests each ppn, or only the ones named."""
    every = counts(folds(LeavePpnOut(), ppn=(1, 4, 8)), "ppn")
    assert every == [([4, 8], [1]), ([1, 8], [4]), ([1, 4], [8])]
    assert counts(folds(LeavePpnOut((8,)), ppn=(1, 4, 8)), "ppn") == [([1, 4], [8])]


def test_extrapolation_tests_the_larger_node_counts(subtests: pytest.Subtests) -> None:
    """The upper third, so many, or all above a number are tested; the smaller ones are trained."""
    for split, tested in (
        (Extrapolation(), [16, 32]),
        (Extrapolation(largest=1), [32]),
        (Extrapolation(above=4), [8, 16, 32]),
    ):
        with subtests.test(split=split, tested=tested):
            assert counts(folds(split)) == [([n for n in NODES if n not in tested], tested)]


def test_halves_of_message_sizes_are_tested_once_each() -> None:
    """Every size is tested in one fold and trained on in the other, by the seed alone."""
    first, second = counts(folds(MessageSizes(seed=3)), "msize_bytes")
    assert first == second[::-1]
    assert len(first[0]) == len(first[1]) == 3
    assert [first, second] == counts(folds(MessageSizes(seed=3)), "msize_bytes")


def test_only_instances_with_a_choice_are_tested() -> None:
    """Without a measured default, or with nothing else, an instance tests nothing."""

    def left_out(algorithm: str, instance: Instance) -> bool:
        if instance.msize_bytes == 1:
            return algorithm == "default"
        return instance.msize_bytes == 64 and algorithm != "default"

    found = folds(LeaveNodesOut(), left_out=left_out)
    assert {int(m) for f in found for m in f.testing.msize_bytes} == {1024, 16384, 262144, 4194304}
    assert {int(m) for f in found for m in f.training.msize_bytes} >= {1, 64}


def test_noise_is_on_what_is_learned_alone_and_the_same_in_all_folds() -> None:
    """Training times are noisy by the seed, one draw per cell; tested times are as measured."""
    source = FoldSource(measured(nodes=NODES), train_noise=0.1, seed=5)
    first, second, *_ = LeaveNodesOut().folds(source)
    clean, _, *_ = LeaveNodesOut().folds(FoldSource(measured(nodes=NODES)))
    np.testing.assert_array_equal(first.testing.time_s, clean.testing.time_s)
    assert 0.05 < np.log(first.training.time_s / clean.training.time_s).std() < 0.2
    both = [f.training.rows(np.isin(f.training.nodes, NODES[2:])) for f in (first, second)]
    np.testing.assert_array_equal(both[0].time_s, both[1].time_s)


def test_data_that_do_not_allow_a_split_are_described(subtests: pytest.Subtests) -> None:
    """The error names the split, what it needs, and what the data has."""
    for split, changes, code in (
        (LeaveNodesOut(), {"nodes": (4,)}, "no-folds split=leave-nodes-out"),
        (Extrapolation(), {"nodes": (4, 8)}, "no-folds split=extrapolation"),
        (Extrapolation(above=32), {}, "no-folds split=extrapolation"),
        (Extrapolation(largest=1, above=3), {}, "exclusive one=--largest other=--above"),
        (Extrapolation(largest=0), {}, "too-small name=--largest value=0"),
        (LeavePpnOut(), {"ppn": (4,)}, "no-folds split=leave-ppn-out"),
        (LeavePpnOut((9,)), {}, "not-in-data option=--ppn missing=9"),
        (MessageSizes(), {"msizes": (1, 2, 3)}, "no-folds split=message-sizes"),
        (LeaveNodesOut(), {"algorithms": ("linear", "binomial")}, "no-folds"),
        (LeaveNodesOut(), {"algorithms": ("default",)}, "no-folds"),
        (NodeCounts((2,), (2, 3)), {}, "trained-and-tested nodes=2"),
    ):
        with (
            subtests.test(split=split, changes=changes, code=code),
            refused(code, SplitError),
        ):
            folds(split, **changes)


def test_collectives_without_enough_node_counts_take_no_part() -> None:
    """A collective on two node counts is passed over; the other is evaluated."""

    def left_out(algorithm: str, instance: Instance) -> bool:
        return instance.collective is Collective.BCAST and instance.shape.nodes > 3

    both = (Collective.ALLREDUCE, Collective.BCAST)
    found = folds(LeaveNodesOut(), collectives=both, left_out=left_out)
    assert {f.collective for f in found} == {Collective.ALLREDUCE}


def test_digest_is_of_content_not_of_order() -> None:
    """Reordered rows have the same digest, another time has another."""
    data = measured()
    shuffled = replace(data, frame=data.frame.sort_values("time_s"))
    other = measured(noise=0.01)
    assert digest(shuffled) == digest(data) != digest(other)


def launched(name: str, factor: float, **changes: object) -> PerformanceDataset:
    """Return the made-up machine, measured in the launch `name`, slower by `factor`."""
    data = measured(**changes)  # type: ignore[arg-type]
    times = {c: data.frame[c] * factor for c in TIME_COLUMNS}
    frame = data.frame.assign(launch=name, **times)
    frame["times_s"] = [()] * len(data)
    return replace(data, frame=frame)


def test_a_launch_is_tested_on_its_own_times() -> None:
    """Training holds medians over the other launches, testing the left-out launch's times."""
    parts = [launched("a", 1.0), launched("b", 2.0), launched("c", 4.0)]
    found = LeaveAllocationOut().folds(FoldSource(join(parts)))
    assert [f.name for f in found] == ["launch a", "launch b", "launch c"]
    times = FoldSource(parts[0]).matrices[found[0].collective].time_s
    for fold, tested, trained in zip(found, (1, 2, 4), (3, 2.5, 1.5), strict=True):
        np.testing.assert_allclose(fold.testing.time_s, tested * times)
        np.testing.assert_allclose(fold.training.time_s, trained * times)


def test_launches_of_one_allocation_are_left_out_together() -> None:
    """Where launches share an allocation, the allocation is the fold."""
    parts = [launched("a", 1.0), launched("b", 2.0), launched("c", 4.0)]
    source = FoldSource(join(parts), {"a": "monday", "b": "monday", "c": "friday"})
    found = LeaveAllocationOut().folds(source)
    assert [f.name for f in found] == ["friday", "monday"]
    np.testing.assert_allclose(found[0].training.time_s * 4 / 1.5, found[0].testing.time_s)


def test_what_launches_need_is_told(subtests: pytest.Subtests) -> None:
    """One launch, and no default: each is named."""
    no_default = [
        launched("a", 1.0, algorithms=("default",)),
        launched("b", 1.0, algorithms=("linear", "binomial")),
    ]
    for split, data, code in (
        (LeaveAllocationOut(), measured(), "few-launches count=1"),
        (LeaveAllocationOut(), join(no_default), "no-launch-to-leave-out"),
    ):
        with subtests.test(code=code), refused(code, SplitError):
            split.folds(FoldSource(data))
