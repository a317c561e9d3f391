"""The paper's learners as published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colltune.dataset import read
from colltune.domain import Collective
from colltune.features import feature_set
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit
from colltune.models.learners import PUBLISHED, fitted, knn, mgcv
from colltune.selector.argmin import ModelSelector
from tests.models.machines import measured

Numbers = NDArray[np.float64]
RECORDED = Path(__file__).parents[2] / "notebooks/data/simulated_tree.csv.gz"
needs_mgcv = pytest.mark.skipif(not mgcv.available(), reason="R with mgcv is not there")


def cells(nodes: tuple[int, ...], **changes: object) -> CellMatrix:
    """Return the cells of the made-up machine."""
    return cell_matrices(measured(nodes=nodes, **changes))[Collective.BCAST]  # type: ignore[arg-type]


def inputs(of: CellMatrix) -> Numbers:
    """Return raw message size, nodes and processes per node."""
    return feature_set("basic").matrix(of.nodes, of.ppn, of.msize_bytes)


def predicted_s(name: str, training: CellMatrix, asked: CellMatrix) -> Numbers:
    """Return what a learner predicts with the features that it is registered with."""
    return fitted(training, name).predictor.predict(inputs(asked))


@pytest.mark.parametrize("name", PUBLISHED)
def test_served_decisions_are_the_least_predictions(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle of a published learner, without the guard, decides by the least prediction."""
    # R takes seconds to start for each fold
    monkeypatch.setattr(mgcv, "available", lambda: False)
    data = measured(nodes=(2, 4, 8, 16))
    selector = ModelSelector(fit(data, name, jobs=1), guard=False)
    asked = cells((3, 6))
    found = fitted(cell_matrices(data)[Collective.BCAST], name)
    least = found.predictor.predict(inputs(asked)).argmin(axis=1)
    chosen = [s.configuration for s in selector.select_many(asked.instances())]
    assert chosen == [found.cells.configurations[k] for k in least]


def test_knn_is_scikit_learns_where_nothing_ties() -> None:
    """At random points it is `KNeighborsRegressor` with five neighbours on standardised inputs."""
    rng = np.random.default_rng(0)
    points, times = rng.uniform(1, 9, (60, 3)), rng.uniform(1e-6, 1e-3, 60)
    asked = rng.uniform(0, 10, (40, 3))
    reference = make_pipeline(StandardScaler(), KNeighborsRegressor(5)).fit(points, times)
    ours = knn.fit_published(points, times).predict(asked)[:, 0]
    np.testing.assert_allclose(ours, reference.predict(asked), rtol=1e-8)


def test_knn_takes_all_that_tie_with_the_fifth() -> None:
    """Two neighbours at the fifth's distance both count, as in the paper's R package."""
    training = cells((4,), ppn=(1,), msizes=(10, 20, 30, 50, 60, 70, 400))
    asked = cells((4,), ppn=(1,), msizes=(40,))
    time_s = predicted_s("published_knn", training, asked)
    np.testing.assert_allclose(time_s[0], training.time_s[:6].mean(axis=0))


@needs_mgcv
def test_gam_without_r_decides_as_well_as_mgcv(monkeypatch: pytest.MonkeyPatch) -> None:
    """On recorded broadcasts both keep the same share of the gain at unseen nodes, within .05.

    pygam's own knots, uniform over raw bytes, lose .13 of it.
    """
    matrix = cell_matrices(read([RECORDED]))[Collective.BCAST]
    held_out = np.isin(matrix.nodes, np.unique(matrix.nodes)[1:-1:2])
    training, asked = matrix.rows(~held_out), matrix.rows(held_out)
    reference = predicted_s("published_gam", training, asked)
    monkeypatch.setattr(mgcv, "available", lambda: False)
    ours = predicted_s("published_gam", training, asked)
    assert abs(share(asked, ours) - share(asked, reference)) < 0.05
    assert np.median(np.abs(np.log(ours / reference))) < 0.15
    naive = fitted(training, "gam", feature_set("basic")).predictor.predict(inputs(asked))
    assert share(asked, naive) < share(asked, reference) - 0.05


def share(cells: CellMatrix, predicted: Numbers) -> float:
    """Return which share of the log gain over the default the least predictions have."""
    rows = np.arange(len(cells))
    default_s = cells.time_s[:, cells.default_column]
    chosen_s = cells.time_s[rows, predicted.argmin(axis=1)]
    gained = np.log(default_s / np.where(np.isfinite(chosen_s), chosen_s, default_s))
    possible = np.log(default_s / np.nanmin(cells.time_s, axis=1))
    kept = np.isfinite(default_s)
    return float(gained[kept].sum() / possible[kept].sum())


def test_gam_bends_where_small_messages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without R, a rise at 1 KiB is followed within 10 % in data that reach up to 4 MiB."""
    monkeypatch.setattr(mgcv, "available", lambda: False)
    sizes = 2.0 ** np.arange(23)
    points = np.column_stack([np.tile(sizes, 3), np.repeat([2.0, 4.0, 8.0], 23), np.ones(69)])
    times = 1e-6 * points[:, 1] * (1 + (points[:, 0] / 1024) ** 0.7)
    learned = mgcv.fit_published(points, times[:, None]).predict(points)[:, 0]
    np.testing.assert_allclose(learned, times, rtol=0.1)
