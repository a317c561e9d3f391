"""Gaussian processes over a collective's runtimes."""

from __future__ import annotations

import numpy as np

from colltune.bench.strategies.surrogate import Posterior, Surrogate, coordinates

MSIZES = 4 ** np.arange(10)


def _machine(n: int) -> tuple[np.typing.NDArray[np.float64], np.typing.NDArray[np.float64]]:
    """Return points on n processes and log times (less e^-9) of two crossing algorithms there."""
    points = coordinates(np.full(10, n), np.ones(10), MSIZES)
    latency_bound = np.log(2e-6 * np.log2(n) + MSIZES * np.log2(n) / 1e9)
    bandwidth_bound = np.log(2e-6 * n + 2 * MSIZES / 1e9)
    return points, np.column_stack([latency_bound, bandwidth_bound]) + 9.0


def test_interpolates_between_measured_shapes() -> None:
    """Between two measured node counts the error is small, and within what the sd says."""
    measured = [_machine(n) for n in (6, 12)]
    points = np.concatenate([p for p, _ in measured])
    times = np.concatenate([t for _, t in measured])
    surrogate = Surrogate(points, times, np.full(len(points), 1e-4))
    between, truth = _machine(9)
    belief = surrogate.posterior(between)
    assert np.abs(belief.mean - truth).max() < 0.3
    assert (np.abs(belief.mean - truth) < 3 * belief.sd + 0.05).all()


def test_measuring_lowers_uncertainty_there_and_less_so_far_away() -> None:
    """The standard deviation is small at a measured point and grows with the distance."""
    points, times = _machine(8)
    surrogate = Surrogate(points, times, np.full(10, 1e-4))
    at, near, far = (surrogate.posterior(_machine(n)[0]).sd.mean() for n in (8, 10, 32))
    assert at < near < far


def test_unmeasured_configurations_keep_their_prior() -> None:
    """A configuration without any time is believed anything, whatever the others did."""
    points, times = _machine(8)
    times[:, 1] = np.nan
    belief = Surrogate(points, times, np.full(10, 1e-4)).posterior(points)
    assert (belief.mean[:, 1] == 0).all()
    assert belief.sd[:, 1].min() > 5 > belief.sd[:, 0].max()


def test_mixed_patterns_are_what_each_is_alone() -> None:
    """Configurations measured on different instances do not influence each other."""
    points, times = _machine(8)
    gaps = times.copy()
    gaps[::2, 1] = np.nan
    both = Surrogate(points, gaps, np.full(10, 1e-3)).posterior(points)
    for column in (0, 1):
        alone = Surrogate(points, gaps[:, [column]], np.full(10, 1e-3)).posterior(points)
        np.testing.assert_allclose(both.mean[:, [column]], alone.mean, atol=1e-9)
        np.testing.assert_allclose(both.sd[:, [column]], alone.sd, atol=1e-9)


def test_variance_is_the_diagonal_of_the_covariance() -> None:
    """What is said of single points agrees with what is said of pairs."""
    points, times = _machine(8)
    surrogate = Surrogate(points, times, np.full(10, 1e-2))
    asked = _machine(11)[0]
    np.testing.assert_allclose(
        surrogate.variance(asked), surrogate.covariance(asked, asked).diagonal(), rtol=1e-6
    )
    np.testing.assert_allclose(surrogate.posterior(asked).sd[:, 0] ** 2, surrogate.variance(asked))


def test_nothing_measured_is_the_prior() -> None:
    """Without measurements beliefs are the prior's."""
    points, _ = _machine(8)
    belief = Surrogate(points[:0], np.empty((0, 2)), np.empty(0)).posterior(points)
    assert (belief.mean == 0).all()
    assert belief.sd.min() > 5


def test_regret_is_what_ignorance_costs() -> None:
    """Certain beliefs have no regret; equal means with an error have that of the lesser of two."""
    normals = np.random.default_rng(0).standard_normal((4000, 2))
    mean = np.array([[0.0, 0.0], [0.0, 9.0]])
    certain = Posterior(mean, np.zeros((2, 2))).regret(normals)
    np.testing.assert_array_equal(certain, 0.0)
    unsure = Posterior(mean, np.ones((2, 2))).regret(normals)
    assert abs(unsure[0] - 1 / np.sqrt(np.pi)) < 0.05
    assert unsure[1] < 1e-6
