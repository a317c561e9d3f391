"""Arms of jobs: shares, and that they stay."""

from __future__ import annotations

from collections import Counter

import pytest

from colltune.production.arms import Arm, ArmShares, arm_of

_JOBS = [str(number) for number in range(1000, 21000)]


@pytest.mark.parametrize(
    "split",
    [
        ArmShares(0.05),
        ArmShares(0.05, 0.05),
        ArmShares(0.05, 0.25),
        ArmShares(0.3, 0.7),
        ArmShares(0.05, 1.0),
    ],
)
def test_arms_have_their_shares(split: ArmShares) -> None:
    """Of 20,000 jobs each arm gets its share, and control goes before candidate."""
    found = Counter(arm_of("hydra", job, split) for job in _JOBS)
    candidate = min(split.candidate, 1 - split.control)
    shares = {Arm.CONTROL: split.control, Arm.CANDIDATE: candidate}
    shares[Arm.TUNED] = 1 - sum(shares.values())
    for arm, share in shares.items():
        assert found[arm] / len(_JOBS) == pytest.approx(share, abs=0.01)


def test_steps_are_nested() -> None:
    """A candidate job stays one at every later step, and no step changes the control group."""
    steps = [
        [arm_of("hydra", job, ArmShares(0.05, s)) for s in (0.0, 0.05, 0.25, 1.0)] for job in _JOBS
    ]
    for before, *later in steps:
        assert before is not Arm.CONTROL or set(later) == {Arm.CONTROL}
        if Arm.CANDIDATE in later:
            assert set(later[later.index(Arm.CANDIDATE) :]) == {Arm.CANDIDATE}


def test_an_arm_is_known_in_advance() -> None:
    """The hash is part of what is stored: other machines, processes and versions agree on it."""
    jobs = [str(number) for number in range(1, 12)]
    found = {
        m: "".join(arm_of(m, j, ArmShares(0.2, 0.2))[1] for j in jobs) for m in ("hydra", "other")
    }
    assert found == {"hydra": "uuouuuouooo", "other": "aauuuauouou"}
