"""The paper's learners as published."""

from __future__ import annotations

import numpy as np

from colltune.domain import Collective
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.published import PUBLISHED, predicted_s
from tests.models.machines import measured


def cells(nodes: tuple[int, ...], **changes: object) -> CellMatrix:
    """Return the cells of the made-up machine."""
    return cell_matrices(measured(nodes=nodes, **changes))[Collective.BCAST]  # type: ignore[arg-type]


def test_predicts_every_configuration_of_what_is_asked() -> None:
    """Each learner gives a positive time for every configuration, in the order asked for."""
    asked = cells((3, 6))
    for name in PUBLISHED:
        time_s, failures = predicted_s(name, cells((2, 4, 8, 16)), asked)
        assert failures == []
        assert time_s.shape == asked.time_s.shape
        assert (time_s > 0).all()


def test_knn_is_the_arithmetic_mean_of_five_on_scaled_inputs() -> None:
    """With five points in all, KNN predicts their mean everywhere, not their geometric mean."""
    training = cells((2, 4, 8, 16, 32), ppn=(1,), msizes=(64,))
    asked = cells((3,), ppn=(1,), msizes=(64,))
    time_s, _ = predicted_s("knn", training, asked)
    np.testing.assert_allclose(time_s[0], training.time_s.mean(axis=0))


def test_knn_takes_all_that_tie_with_the_fifth() -> None:
    """Two neighbours at the fifth's distance both count, as in the paper's R package."""
    training = cells((4,), ppn=(1,), msizes=(10, 20, 30, 50, 60, 70, 400))
    asked = cells((4,), ppn=(1,), msizes=(40,))
    time_s, _ = predicted_s("knn", training, asked)
    np.testing.assert_allclose(time_s[0], training.time_s[:6].mean(axis=0))


def test_only_what_was_trained_is_predicted() -> None:
    """There is one column for each configuration trained, whatever the test instances have."""
    training = cells((2, 4, 8), algorithms=("default", "linear"))
    time_s, _ = predicted_s("knn", training, cells((3,)))
    assert time_s.shape == (len(cells((3,))), 2)
    assert np.isfinite(time_s).all()


def test_a_configuration_that_cannot_be_fitted_is_named() -> None:
    """A failure of one regression is told and leaves the others alone."""
    training = cells((2, 4, 8))
    times = training.time_s.copy()
    times[:, 1] *= np.where(np.arange(len(times)) % 2, 1e-250, 1e250)
    broken = CellMatrix(**(vars(training) | {"time_s": times}))
    time_s, failures = predicted_s("gam", broken, cells((3,)))
    assert [f.split(":")[0] for f in failures] == [training.configurations[1].id]
    assert np.isfinite(time_s).all(axis=0).tolist() == [True, False, True, True]
