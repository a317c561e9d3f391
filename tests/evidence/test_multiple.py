"""Many hypotheses at once."""

from __future__ import annotations

import math

from colltune.evidence.multiple import discoveries


def test_e_values_are_rejected_by_their_rank() -> None:
    """The k-th largest of n must exceed n over k times the rate."""
    log_e = {"a": math.log(90), "b": math.log(41), "c": math.log(25), "d": 0.0}
    assert discoveries(log_e, 0.05) == {"a", "b"}
    assert discoveries(log_e | {"c": math.log(27)}, 0.05) == {"a", "b", "c"}
    assert discoveries({}, 0.05) == set()
