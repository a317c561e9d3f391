"""Allocations of launches."""

from __future__ import annotations

import pytest

from colltune.dataset.noise import AllocationSource, allocations_of
from colltune.errors import DataError


def test_provenance_tells_the_allocation() -> None:
    """A launch belongs to the allocation that it recorded; one that recorded none is its own."""
    facts = {"a": {"allocation": "job 1"}, "b": {"allocation": "job 1"}, "c": {}}
    told = allocations_of(["a", "b", "c", "a"], facts)
    assert told.by_launch["a"] == told.by_launch["b"] == "job 1"
    assert told.by_launch["c"] not in ("job 1", "")
    assert told.sources == {AllocationSource.PROVENANCE: 2, AllocationSource.ASSUMED: 1}


def test_the_importing_machine_is_no_allocation() -> None:
    """What a machine imported was not measured in its allocation."""
    facts = {name: {"allocation": "laptop", "imported_from": "x.csv"} for name in "ab"}
    told = allocations_of("ab", facts)
    assert len(set(told.by_launch.values())) == 2
    assert told.sources == {AllocationSource.ASSUMED: 2}


def test_pattern_tells_it_from_the_name() -> None:
    """The first group, or all that matches, names the allocation, whatever was recorded."""
    facts = {"j1/0": {"allocation": "x"}}
    launches = ["j1/0", "j1/1", "j2/0"]
    assert allocations_of(launches, facts, "([^/]*)/").by_launch["j1/1"] == "j1"
    assert set(allocations_of(launches, facts, r"j\d").by_launch.values()) == {"j1", "j2"}


@pytest.mark.parametrize(
    ("pattern", "message"), [("([", "regular expression"), ("j1", "does not match.*'j2/0'")]
)
def test_bad_patterns_are_named(pattern: str, message: str) -> None:
    """A malformed pattern, or one that does not match a launch, is refused."""
    with pytest.raises(DataError, match=message):
        allocations_of(["j1/0", "j2/0"], {}, pattern)
