"""Many hypotheses at once."""

from __future__ import annotations

import math

from colltune.evidence.launches import discoveries, rejected


def test_e_values_are_rejected_by_their_rank() -> None:
    """The k-th largest of n must exceed n over k times the rate."""
    log_e = {"a": math.log(90), "b": math.log(41), "c": math.log(25), "d": 0.0}
    assert discoveries(log_e, 0.05) == {"a", "b"}
    assert discoveries(log_e | {"c": math.log(27)}, 0.05) == {"a", "b", "c"}
    assert discoveries({}, 0.05) == set()


def test_holm_rejects_what_is_small_enough_for_what_is_left() -> None:
    """The smallest chance is held to alpha over all of them, the next to alpha over one less."""
    chances = {"a": 0.012, "b": 0.016, "c": 0.03, "d": 0.9}
    assert rejected(chances, 0.05) == {"a", "b"}
    assert rejected(dict.fromkeys("abcd", 0.02), 0.05) == set()
    assert rejected({}, 0.05) == set()
