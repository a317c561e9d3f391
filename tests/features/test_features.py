"""The values of the feature sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colltune.features import FEATURE_SETS


def test_basic_is_the_instance_itself() -> None:
    """The basic set is message size, nodes and processes per node, as they are."""
    np.testing.assert_array_equal(FEATURE_SETS["basic"].matrix(34, 32, 100), [[100.0, 34.0, 32.0]])


def test_log_takes_binary_logarithms() -> None:
    """The log set is the same in binary logarithms, 0 bytes counting as 1."""
    matrix = FEATURE_SETS["log"].matrix([8, 1], [4, 1], [1024, 0])
    np.testing.assert_array_equal(matrix, [[10.0, 3.0, 2.0], [0.0, 0.0, 0.0]])


def test_rich_values_of_one_instance() -> None:
    """Every rich feature of 12 x 4 processes and 96 KiB is what its name says."""
    features = FEATURE_SETS["rich"]
    got = dict(zip(features.columns, features.matrix(12, 4, 98304)[0].tolist(), strict=True))
    assert got == {
        "log2_msize": np.log2(98304),
        "log2_nodes": np.log2(12),
        "log2_ppn": 2.0,
        "log2_nprocs": np.log2(48),
        "log2_msize_per_process": np.log2(98304) - np.log2(48),
        "log2_msize_per_node": np.log2(98304) + 2.0,
        "log2_msize_of_all": np.log2(98304) + np.log2(48),
        "rounds_nprocs": 6.0,
        "rounds_nodes": 4.0,
        "nprocs_is_power_of_two": 0.0,
        "nodes_is_power_of_two": 0.0,
        "ppn_is_power_of_two": 1.0,
        "nprocs_is_odd": 0.0,
        "nodes_is_odd": 0.0,
        "ppn_is_odd": 0.0,
    }


@given(nodes=st.integers(1, 1 << 20))
def test_power_of_two_flag_and_rounds_are_exact(nodes: int) -> None:
    """Flag and rounds agree with integer arithmetic for every node count."""
    features = FEATURE_SETS["rich"]
    row = dict(zip(features.columns, features.matrix(nodes, 1, 1)[0].tolist(), strict=True))
    assert row["nodes_is_power_of_two"] == (nodes.bit_count() == 1)
    assert row["rounds_nodes"] == (nodes - 1).bit_length()
