"""The smallest possible time on a network, and the fewest repetitions."""

from __future__ import annotations

from dataclasses import replace

from colltune.dataset.noise.measured import enough, possible
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape

DEFAULT = Configuration.default("openmpi", Collective.BCAST)
ROUND_TRIP_S = 4e-3


def _measured(shape: Shape, *times_s: float) -> Measurement:
    return Measurement(Instance(Collective.BCAST, shape, 8), DEFAULT, "l", times_s=times_s)


def test_only_what_crosses_the_network_can_be_too_fast() -> None:
    """The median counts; one node, and an unknown network, have no smallest time."""
    over = _measured(Shape(2, 1), 1e-6, 2.1e-3, 2.2e-3)
    below = _measured(Shape(3, 2), 4e-5, 4e-5, 2.1e-3)
    within = _measured(Shape(1, 4), 4e-5)
    assert possible([over, within], ROUND_TRIP_S) == (over, within)
    (found,) = possible([below], ROUND_TRIP_S)
    assert (found.status, found.times_s, found.summary) == (RunStatus.TOO_FAST, (), None)
    assert possible([below], None) == (below,)


def test_two_repetitions_are_no_measurement() -> None:
    """They keep their times; of what has only a summary the number is not known."""
    two, three = (_measured(Shape(1, 4), *[4e-5] * n) for n in (2, 3))
    summarised = replace(two, times_s=())
    found = enough([two, three, summarised])
    assert [m.status for m in found] == [RunStatus.TOO_FEW, RunStatus.OK, RunStatus.OK]
    assert found[0].times_s == two.times_s
