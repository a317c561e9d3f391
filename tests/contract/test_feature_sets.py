"""What every entry of FEATURE_SETS must keep to."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.errors import DataError
from colltune.features import FEATURE_SETS, feature_set

NODES, PPN, MSIZES = (
    np.array([1, 2, 7, 36]),
    np.array([1, 32, 3, 16]),
    np.array([0, 1, 4097, 2**30]),
)


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_is_registered_under_its_own_name(name: str) -> None:
    """The key in the registry is the feature set's name, by which bundles store it."""
    assert feature_set(name).name == name


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_has_one_finite_column_per_name(name: str) -> None:
    """The matrix has a float64 column for each distinct name, finite even for 0 bytes."""
    features = FEATURE_SETS[name]
    matrix = features.matrix(NODES, PPN, MSIZES)
    assert matrix.shape == (4, len(set(features.columns)))
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_rows_do_not_depend_on_each_other(name: str) -> None:
    """Each row of a batch is the row that its instance has alone."""
    features = FEATURE_SETS[name]
    alone = [features.matrix(n, p, m) for n, p, m in zip(NODES, PPN, MSIZES, strict=True)]
    np.testing.assert_array_equal(features.matrix(NODES, PPN, MSIZES), np.concatenate(alone))


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_tells_instances_apart(name: str) -> None:
    """Instances that differ in nodes, ppn or message size differ in their features."""
    rows = FEATURE_SETS[name].matrix([4, 4, 8, 4], [4, 8, 4, 4], [64, 64, 64, 65])
    assert len(np.unique(rows, axis=0)) == 4


def test_unknown_name_is_explained() -> None:
    """Asking for a feature set that does not exist names those that do."""
    with pytest.raises(DataError, match="unknown feature set 'poor'; known: basic, log, rich"):
        feature_set("poor")
