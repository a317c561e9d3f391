"""When the default is kept."""

from __future__ import annotations

import numpy as np

from colltune.selector.guard import Guard


def test_required_gain_is_the_largest_of_all_demands() -> None:
    """5 % inside the data, 20 % outside, or the model's own error where that is more."""
    margin, distance = np.log([1.0, 1.1, 1.3]), np.array([1.0, 1.5])
    doubt = Guard().doubt(None, margin, distance)
    required = Guard().required_log_gain(doubt, distance, 0.01, cautious=False)
    np.testing.assert_allclose(np.exp(required), [[1.05, 1.1, 1.3], [1.2, 1.2, 1.3]])


def test_a_shortfall_counts_more_the_farther_away() -> None:
    """Half of it inside, all of it outside, more with each doubling, and the noise."""
    shortfall, distance = np.full((3, 2), 0.2), np.array([1.0, 1.0001, 4.0])
    doubt = Guard().doubt(shortfall, np.zeros(2), distance)
    np.testing.assert_allclose(doubt[:, 0], [0.1, 0.2, 0.3], rtol=1e-4)
    required = Guard().required_log_gain(doubt, distance, 0.02, cautious=True)
    np.testing.assert_allclose(required, doubt + 0.02)


def test_caution_is_the_risk_parameter() -> None:
    """Twice the caution is twice the doubt; without caution only the noise is left."""
    shortfall, margin, distance = np.full((1, 1), 0.2), np.array([0.3]), np.array([1.0])
    for own in (shortfall, None):
        once, twice, never = (
            Guard(caution=c).doubt(own, margin, distance) for c in (1.0, 2.0, 0.0)
        )
        np.testing.assert_allclose(twice, 2 * once)
        assert never == 0.0


def test_cautious_learners_are_followed_farther() -> None:
    """Sixteen times the most nodes, and a sixteenth of the fewest, but no larger messages."""
    low, high = np.array([32, 32, 1]), np.array([64, 256, 100])
    instances = np.array(
        [(1024, 4096, 1), (1025, 4096, 1), (2, 32, 1), (1, 32, 1), (32, 64, 201)]
    ).T
    assert Guard().beyond_reach(instances, low, high).all()
    beyond = Guard().beyond_reach(instances, low, high, cautious=True)
    assert beyond.tolist() == [False, True, False, True, True]
    other_counts = np.array([(32, 64, 1), (33, 64, 1), (31, 64, 1)]).T
    one = np.array([32, 256, 100])
    one_count = Guard().beyond_reach(other_counts, low, one, cautious=True)
    assert one_count.tolist() == [False, True, True]


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


def test_learners_that_borrow_are_asked_for_the_least_gains_too() -> None:
    """What a cautious learner doubts counts, but not less than 5 and, outside, 20 %."""
    doubt, distance = np.log([[1.01, 1.5], [1.01, 1.5]]), np.array([1.0, 2.0])
    required = Guard().required_log_gain(doubt, distance, 0.0, cautious=True, borrowed=True)
    np.testing.assert_allclose(np.exp(required), [[1.05, 1.5], [1.2, 1.5]])
