"""Cost models as the prior mean of Gaussian processes on the logarithm of time.

What a cost model leaves unexplained is learned by processes that share one kernel
(`colltune.models.shared_process`). On some networks a cost model extrapolates worse than the
processes' own log-linear mean. Therefore how far it is trusted, not at all, by half or wholly, is
chosen per collective by decisions on left-out node counts, and trust has to win clearly: its mean
gain over no trust must be larger than the gain's standard error, and it may not lose where the
largest node count is left out, which is what extrapolation will be.
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
from colltune.models.predictors import Predictor
from colltune.models.predictors.corrected_costs import CorrectedCosts, Corrections, Part
from colltune.models.predictors.costs import Costs, instances_of
from colltune.models.regressor import Numbers, RuntimeRegressor, validated
from colltune.models.shared_process import Inputs, SharedProcess

Flags = NDArray[np.bool_]
TRUSTS = (0.0, 0.5, 1.0)
_INPUTS = (
    "log2_msize",
    "log2_nodes",
    "log2_ppn",
    "nprocs_is_power_of_two",
    "nodes_is_power_of_two",
)
_LEAST_NOISE = 0.01
_MOST_FOLDS = 5
_TIE = 0.003


class CostPrior(RuntimeRegressor):
    """Gaussian processes around fitted costs.

    Parameters
    ----------
    trust
        Power of the cost model in the prior mean; None: one of `TRUSTS`, by validation.
    most_points
        Instances at most that a process remembers.
    random_state
        Seed of the choice of those instances.
    """

    predictor_: Predictor

    def __init__(
        self, trust: float | None = None, most_points: int = 600, random_state: int = 0
    ) -> None:
        self.trust = trust
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
            part = self._part(features, times[:, None], np.zeros(1, np.int64))
            self.predictor_ = CorrectedCosts((part,))
            return self
        features, times = timed(X, y, self.configurations_)
        self.n_features_in_ = features.shape[1]
        rows = np.isfinite(times).any(axis=1)
        features, times = features[rows], times[rows]
        self.trust_ = self._chosen_trust(features, times) if self.trust is None else self.trust
        known = np.array([not family_of(c).is_generic for c in self.configurations_])
        trusted = known if self.trust_ else np.zeros_like(known)
        parts = []
        if trusted.any():
            costs = self._costs(features, times[:, trusted], np.flatnonzero(trusted).tolist())
            parts.append(self._part(features, times, np.flatnonzero(trusted), costs))
        if not trusted.all():
            parts.append(self._part(features, times, np.flatnonzero(~trusted)))
        self.predictor_ = CorrectedCosts(tuple(parts))
        return self

    def _costs(self, features: Numbers, times: Numbers, columns: Sequence[int]) -> Costs:
        configurations = [self.configurations_[k] for k in columns]
        model = CostModel().inform(configurations, self.columns_).fit(features, times)
        predictor = model.export()
        assert isinstance(predictor, Costs)
        return predictor

    def _part(
        self,
        features: Numbers,
        times: Numbers,
        outputs: NDArray[np.int64],
        costs: Costs | None = None,
    ) -> Part:
        logs = np.log(times[:, outputs])
        inputs = Inputs.of(features, self._input_columns(features))
        if costs is not None:
            logs = logs - self.trust_ * np.log(costs.predict(features))
            # what is left has a level, but no slope that would go on beyond what was measured
            inputs = replace(inputs, linear=np.zeros_like(inputs.linear))
        rng = np.random.default_rng(self.random_state)
        process = SharedProcess.chosen(inputs, logs, _LEAST_NOISE, rng)
        filled = process.filled(logs, self.most_points, rng)
        levels = [
            process.level(column, self.most_points, np.random.default_rng(self.random_state))
            for column in filled.T
        ]
        return Part(outputs, Corrections.of(levels), costs, self.trust_)

    def _input_columns(self, features: Numbers) -> list[int]:
        names = getattr(self, "columns_", ())
        if set(_INPUTS) <= set(names):
            return [names.index(name) for name in _INPUTS]
        return list(range(features.shape[1]))

    def _chosen_trust(self, features: Numbers, times: Numbers) -> float:
        regrets: dict[float, list[float]] = {trust: [] for trust in TRUSTS}
        for held_out in _folds(instances_of(features, self.columns_).nodes):
            rest = times[~held_out]
            seen = np.asarray(np.isfinite(rest).any(axis=0))
            if np.isfinite(times[held_out][:, seen]).sum() == 0:
                continue
            for trust in TRUSTS:
                part = CostPrior(trust, self.most_points, self.random_state)
                names = [c for c, s in zip(self.configurations_, seen.tolist(), strict=True) if s]
                part.inform(names, self.columns_).fit(features[~held_out], rest[:, seen])
                predicted = part.export().predict(features[held_out])
                regrets[trust].append(_regret(times[held_out][:, seen], predicted))
        return _clearly_best(regrets)

    def predict(self, X: ArrayLike) -> Numbers:
        """Return times for features `X` (n, k): (n), or (n, C) if fitted to C configurations."""
        check_is_fitted(self)
        features: Numbers = validate_data(self, X, dtype=np.float64, reset=False)
        predicted = self.predictor_.predict(features)
        return predicted[:, 0] if predicted.shape[1] == 1 else predicted


def _folds(nodes: Numbers) -> Iterator[Flags]:
    """Yield what to leave out: one of up to 5 node counts at a time, the largest last."""
    counts = np.unique(nodes)
    if len(counts) < 3:
        return
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
    """Return the trust that clearly loses less than none, 0 if there is none such."""
    none = np.array(regrets[0.0])
    if len(none) < 3:
        return 0.0
    best, least = 0.0, 0.0
    for trust in TRUSTS[1:]:
        gains = none - np.array(regrets[trust])
        error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
        clear = gains.mean() > max(error, _TIE) and gains[-1] >= -_TIE
        if clear and gains.mean() > least:
            best, least = trust, float(gains.mean())
    return best
