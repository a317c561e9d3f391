"""Finding where decisions change."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from colltune.selector.decision_table import grid, switch_points

Integers = NDArray[np.int64]
LARGEST = 1 << 22
SIZES = grid(LARGEST, np.array([7, 100]))


@given(
    rules=st.lists(
        st.dictionaries(st.sampled_from(range(len(SIZES) - 1)), st.floats(0, 1)),
        min_size=1,
        max_size=4,
    )
)
def test_changes_between_neighbouring_sizes_are_found_to_the_byte(
    rules: list[dict[int, float]],
) -> None:
    """With at most one change between two sizes looked at, every change is found exactly."""
    changes = [
        sorted({int(SIZES[k] + 1 + f * (SIZES[k + 1] - SIZES[k] - 1)) for k, f in rule.items()})
        for rule in rules
    ]

    def decide(rule: Integers, msize: Integers) -> Integers:
        return np.array(
            [int(np.searchsorted(changes[r], m, "right")) for r, m in zip(rule, msize, strict=True)]
        )

    expected = [[(0, 0), *((c, k + 1) for k, c in enumerate(rule))] for rule in changes]
    assert switch_points(decide, len(rules), SIZES) == expected


def test_several_changes_between_two_sizes_stay_true_to_the_decisions() -> None:
    """Where more happens between two sizes that are decided differently, that is found, too."""
    codes = np.array([0, 1, 2, 0, 3])

    def decide(rule: Integers, msize: Integers) -> Integers:
        picked: Integers = codes[np.searchsorted([130, 140, 150, 170], msize, "right")]
        return picked

    (found,) = switch_points(decide, 1, np.array([0, 128, 192, 256]))
    assert found == [(0, 0), (130, 1), (140, 2), (150, 0), (170, 3)]


def test_grid_has_ends_measured_sizes_and_two_per_octave() -> None:
    """The sizes start at 0, end at the largest, and hold what was measured up to there."""
    got = grid(50, np.array([5, 50, 60]))
    assert got.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 50]
    assert grid(0, np.array([0])).tolist() == [0]
