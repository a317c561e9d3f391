"""When the default is kept."""

from __future__ import annotations

import numpy as np

from colltune.selector.guard import Guard


def test_required_gain_is_the_largest_of_all_demands() -> None:
    """5 % inside the data, 20 % outside, or the model's own error where that is more."""
    margin = np.log([1.0, 1.1, 1.3])
    required = np.exp(Guard().required_log_gain(margin, np.array([False, True])))
    np.testing.assert_allclose(required, [[1.05, 1.1, 1.3], [1.2, 1.2, 1.3]])


def test_reach_is_twice_the_largest_measured() -> None:
    """Up to twice the largest measured message anything may be chosen, beyond it nothing."""
    assert Guard().beyond_reach(np.array([0, 200, 201]), 100).tolist() == [False, False, True]
