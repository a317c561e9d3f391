"""The paper's generalised additive model by R's own mgcv (Hunold et al., CLUSTER 2020, sec. IV-B).

R is run as a program, once for all configurations of a collective, and only for fitting. A thin
plate regression spline of one variable is a natural cubic spline with knots at the distinct values
of the data (Wood, J. R. Statist. Soc. B 65, 2003, sec. 2 and 3), so the values of each term there
are all that is taken over, and predictions are mgcv's.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from colltune import process
from colltune.errors import ProgramError
from colltune.models.predictors.splines import NaturalSplines
from colltune.models.regressor import JointRegressor, slow_guessed

Numbers = NDArray[np.float64]
SCRIPT = Path(__file__).with_name("r") / "fit_gam.R"
_INSTALL = "install R with its recommended package mgcv (on Debian: r-base-core and r-cran-mgcv)"
_NO_MGCV = 3
_START_S, _FIT_S = 120.0, 30.0
_LINEAR = 2
_MOST_SPLINES = 10
"""Per feature, mgcv's ``k``: no more than it has distinct values, and fewer if there are fewer
measurements than coefficients."""
_AGREEMENT = 1e-6
_FLAT = 1e-9
_INTERCEPT = "0"


class ReferenceAdditiveModel(JointRegressor):
    """R's ``gam(y ~ s(x1) + s(x2) + …, family = Gamma(link = "log"))`` per configuration.

    Thin plate splines chosen by generalised cross-validation, mgcv's defaults. Times are divided by
    their geometric mean, which moves only the intercept. What was left out because it is slow
    enters with a guess, see `slow_guessed`. A feature of two values is linear, one that never
    varies has no effect.
    """

    predictor_: NaturalSplines

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y`, (n, C) or (n)."""
        features, times = self._validated(X, y)
        known = slow_guessed(times)
        with np.errstate(invalid="ignore"):
            units = np.exp(np.nanmean(np.log(known), axis=0))
        sizes = np.stack([self._sizes(features[np.isfinite(column)]) for column in known.T])
        # mgcv's criterion is undefined where nothing varies
        flat = np.nanmax(known, axis=0) <= np.nanmin(known, axis=0) * (1.0 + _FLAT)
        sizes[flat] = 0
        scaled = known / units
        with tempfile.TemporaryDirectory(prefix="colltune-mgcv-") as name:
            folder = Path(name)
            if sizes.any():
                modelled = np.where(sizes.any(axis=1), scaled, np.nan)
                _write(folder, features, modelled, sizes)
                _run(folder, len(units))
                found = _read(folder, sizes)
                _check(found, features, modelled, folder)
            else:
                found = _nothing(sizes)
        # the Gamma likelihood of a model without terms is largest at the mean
        level = np.where(sizes.any(axis=1), found.intercepts, np.log(np.nanmean(scaled, axis=0)))
        self.predictor_ = replace(found, intercepts=level + np.log(units))
        return self

    def _sizes(self, X: Numbers) -> NDArray[np.int64]:
        """Return the splines of each feature, 0 for none."""
        distinct = np.array([len(np.unique(column)) for column in X.T])
        sizes = np.where(distinct > 1, np.minimum(distinct, _MOST_SPLINES), 0)
        while sizes.any() and 1 + (sizes[sizes > 0] - 1).sum() > max(1, len(X) - 1):
            largest = int(sizes.argmax())
            sizes[largest] = sizes[largest] - 1 if sizes[largest] > _LINEAR else 0
        return np.asarray(sizes, np.int64)


def _write(folder: Path, X: Numbers, y: Numbers, sizes: NDArray[np.int64]) -> None:
    """Write one row per finite time of `y` (n, C), output by output, and one per term."""
    output, at = np.argwhere(np.isfinite(y.T)).T
    features = {f"x{k + 1}": column[at] for k, column in enumerate(X.T)}
    data = pd.DataFrame({"output": output + 1, "y": y[at, output], **features})
    data.to_csv(folder / "data.csv", index=False)
    output, feature = np.argwhere(sizes).T
    terms = pd.DataFrame(
        {"output": output + 1, "feature": feature + 1, "k": sizes[output, feature]}
    )
    terms.to_csv(folder / "terms.csv", index=False)


def _run(folder: Path, n_outputs: int) -> None:
    """Let R fit what is in `folder`."""
    command: list[str | Path] = [process.find("Rscript", _INSTALL), "--vanilla", SCRIPT, folder]
    outcome = process.run(command, timeout_s=_START_S + _FIT_S * n_outputs)
    if outcome.returncode == _NO_MGCV:
        raise ProgramError(f"R has no package mgcv; {_INSTALL}")
    process.check(outcome, "fitting with mgcv")
    for output, message in _table(folder, "errors").itertuples(index=False):
        raise ValueError(f"mgcv cannot fit configuration {int(output) - 1}: {message}")


def _table(folder: Path, name: str) -> pd.DataFrame:
    # as text, since pandas before 3 reads numbers with errors in their last digits
    return pd.read_csv(folder / f"{name}.csv", dtype=str)


def _read(folder: Path, sizes: NDArray[np.int64]) -> NaturalSplines:
    """Read the terms' values and lay natural cubic splines through them."""
    curves = dict(iter(_table(folder, "curves").groupby(["output", "feature"], sort=False)))
    result = _nothing(sizes)
    knots, values, bends = [result.knots], [result.values], [result.bends]
    for output, feature in np.argwhere(sizes).tolist():
        curve = curves[f"{output + 1}", f"{feature + 1}"]
        x, value = (np.array(curve[name], np.float64) for name in ("x", "value"))
        result.counts[output, feature] = len(x)
        result.intercepts[output] = float(curves[f"{output + 1}", _INTERCEPT]["value"].iloc[0])
        knots.append(x)
        values.append(value)
        bends.append(CubicSpline(x, value, bc_type="natural")(x, 2))
    joined = (np.concatenate(parts) for parts in (knots, values, bends))
    return NaturalSplines(result.intercepts, result.counts, *joined)


def _nothing(sizes: NDArray[np.int64]) -> NaturalSplines:
    """Return a model without effects for as many configurations and features as `sizes` (C, k)."""
    empty = np.zeros(0)
    return NaturalSplines(
        np.zeros(len(sizes)), np.zeros(sizes.shape, np.int64), empty, empty, empty
    )


def _check(found: NaturalSplines, X: Numbers, y: Numbers, folder: Path) -> None:
    """Compare what was taken over with what mgcv itself has fitted to `y` (n, C)."""
    expected = _table(folder, "fitted")["y"].astype(np.float64).to_numpy()
    apart = np.abs(np.log(found.predict(X).T[np.isfinite(y.T)] / expected)).max()
    if not apart < _AGREEMENT:
        raise ValueError(f"mgcv's model could not be taken over: it differs by {apart:.1e}")
