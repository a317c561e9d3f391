"""Cost models as the prior mean of Gaussian processes on the logarithm of time.

What a cost model leaves unexplained is learned by processes that share one kernel
(`colltune.models.shared_process`), just as the learner ``gaussian_process`` learns the times
themselves. On some networks a cost model extrapolates worse than the processes' own log-linear
mean. Therefore how far it is trusted, not at all, by half or wholly, is chosen per collective by
decisions on left-out node counts, and trust has to win clearly: its mean gain over no trust must be
larger than the gain's standard error, and it may not lose where the largest node count is left
out, which is what extrapolation will be. With fewer than 5 node counts that would be noise, and
there is no trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from colltune.domain import Configuration
from colltune.models.cost_learner import CostModel, timed
from colltune.models.costs.catalogue import family_of
from colltune.models.predictors.corrected_costs import CorrectedCosts
from colltune.models.predictors.costs import Costs, instances_of
from colltune.models.predictors.processes import Processes, Site
from colltune.models.regressor import Numbers, RuntimeRegressor, validated
from colltune.models.shared_process import Inputs, SharedProcess, input_columns

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
TRUSTS = (0.0, 0.5, 1.0)
_NONE = np.zeros(0, np.int64)
_LEAST_FOLDS, _MOST_FOLDS = 5, 5
_TIE = 0.003


class CostPrior(RuntimeRegressor):
    """Gaussian processes around fitted costs.

    Parameters
    ----------
    trust
        Power of the cost model in the prior mean; None: one of `TRUSTS`, by validation.
    least_noise, most_points, random_state
        As for `colltune.models.gaussian_process.GaussianProcess`.
    """

    predictor_: CorrectedCosts

    def __init__(
        self,
        trust: float | None = None,
        least_noise: float = 0.01,
        most_points: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.trust = trust
        self.least_noise = least_noise
        self.most_points = most_points
        self.random_state = random_state

    def inform(self, configurations: Sequence[Configuration], columns: Sequence[str]) -> Self:
        """Tell which configurations the columns of times, and which features those of X, are."""
        self.configurations_ = tuple(configurations)
        self.columns_ = tuple(columns)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y`, (n), or (n, C) if informed.

        Times that are NaN are passed over, those that are infinite guessed (slow). Uninformed there
        is no cost to trust.

        Raises
        ------
        ValueError
            As `CostModel.fit`.
        """
        if not hasattr(self, "configurations_"):
            features, times = validated(self, X, y)
            self.trust_ = 0.0
            self.predictor_ = self._fitted(features, times[:, None], 0.0, _NONE)
            return self
        features, times = timed(X, y, self.configurations_)
        self.n_features_in_ = features.shape[1]
        rows = np.isfinite(times).any(axis=1)
        features, times = features[rows], times[rows]
        priced = np.array(
            [k for k, c in enumerate(self.configurations_) if not family_of(c).is_generic], np.int64
        )
        given = self.trust
        self.trust_ = self._chosen_trust(features, times, priced) if given is None else given
        self.predictor_ = self._fitted(features, times, self.trust_, priced)
        return self

    def predict(self, X: ArrayLike) -> Numbers:
        """Return times for features `X` (n, k): (n), or (n, C) if fitted to C configurations."""
        check_is_fitted(self)
        features: Numbers = validate_data(self, X, dtype=np.float64, reset=False)
        predicted = self.predictor_.predict(features)
        return predicted[:, 0] if predicted.shape[1] == 1 else predicted

    def _fitted(
        self, features: Numbers, times: Numbers, trust: float, priced: Integers
    ) -> CorrectedCosts:
        priced = priced if trust else _NONE
        kernels = self._kernels(features, times, trust, priced)
        return self._conditioned(features, times, trust, priced, kernels)

    def _kernels(
        self, features: Numbers, times: Numbers, trust: float, priced: Integers
    ) -> list[tuple[SharedProcess, Integers]]:
        """Return the kernels for what has a cost and for what has none, with their outputs."""
        logs = self._residuals(features, times, trust, self._costs(features, times, priced), priced)
        inputs = Inputs.of(features, input_columns(features.shape[1]))
        free = np.setdiff1d(np.arange(times.shape[1]), priced)
        kernels = []
        for outputs in (priced, free):
            if len(outputs):
                rng = np.random.default_rng(self.random_state)
                known = logs[:, outputs]
                process = SharedProcess.chosen(inputs, known, self.least_noise, rng)
                kernels.append((process, outputs))
        return kernels

    def _conditioned(
        self,
        features: Numbers,
        times: Numbers,
        trust: float,
        priced: Integers,
        kernels: Sequence[tuple[SharedProcess, Integers]],
    ) -> CorrectedCosts:
        """Return the processes with given kernels after times (n, C), NaN where unknown."""
        costs = self._costs(features, times, priced)
        logs = self._residuals(features, times, trust, costs, priced)
        sites: list[Site] = []
        for process, outputs in kernels:
            rng = np.random.default_rng(self.random_state)
            found = process.means(logs[:, outputs], self.most_points, rng)
            sites += [replace(s, outputs=outputs[s.outputs]) for s in found.sites]
        trusts = np.full(len(priced), trust)
        return CorrectedCosts(Processes(tuple(sites)), priced, trusts, costs)

    def _costs(self, features: Numbers, times: Numbers, priced: Integers) -> Costs | None:
        """Return the costs of the outputs `priced`, None if there are none."""
        if not len(priced):
            return None
        configurations = [self.configurations_[k] for k in priced.tolist()]
        learner = CostModel().inform(configurations, self.columns_)
        predictor = learner.fit(features, times[:, priced]).export()
        assert isinstance(predictor, Costs)
        return predictor

    def _residuals(
        self,
        features: Numbers,
        times: Numbers,
        trust: float,
        costs: Costs | None,
        priced: Integers,
    ) -> Numbers:
        logs = np.log(times)
        if costs is not None:
            logs[:, priced] -= trust * np.log(costs.predict(features))
        return logs

    def _chosen_trust(self, features: Numbers, times: Numbers, priced: Integers) -> float:
        """Return the trust whose decisions on left-out node counts are clearly best."""
        nodes = instances_of(features, self.columns_).nodes
        folds = [f for f in _folds(nodes) if np.isfinite(times[~f]).any(axis=0).all()]
        if len(folds) < _LEAST_FOLDS or not len(priced):
            return 0.0
        regrets: dict[float, list[float]] = {}
        for trust in TRUSTS:
            with_cost = priced if trust else _NONE
            kernels = self._kernels(features, times, trust, with_cost)
            regrets[trust] = []
            for held_out in folds:
                rest = np.where(held_out[:, None], np.nan, times)
                part = self._conditioned(features, rest, trust, with_cost, kernels)
                predicted = part.predict(features[held_out])
                regrets[trust].append(_regret(times[held_out], predicted))
        return _clearly_best(regrets)


def _folds(nodes: Numbers) -> Iterator[Flags]:
    """Yield what to leave out: one of up to 5 node counts at a time, the largest last."""
    counts = np.unique(nodes)
    chosen = np.unique(np.linspace(0, len(counts) - 1, min(_MOST_FOLDS, len(counts))).round())
    for count in counts[chosen.astype(np.int64)]:
        yield nodes == count


def _regret(times: Numbers, predicted: Numbers) -> float:
    """Return the mean log(t_selected / t_best) over instances with a choice, 0 if there is none."""
    known = np.isfinite(times)
    rows = np.flatnonzero(known.sum(axis=1) > 1)
    if not len(rows):
        return 0.0
    chosen = np.where(known, predicted, np.inf)[rows].argmin(axis=1)
    return float(np.log(times[rows, chosen] / np.nanmin(times[rows], axis=1)).mean())


def _clearly_best(regrets: dict[float, list[float]]) -> float:
    """Return the trust that clearly loses less than none does, 0 if there is none such."""
    none = np.array(regrets[0.0])
    best, least = 0.0, 0.0
    for trust in TRUSTS[1:]:
        gains = none - np.array(regrets[trust])
        error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
        clear = gains.mean() > max(error, _TIE) and gains[-1] >= -_TIE
        if clear and gains.mean() > least:
            best, least = trust, float(gains.mean())
    return best
