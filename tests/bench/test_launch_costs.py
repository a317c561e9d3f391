"""What launches cost, learned from those that were made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.bench.launch_costs import LaunchCost, LaunchCosts


def _costs(*seen: LaunchCost, given_s: float | None = None) -> LaunchCosts:
    costs = LaunchCosts(1.0, given_s)
    for cost in seen:
        costs.learn(cost)
    return costs


def test_what_is_guessed_told_and_seen() -> None:
    """A guess gives way to what the user says, and that to what launches took."""
    assert _costs().seconds(4) == 1.0
    assert not _costs().known(4)
    assert _costs(given_s=3.0).seconds(4) == 3.0
    assert _costs(given_s=3.0).known(4)
    many = [LaunchCost(4, 0.5)] * 8
    assert _costs(*many, given_s=3.0).seconds(4) == 0.5


@given(st.floats(0.1, 600))
def test_launches_that_are_killed_find_any_cost(start_s: float) -> None:
    """Each has twice the time of the one before, so that no cost takes more than a few launches."""
    costs, tried = _costs(), 0
    while not costs.known(2):
        granted_s = costs.seconds(2)
        costs.learn(LaunchCost(2, min(granted_s, start_s), cut=granted_s < start_s))
        tried += 1
    assert tried <= 11
    assert costs.seconds(2) == pytest.approx(start_s)
    assert costs.longest_cut_s < start_s


def test_one_launch_that_was_killed_does_not_outweigh_those_that_ran() -> None:
    """A censored observation among many counts as one; where most are killed, it rules."""
    ran = [LaunchCost(2, 1.0)] * 3
    assert _costs(*ran, LaunchCost(2, 5.0, cut=True)).seconds(2) == 1.0
    killed = [LaunchCost(2, 5.0, cut=True)] * 3
    assert _costs(ran[0], *killed).seconds(2) == 10.0


def test_every_number_of_nodes_has_its_own_cost() -> None:
    """Where none was launched on as many nodes, the nearest number tells."""
    costs = _costs(LaunchCost(2, 1.0), LaunchCost(64, 7.0))
    assert [costs.seconds(n) for n in (1, 2, 4, 32, 128)] == [1.0, 1.0, 1.0, 7.0, 7.0]
    assert costs.known(64)
    assert not costs.known(32)
