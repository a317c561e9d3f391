"""What runtimes prove where nothing else can be seen."""

from __future__ import annotations

import math

import pytest

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.verify.alternating import Gain
from colltune.verify.gains import Forced, Timed, assessed
from colltune.verify.rule_status import RuleStatus

SHAPE = Shape(1, 4)


def _gain(ratio: float, spread: float = 1.05) -> Gain:
    return Gain(ratio, ratio / spread, ratio * spread, 7, 7 if ratio > 1 else 0)


@pytest.mark.parametrize(
    ("file", "forced", "status"),
    [
        (_gain(1.8), _gain(1.9), RuleStatus.APPLIED),
        (_gain(0.5), _gain(0.45), RuleStatus.APPLIED),
        (_gain(1.01), _gain(1.9), RuleStatus.IGNORED),
        (_gain(1.35), _gain(1.9), RuleStatus.UNOBSERVED),
        (_gain(1.1), _gain(1.1), RuleStatus.UNOBSERVED),
        (_gain(1.9), _gain(1.9, spread=2.5), RuleStatus.UNOBSERVED),
        (_gain(1.9), Gain(1.9, math.nan, math.nan, 4, 4), RuleStatus.UNOBSERVED),
    ],
)
def test_only_clear_differences_prove_something(
    file: Gain, forced: Gain, status: RuleStatus
) -> None:
    """Forcing must change the time clearly; then the file does so, too, or does not."""
    assessment = assessed(Timed(file, forced))
    assert assessment.status is status
    assert assessment.why


def test_few_launches_force_many_rules() -> None:
    """One configuration per collective and launch; what does not fit, or is unknown, is left."""
    small, large = (Instance(Collective.BCAST, SHAPE, size) for size in (8, 8192))
    binomial = Configuration.parse("mpich.bcast.binomial")
    ring = Configuration.parse("mpich.bcast.scatter_ring_allgather")
    unknown = Configuration.parse("mpich.bcast.nonsense")
    wanted = [(small, binomial), (large, ring), (small, unknown)]
    forced = Forced.of("mpich", "4.0.2", wanted[:2])
    assert forced.side_of == {small: 0, large: 1}
    assert [e["MPIR_CVAR_BCAST_INTRA_ALGORITHM"] for e in forced.environments] == [
        "binomial",
        "scatter_ring_allgather",
    ]
    assert Forced.of("mpich", "4.0.2", wanted[2:]) == Forced()
