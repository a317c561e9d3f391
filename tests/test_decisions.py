"""What a selection tells."""

from __future__ import annotations

from colltune.decisions import Prediction, Selection
from colltune.domain import Collective, Configuration, Instance, Shape


def test_gain_of_the_default_is_one() -> None:
    """A selection's gain compares predictions, and is 1 where nothing is changed or known."""
    instance = Instance(Collective.BCAST, Shape(1, 2), 8)
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    default = Configuration.default("openmpi", Collective.BCAST)
    fast, slow = Prediction(1.0, 0.9, 1.1), Prediction(2.0, 1.9, 2.1)
    assert Selection(instance, chain, fast, slow, (), False, "").gain == 2.0
    assert Selection(instance, default, slow, slow, (), False, "").gain == 1.0
    assert Selection(instance, chain, fast, None, (), False, "").gain == 1.0
