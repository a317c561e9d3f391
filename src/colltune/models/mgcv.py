"""The paper's generalised additive model by R's own mgcv (Hunold et al., CLUSTER 2020, sec. IV-B).

R is run as a program, once for all configurations of a collective, and only for fitting. A thin
plate regression spline of one variable is a natural cubic spline with knots at the distinct values
of the data (Wood, J. R. Statist. Soc. B 65, 2003, sec. 2 and 3), so the values of each term there
are all that is taken over, and predictions are mgcv's.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from colltune import process
from colltune.errors import ProgramError
from colltune.models.learners import UnfittableError
from colltune.models.predictors.splines import NaturalSplines
from colltune.models.regressor import JointRegressor, slow_guessed

Numbers = NDArray[np.float64]
SCRIPT = Path(__file__).with_name("r") / "colltune.R"
"""What R runs, and what users of R load: docs/howto/r.md."""
INSTALL = "install R with its recommended package mgcv (on Debian: r-base-core and r-cran-mgcv)"
_NO_MGCV = 3
_START_S, _FIT_S = 120.0, 30.0
_AGREEMENT = 1e-4
"""Curves over raw bytes, between knots at 1 and 2 and at millions, keep so many digits."""


@functools.cache
def available() -> bool:
    """Tell whether R and its package mgcv can be used here."""
    if shutil.which("Rscript") is None:
        return False
    asked = 'quit(status = !requireNamespace("mgcv", quietly = TRUE))'
    try:
        return (
            process.run(["Rscript", "--vanilla", "-e", asked], timeout_s=_START_S).returncode == 0
        )
    except ProgramError:
        return False


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
        with tempfile.TemporaryDirectory(prefix="colltune-mgcv-") as name:
            folder = Path(name)
            _write(folder, features, known)
            _run(folder, known.shape[1])
            self.predictor_ = _read(folder, (known.shape[1], features.shape[1]))
            _check(self.predictor_, features, known, folder)
        return self


def _write(folder: Path, X: Numbers, y: Numbers) -> None:
    """Write one row per finite time of `y` (n, C), output by output."""
    output, at = np.argwhere(np.isfinite(y.T)).T
    features = {f"x{k + 1}": column[at] for k, column in enumerate(X.T)}
    data = pd.DataFrame({"output": output + 1, "y": y[at, output], **features})
    data.to_csv(folder / "data.csv", index=False)


def _run(folder: Path, n_outputs: int) -> None:
    """Let R fit what is in `folder`."""
    command: list[str | Path] = [process.find("Rscript", INSTALL), "--vanilla", SCRIPT, folder]
    outcome = process.run(command, timeout_s=_START_S + _FIT_S * n_outputs)
    if outcome.returncode == _NO_MGCV:
        raise ProgramError(f"R has no package mgcv; {INSTALL}")
    process.check(outcome, "fitting with mgcv")
    failed = _table(folder, "errors").itertuples(index=False)
    if reasons := {int(output) - 1: f"mgcv cannot fit it: {why}" for output, why in failed}:
        raise UnfittableError(reasons)


def _table(folder: Path, name: str) -> pd.DataFrame:
    # as text, since pandas before 3 reads numbers with errors in their last digits
    return pd.read_csv(folder / f"{name}.csv", dtype=str)


def _read(folder: Path, shape: tuple[int, int]) -> NaturalSplines:
    """Read the terms' values of C outputs and k features; lay natural cubic splines through."""
    intercepts, counts = np.zeros(shape[0]), np.zeros(shape, np.int64)
    knots, values, bends = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    # in the order of outputs and features, 0 being the intercept
    for name, curve in _table(folder, "curves").groupby(["output", "feature"], sort=False):
        output, feature = (int(str(part)) for part in name)
        x, value = (np.array(curve[column], np.float64) for column in ("x", "value"))
        if not feature:
            intercepts[output - 1] = value[0]
            continue
        counts[output - 1, feature - 1] = len(x)
        knots.append(x)
        values.append(value)
        bends.append(CubicSpline(x, value, bc_type="natural")(x, 2))
    joined = (np.concatenate(parts) for parts in (knots, values, bends))
    return NaturalSplines(intercepts, counts, *joined)


def _check(found: NaturalSplines, X: Numbers, y: Numbers, folder: Path) -> None:
    """Compare what was taken over with what mgcv itself has fitted to `y` (n, C)."""
    expected = np.full(y.T.shape, np.nan)
    expected[np.isfinite(y.T)] = _table(folder, "fitted")["y"].astype(np.float64)
    apart = np.nanmax(np.abs(np.log(found.predict(X).T / expected)), axis=1)
    if len(wrong := np.flatnonzero(~(apart < _AGREEMENT))):
        told = "mgcv's model could not be converted: predictions differ by {:.1e}"
        raise UnfittableError({int(k): told.format(apart[k]) for k in wrong})
