"""Learning what configurations lose against the best, all at once."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Collective
from colltune.features import feature_set
from colltune.models.cells import cell_matrices
from colltune.models.fitting import fit
from colltune.models.gaussian_process import SharedProcess
from colltune.models.learners import regret_trees
from colltune.models.learners.regret_trees import Forest
from tests.models.machines import measured

Numbers = np.typing.NDArray[np.float64]
DATA = measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2, 4), noise=0.03)


def _sample(nodes: tuple[int, ...] | None = None) -> tuple[Numbers, Numbers]:
    data = DATA if nodes is None else measured(nodes=nodes, ppn=(1, 2, 4))
    cells = cell_matrices(data)[Collective.BCAST]
    return feature_set("rich").matrix(cells.nodes, cells.ppn, cells.msize_bytes), cells.time_s


def test_decides_well_at_unseen_nodes() -> None:
    """At node counts not trained on the choice is on average less than 3 % slower than the best."""
    learner = regret_trees.fit(*_sample())
    features, times = _sample((5, 7, 10))
    chosen = learner.predict(features).argmin(axis=1)
    regret = times[np.arange(len(times)), chosen] / times.min(axis=1)
    assert np.exp(np.log(regret).mean()) < 1.03


def test_slow_configurations_are_predicted_as_slow_as_they_are() -> None:
    """Of what is more than 5 times slower than the best, the median error is below a quarter."""
    learner = regret_trees.fit(*_sample())
    features, times = _sample((5, 7, 10))
    slow = times > 5 * times.min(axis=1, keepdims=True)
    error = np.abs(np.log(learner.predict(features)[slow] / times[slow]))
    assert slow.sum() > 20
    assert np.median(error) < np.log(1.25)


def test_ratios_are_those_of_regrets() -> None:
    """Predicted times of configurations below half of the clip differ by their regrets alone."""
    features, times = _sample()
    learner = regret_trees.fit(features, times)
    regret, predicted = learner.regret(features), learner.predict(features)
    good = (regret < 0.5) & (regret.argmin(axis=1)[:, None] != np.arange(regret.shape[1]))
    log_gain = np.log(predicted) - np.log(predicted.min(axis=1, keepdims=True))
    expected = regret - regret.min(axis=1, keepdims=True)
    assert good.sum() > 20
    np.testing.assert_allclose(log_gain[good], expected[good], atol=1e-9)


def test_gaps_are_filled() -> None:
    """A fast configuration that was measured at half of the instances only is predicted fast."""
    features, times = _sample()
    best = int((times.argmin(axis=1)[:, None] == np.arange(times.shape[1])).sum(axis=0).argmax())
    gaps = times.copy()
    gaps[np.random.default_rng(3).random(len(times)) < 0.5, best] = np.nan
    unknown = np.isnan(gaps[:, best])
    filled, whole = (regret_trees.fit(features, known).regret(features) for known in (gaps, times))
    off = np.abs(filled[unknown, best] - whole[unknown, best])
    assert np.quantile(off, 0.9) < 0.2


def test_more_points_than_the_processes_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few of the points for gaps and level the times are still those measured, roughly."""
    monkeypatch.setattr(regret_trees, "_FILL_POINTS", 40)
    monkeypatch.setattr(regret_trees, "_LEVEL_POINTS", 40)
    features, times = _sample()
    gaps = times.copy()
    gaps[::5, 0] = np.nan
    learner = regret_trees.fit(features, gaps)
    error = np.abs(np.log(learner.predict(features) / times))
    assert np.median(error) < 0.15
    assert len(learner.level.points) == 40


def test_rows_without_times_are_left_out() -> None:
    """An instance of which nothing is known changes nothing."""
    features, times = _sample()
    more = np.concatenate([features, features[:2] + 1.0])
    unknown = np.array([[np.nan] * times.shape[1], [np.inf] * times.shape[1]])
    without = regret_trees.fit(features, times, n_trees=5)
    having = regret_trees.fit(more, np.concatenate([times, unknown]), n_trees=5)
    for name, array in without.arrays().items():
        np.testing.assert_array_equal(array, having.arrays()[name])


def test_fits_a_dataset_into_a_bundle() -> None:
    """A bundle is fitted with it, its intervals hold, and what was left out as slow stays slow."""
    model = fit(DATA, "regret_trees", jobs=1).model(Collective.BCAST)
    cells = cell_matrices(measured(nodes=(5, 7, 10), ppn=(1, 2, 4), noise=0.03))[Collective.BCAST]
    forecast = model.forecast(cells.nodes, cells.ppn, cells.msize_bytes)
    inside = (forecast.lower_s <= cells.time_s) & (cells.time_s <= forecast.upper_s)
    assert (model.learner, model.feature_set) == ("regret_trees", "rich")
    assert 0.75 <= inside.mean() <= 1.0


def test_units_do_not_matter() -> None:
    """Times in another unit give the same predictions in that unit."""
    features, times = _sample()
    usual = regret_trees.fit(features, times, n_trees=10).predict(features)
    for factor in (1e-9, 1e9):
        scaled = regret_trees.fit(features, times * factor, n_trees=10).predict(features)
        np.testing.assert_allclose(scaled, usual * factor, rtol=1e-6)


def test_folds_grow_fewer_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """For errors out of fold fewer trees are grown than for the model itself."""
    grown = []
    grow = regret_trees.fit

    def noted(features: Numbers, times_s: Numbers, **told: int) -> Forest:
        found = grow(features, times_s, **told)
        grown.append(len(found.roots))
        return found

    monkeypatch.setattr(regret_trees, "fit", noted)
    fit(measured(), "regret_trees", jobs=1)
    assert len(grown) == 5
    assert grown[0] > max(grown[1:])


class _Wild(SharedProcess):
    """Fills cells with times that nothing could have."""

    def filled(self, log_times: Numbers, most_points: int, rng: np.random.Generator) -> Numbers:
        return np.where(np.isnan(log_times), -100.0, log_times)


def test_a_cell_that_was_not_measured_never_beats_one_that_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However fast a missing cell is guessed to be, measured cells keep their times and order."""
    features, times = _sample((2, 4, 8))
    times[::3, 1] = np.nan
    monkeypatch.setattr(SharedProcess, "filled", _Wild.filled)
    predicted = regret_trees.fit(features, times).predict(features)
    known = np.isfinite(times) & (times < 2 * np.nanmin(times, axis=1, keepdims=True))
    assert np.abs(np.log(predicted[known] / times[known])).max() < 0.2
    assert (predicted > 0.8 * np.nanmin(times, axis=1, keepdims=True)).all()


def test_many_targets_are_learned_by_their_main_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grown on a few principal components, the trees decide as well as on all configurations."""
    features, times = _sample()
    rng = np.random.default_rng(4)
    many = np.concatenate([times * rng.lognormal(0.3, 0.02, times.shape) for _ in range(5)], axis=1)
    asked, _ = _sample((5, 7, 10))
    usual = regret_trees.fit(features, many, n_trees=100).regret(asked)
    monkeypatch.setattr(regret_trees, "_FEW_TARGETS", 0)
    faster = regret_trees.fit(features, many, n_trees=100).regret(asked)
    assert 0 < np.abs(faster - usual).mean() < 0.05


def test_flags_are_believed_where_both_kinds_were_measured() -> None:
    """Every other tree ignores powers of two and odd counts, unless there are three of each."""
    names = feature_set("rich").columns
    flags = [names.index(name) for name in names if "_is_" in name]

    def share(nodes: tuple[int, ...], most_ppn: int) -> float:
        features, times = _sample(nodes)
        kept = features[:, names.index("log2_ppn")] <= np.log2(most_ppn)
        grown = regret_trees.fit(features[kept], times[kept])
        ends = np.append(grown.roots[1:], len(grown.features))
        seen = [
            np.isin(grown.features[first:last], flags).any()
            for first, last in zip(grown.roots, ends, strict=True)
        ]
        return float(np.mean(seen))

    assert 0.3 < share((2, 4, 8, 12), 2) <= 0.5
    assert share((2, 4, 8, 12), 4) > 0.6
