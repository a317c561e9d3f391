"""What of a choice stays after it was measured again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.mpi import library
from colltune.selector.confirming import ContestedInstance
from colltune.tune.job import TunedJob, without_same

BCAST, SHAPE = Collective.BCAST, Shape(1, 4)
CHAIN = Configuration("openmpi", BCAST, "chain")
DEFAULT = Configuration.default("openmpi", BCAST)
SIZES = (4, 64, 1024, 16384)
WHOLE = Interval(0, 1 << 20, CHAIN)
JOB = TunedJob(SHAPE, SIZES, library("openmpi").at("5.0.11"))
WHEN = "2026-11-22T10:00:00+00:00"


def test_what_no_measurement_proved_is_withdrawn() -> None:
    """A choice that was only predicted is given back, what was confirmed or left is not."""
    confirmed = replace(WHOLE, status=Status.CONFIRMED)
    left = Interval(0, None, DEFAULT)
    rules: dict[tuple[Collective, int], tuple[Interval, ...]]
    rules = {(BCAST, SHAPE.nprocs): (confirmed, left, WHOLE)}
    found = JOB.unproven(DecisionTable("openmpi", SHAPE, rules), WHEN)
    (only,) = found
    assert (only.configuration, only.proposed, only.launches) == (DEFAULT, CHAIN, 0)
    assert (only.first_bytes, only.last_bytes) == (0, 1 << 20)
    assert only.reason == "withdrawn: not measured again, so no proof that it is faster"


def test_what_the_library_does_by_itself_is_left_to_it() -> None:
    """The range around a size where the default is the chosen algorithm is not written."""
    instances = JOB.instances(BCAST, WHOLE)
    parts = without_same(DEFAULT, WHOLE, instances, instances[:2])
    assert [(p.first_bytes, p.last_bytes, p.configuration) for p in parts] == [
        (0, 255, DEFAULT),
        (256, 1 << 20, CHAIN),
    ]
    assert parts[0].reason == "the default runs this algorithm by itself"
    assert without_same(DEFAULT, WHOLE, instances, []) == [WHOLE]


def test_what_is_left_to_the_library_stays_so() -> None:
    """An interval of the default is not split."""
    left = Interval(0, None, DEFAULT)
    instances = JOB.instances(BCAST, left)
    assert without_same(DEFAULT, left, instances, instances) == [left]


@pytest.mark.parametrize(("first", "last", "sizes"), [(0, 64, [4, 64]), (65, None, [1024, 16384])])
def test_the_grid_is_what_lies_inside(first: int, last: int | None, sizes: list[int]) -> None:
    """Both ends of an interval belong to it."""
    found = JOB.instances(BCAST, Interval(first, last, CHAIN))
    assert found == [Instance(BCAST, SHAPE, size) for size in sizes]


def test_how_far_the_default_was_seen_to_run_alike() -> None:
    """As far as the same function ran at the end of a range; what was not seen may be another."""
    at = Instance(BCAST, SHAPE, 1024)
    contest = ContestedInstance(at, DEFAULT, (CHAIN,), 256, 4095, 1.2, 1e-5)
    first, last = (replace(at, msize_bytes=size) for size in (256, 4088))
    assert {256, 4088} <= set(JOB.ends(SIZES))
    assert JOB.alike(contest, {at: "f", first: "f", last: "f"}) == (256, 4095)
    assert JOB.alike(contest, {at: "f", first: "g", last: "f"}) == (1024, 4095)
    assert JOB.alike(contest, {at: "f", first: "f"}) == (256, 1024)
    assert JOB.alike(contest, {first: "f", last: "f"}) == JOB.alike(contest, {}) == (1024, 1024)
    smallest = replace(contest, instance=replace(at, msize_bytes=4), first_bytes=0, last_bytes=15)
    eight = replace(at, msize_bytes=8)
    assert JOB.alike(smallest, {smallest.instance: "f", eight: "f"}) == (4, 15)
