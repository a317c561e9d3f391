"""Predicting with forests of deep trees, in numpy alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from colltune.errors import BundleError
from colltune.features import feature_set
from colltune.models.learners import predictor_class, regret_trees
from colltune.models.learners.regret_trees import STEP, Forest
from tests.refusals import refused

Numbers = np.typing.NDArray[np.float64]
NODES, PPN, MSIZES = (2, 3, 4, 6, 8, 12), (1, 4, 6), tuple(4**k for k in range(11))


def _grid() -> tuple[Numbers, Numbers]:
    """Return rich features of a grid and noisy times of three configurations."""
    nodes, ppn, msize = (v.ravel() for v in np.meshgrid(NODES, PPN, MSIZES, indexing="ij"))
    p = nodes * ppn
    times = np.column_stack(
        [
            3e-6 * np.log2(p + 1) + 5e-10 * msize * np.log2(p + 1),
            2e-6 * p + 2e-10 * msize,
            1e-6 * p + 2e-9 * msize,
        ]
    )
    noise = np.random.default_rng(1).lognormal(0, 0.05, times.shape)
    return feature_set("rich").matrix(nodes, ppn, msize), times * noise


def _clipped(times: Numbers) -> Numbers:
    regret = np.log(times) - np.log(times).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(np.rint(regret / STEP) * STEP, 1.0))


def _asked() -> Numbers:
    """Return rich features of shapes and sizes in and around the grid, measured ones among them."""
    rng = np.random.default_rng(2)
    nodes, ppn = rng.integers(1, 20, 300), rng.integers(1, 10, 300)
    msize = np.append(rng.integers(0, 1 << 22, 200), np.repeat(MSIZES[:10], 10))
    return feature_set("rich").matrix(nodes, ppn, msize)


def test_regrets_are_those_of_scikit_learn() -> None:
    """Instances grown on end in the leaves that scikit-learn's trees end in; others nearly do."""
    features, times = _grid()
    predictor = regret_trees.fit(features, times, n_trees=40)
    clipped = _clipped(times)
    reference = ExtraTreesRegressor(40, max_features=0.6, random_state=0).fit(features, clipped)
    np.testing.assert_allclose(predictor.regret(features), reference.predict(features), atol=1e-6)
    off = np.abs(predictor.regret(_asked()) - reference.predict(_asked()))
    assert off.mean() < 0.01


def test_other_features_are_answered_as_by_scikit_learn() -> None:
    """Of features that are not a message size's, no threshold is rounded."""
    features, times = _grid()
    features = features[:, [0, 3, 8]]
    predictor = regret_trees.fit(features, times, n_trees=40)
    clipped = _clipped(times)
    reference = ExtraTreesRegressor(40, max_features=0.6, random_state=0).fit(features, clipped)
    asked = _asked()[:, [0, 3, 8]]
    np.testing.assert_allclose(predictor.regret(asked), reference.predict(asked), atol=1e-6)


def test_lines_are_what_walking_the_trees_gives() -> None:
    """At any size of any shape the step functions equal a walk from node to node."""
    features, times = _grid()
    predictor = regret_trees.fit(features, times, n_trees=25)
    asked = _asked()
    walked = np.array([_walked(predictor, row) for row in asked.astype(np.float32)])
    np.testing.assert_allclose(predictor.regret(asked), walked, atol=1e-6)


def _walked(forest: Forest, row: np.typing.NDArray[np.float32]) -> Numbers:
    total = np.zeros(forest.n_outputs)
    for root in forest.roots.tolist():
        node = root
        while node >= 0:
            below = row[forest.features[node]] <= forest.thresholds[node]
            node = int((forest.left if below else forest.right)[node])
        total += forest.regrets[-1 - node]
    return np.asarray(total * STEP / len(forest.roots))


def test_shortfall_is_the_root_mean_square_of_what_is_lost() -> None:
    """Of one tree it is what the instance in the leaf loses against the default, else nothing."""
    features, times = _grid()
    predictor = regret_trees.fit(features, times, n_trees=1)
    before = predictor.predict(features)
    clipped = _clipped(times)
    expected = np.maximum(clipped - clipped[:, [1]], 0.0)
    np.testing.assert_allclose(predictor.shortfall(features, 1), expected, atol=1e-3)
    np.testing.assert_array_equal(predictor.predict(features), before)


def test_shared_leaves_are_averaged() -> None:
    """Instances alike in all features are answered with their mean regret."""
    features, times = _grid()
    features, times = np.tile(features, (2, 1)), np.concatenate([times, times[:, ::-1]])
    learner = regret_trees.fit(features, times, n_trees=20)
    clipped = _clipped(times)
    reference = ExtraTreesRegressor(20, max_features=0.6, random_state=0).fit(features, clipped)
    expected = reference.predict(features)
    np.testing.assert_allclose(learner.regret(features), expected, atol=1e-6)


def test_one_instance_is_answered_as_among_many() -> None:
    """Regrets of a batch are, to the last bit, those of its instances asked one by one."""
    features, times = _grid()
    predictor = regret_trees.fit(features, times, n_trees=30)
    asked = _asked()
    alone = np.concatenate([predictor.regret(asked[[row]]) for row in range(len(asked))])
    np.testing.assert_array_equal(predictor.regret(asked), alone)


def test_a_feature_equal_to_its_threshold_goes_left() -> None:
    """Features and thresholds are compared as float32, equal ones going to the left."""
    predictor = _stump(0.1)
    asked = np.array([[0.1], [np.nextafter(np.float32(0.1), np.float32(1.0))]])
    np.testing.assert_array_equal(predictor.regret(asked), [[0.0, 0.5], [0.5, 0.0]])


def _stump(threshold: float) -> Forest:
    learner = regret_trees.fit(np.zeros((1, 1)), np.ones((1, 2)), n_trees=1)
    half = 1 << 19
    return Forest(
        features=np.zeros(1, np.uint8),
        thresholds=np.array([threshold], np.float32),
        left=np.array([-1], np.int32),
        right=np.array([-2], np.int32),
        roots=np.zeros(1, np.int32),
        regrets=np.array([[0, half], [half, 0]], np.int32),
        excess=np.zeros((2, 2), np.int32),
        along=np.zeros(0, np.int64),
        clip=np.ones(1),
        level=learner.level,
    )


def test_forests_are_registered_and_whole_from_the_start() -> None:
    """Bundles find the class by its kind; two forests cannot be put side by side."""
    assert predictor_class("forest") is Forest
    with pytest.raises(ValueError, match="all configurations at once"):
        Forest.stacked([_stump(0.1), _stump(0.2)])
    with refused("unknown", BundleError, what="predictor"):
        predictor_class("jungle")


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_what_is_remembered_changes_nothing(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes asked for again, in parts and in another order, are answered as the first time."""
    monkeypatch.setattr(regret_trees, "_MOST_REMEMBERED", most)
    features, times = _grid()
    predictor = regret_trees.fit(features, times, n_trees=15)
    asked = _asked()
    first = predictor.predict(asked)
    order = np.random.default_rng(5).permutation(len(asked))
    np.testing.assert_allclose(predictor.predict(asked[order]), first[order], rtol=1e-12)
    parts = [predictor.predict(part) for part in np.array_split(asked, 7)]
    np.testing.assert_allclose(np.concatenate(parts), first, rtol=1e-12)


def test_many_lines_at_once_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many shapes at once as memory allows: the answers are the same."""
    features, times = _grid()
    learner = regret_trees.fit(features, times, n_trees=15)
    usual = learner.regret(_asked())
    monkeypatch.setattr(regret_trees, "_MOST_EVENT_ELEMENTS", 1)
    again = regret_trees.fit(features, times, n_trees=15).regret(_asked())
    np.testing.assert_array_equal(again, usual)
