"""Gaussian processes on log times, one per configuration, with one kernel for a collective.

The kernel and how it is chosen by its marginal likelihood are those of
`colltune.models.shared_process`: lengths and noise are the same for all configurations of a
collective, since each alone has too few measurements to tell them.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from colltune.models.joint_regressor import JointRegressor, slow_guessed
from colltune.models.predictors.processes import Processes
from colltune.models.shared_process import Inputs, SharedProcess, input_columns


class GaussianProcess(JointRegressor):
    """A log-linear mean and a Matérn 5/2 kernel with a length per input, for each configuration.

    The inputs are the logarithms of message size, nodes and ppn and, with the feature set ``rich``,
    whether processes and nodes are powers of two; with any other features, all of them. What was
    left out because it is slow enters with a guess, see `slow_guessed`.

    Parameters
    ----------
    least_noise
        Least variance of the noise of log times, in units of the processes' variance.
    most_points
        Measured instances at most that predictions are made from, drawn at random, which bounds the
        cost of a fit. The kernel is chosen on fewer still.
    random_state
        Seed of that draw.
    """

    predictor_: Processes

    def __init__(
        self, least_noise: float = 0.01, most_points: int = 1000, random_state: int = 0
    ) -> None:
        self.least_noise = least_noise
        self.most_points = most_points
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y`, (n, C) or (n).

        Raises
        ------
        ValueError
            If a time is not positive, or a configuration has no time at all.
        """
        features, times = self._validated(X, y)
        log_times = np.log(slow_guessed(times))
        rng = np.random.default_rng(self.random_state)
        inputs = Inputs.of(features, input_columns(features.shape[1]))
        process = SharedProcess.chosen(inputs, log_times, self.least_noise, rng)
        self.predictor_ = process.means(log_times, self.most_points, rng)
        return self
