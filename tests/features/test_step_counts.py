"""The features that tell where the costs of classic algorithms cross."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.features import FEATURE_SETS
from colltune.features.step_counts import COLUMNS, HALF_BANDWIDTH_BYTES


def _row(nodes: int, ppn: int, msize_bytes: float) -> dict[str, float]:
    features = FEATURE_SETS["cost"]
    row = features.matrix(nodes, ppn, msize_bytes)[0].tolist()
    return dict(zip(features.columns, row, strict=True))


def test_cost_starts_with_rich() -> None:
    """The cost set is the rich one and more, in this order."""
    rich, cost = FEATURE_SETS["rich"], FEATURE_SETS["cost"]
    assert cost.columns == (*rich.columns, *COLUMNS)
    got = cost.matrix([3, 8], [5, 4], [0, 4096])
    np.testing.assert_array_equal(
        got[:, : len(rich.columns)], rich.matrix([3, 8], [5, 4], [0, 4096])
    )


def test_values_of_one_instance() -> None:
    """12 x 4 processes and 64 KiB, by hand: m is 4, rounds are 6, the lower power of two is 32."""
    row = _row(12, 4, 4 * HALF_BANDWIDTH_BYTES)
    tree = 1 + 6 * 5
    expected = {
        "log2_tree_time": np.log2(tree),
        "log2_flat_to_tree": np.log2((1 + 47 * 5) / tree),
        "log2_pipeline_to_tree": np.log2((1 + 47 * 5) / tree),
        "log2_ring_to_tree": np.log2((1 + 94 * (1 + 4 / 48)) / tree),
        "log2_halving_to_tree": np.log2((1 + 12 + 2 * 47 / 48 * 4) / tree),
        "log2_pairwise_to_bruck": np.log2((1 + 47 * 5) / (1 + 6 * (1 + 4 * 24))),
        "log2_two_levels_to_tree": np.log2((1 + (4 + 2) * 5) / tree),
        "beyond_power_of_two": 0.5,
        "rounds_between_nodes": 4.0,
    }
    np.testing.assert_allclose([row[name] for name in COLUMNS], [expected[n] for n in COLUMNS])


def test_segments_make_a_pipeline_cheaper_than_a_tree() -> None:
    """For a long message among few processes the pipeline's ratio is below 1, for a short above."""
    assert _row(4, 1, 1 << 26)["log2_pipeline_to_tree"] < 0
    assert _row(64, 1, 8)["log2_pipeline_to_tree"] > 0


@pytest.mark.parametrize(
    ("nodes", "ppn", "rounds"), [(1, 8, 0.0), (4, 1, 2.0), (4, 6, 4.0), (4, 8, 2.0), (2, 7, 4.0)]
)
def test_rounds_between_nodes(nodes: int, ppn: int, rounds: float) -> None:
    """As many rounds stay on a node as its processes have factors of two."""
    assert _row(nodes, ppn, 100)["rounds_between_nodes"] == rounds


@pytest.mark.parametrize("instance", [(1, 1, 0), (1, 1, 1 << 62), (1 << 20, 1 << 12, 0)])
def test_extremes_are_finite(instance: tuple[int, int, int]) -> None:
    """One process, no message and the largest instances give numbers."""
    assert np.isfinite(FEATURE_SETS["cost"].matrix(*instance)).all()
