"""When the default is kept."""

from __future__ import annotations

import numpy as np

from colltune.selector.guard import Guard


def test_required_gain_is_the_largest_of_all_demands() -> None:
    """5 % inside the data, 20 % outside, or the model's own error where that is more."""
    margin = np.log([1.0, 1.1, 1.3])
    required = np.exp(Guard().required_log_gain(margin, np.array([False, True])))
    np.testing.assert_allclose(required, [[1.05, 1.1, 1.3], [1.2, 1.2, 1.3]])


def test_reach_is_limited_in_messages_and_shapes() -> None:
    """Twice the largest message, and four times the nodes or processes, are as far as it goes."""
    low, high = np.array([8, 16, 1]), np.array([32, 256, 100])
    instances = [
        (16, 64, 200),
        (16, 64, 201),
        (128, 1024, 1),
        (129, 1024, 1),
        (128, 1025, 1),
        (2, 4, 0),
        (1, 4, 1),
        (2, 3, 1),
    ]
    expected = [False, True, False, True, True, False, True, True]
    assert Guard().beyond_reach(np.array(instances).T, low, high).tolist() == expected
