"""Which cells the full grid visits, and when."""

from __future__ import annotations

import random

import pytest

from colltune.bench.schedule import Cell
from colltune.bench.strategies import Visited
from colltune.bench.strategies.full_grid import REFINE, SURVEY, full_grid
from colltune.bench.strategies.protocol import CampaignState
from colltune.domain import Collective, Configuration, Instance, Shape

SHAPE = Shape(1, 2)
NAMES = ("default", "fast", "slow")
CELLS = tuple(
    Cell(Configuration("openmpi", Collective.BCAST, name), Instance(Collective.BCAST, SHAPE, 8))
    for name in NAMES
)
TIMES_S = {0: (1e-5,) * 20, 1: (1e-5,) * 20, 2: (2.0, 2.1)}


@pytest.mark.parametrize(
    ("launch_s", "surveys", "what", "visited"),
    [(1.0, 1, SURVEY, {2}), (1.0, 2, REFINE, {0, 1}), (40.0, 1, REFINE, {0, 1})],
)
def test_what_was_timed_twice_is_surveyed_once_more(
    launch_s: float, surveys: int, what: str, visited: set[int]
) -> None:
    """Also if it is far from the best, but not for ever, and not if a launch is dear."""
    history = (Visited(SURVEY, SHAPE, 10.0),) * surveys
    state = CampaignState(CELLS, TIMES_S, frozenset(), history, 100.0, launch_s, 500, 0.5, SHAPE)
    visit = full_grid(state, random.Random(0))
    assert visit is not None
    assert (visit.what, {step.cell for step in visit.steps}) == (what, visited)
