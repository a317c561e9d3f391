"""The paper's generalised additive model by R's own mgcv (Hunold et al., CLUSTER 2020, sec. IV-B).

R is run as a program, once for all configurations of a collective, and only for fitting. A thin
plate regression spline of one variable is a natural cubic spline with knots at the distinct values
of the data (Wood, J. R. Statist. Soc. B 65, 2003, sec. 2 and 3), so the values of each term there
are all that is taken over, and predictions are mgcv's.

A natural cubic spline is given by its values at the knots: among the curves through them it bends
least, and beyond the outer ones it is straight (Green and Silverman, *Nonparametric Regression and
Generalized Linear Models*, 1994, sec. 2.2). With two knots it is a straight line.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune import process
from colltune.errors import ProgramError, say
from colltune.models.bundle_schema import Arrays, Lengths, Stored, below, insist
from colltune.models.learners import (
    ArrayFields,
    Numbers,
    UnfittableError,
    bounded_exp,
    gam,
    slow_guessed,
)

if TYPE_CHECKING:
    import pandas as pd

SCRIPT = Path(__file__).parents[1] / "r" / "colltune.R"
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


def natural_spline(x: Numbers, knots: Numbers, values: Numbers, bends: Numbers) -> Numbers:
    """Return at points (n) a spline of ascending knots, values and second derivatives there."""
    inside = np.clip(x, knots[0], knots[-1])
    low = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    gap = knots[low + 1] - knots[low]
    right = (inside - knots[low]) / gap
    left = 1.0 - right
    bent = (left**3 - left) * bends[low] + (right**3 - right) * bends[low + 1]
    result = left * values[low] + right * values[low + 1] + gap**2 / 6.0 * bent
    gaps, rises = np.diff(knots), np.diff(values)
    first = rises[0] / gaps[0] - gaps[0] * bends[1] / 6.0
    last = rises[-1] / gaps[-1] + gaps[-1] * bends[-2] / 6.0
    return np.asarray(result + np.where(x < knots[0], first, last) * (x - inside))


@dataclass(frozen=True, eq=False)
class NaturalSplines(ArrayFields):
    """``exp(intercept + sum of one curve per feature)``, in seconds.

    ``intercepts`` (C); ``counts`` (C, k) are the knots of each curve, 0 where the feature has no
    effect; ``knots``, ``values`` and ``bends`` hold all curves one after another.
    """

    kind: ClassVar[str] = "natural_spline"
    stored: ClassVar[Mapping[str, Stored]] = {
        "intercepts": Stored("f", ("C",)),
        "counts": Stored("i", ("C", "k"), below("K+1")),
        "knots": Stored("f", ("K",)),
        "values": Stored("f", ("K",)),
        "bends": Stored("f", ("K",)),
    }
    intercepts: Numbers
    counts: NDArray[np.int64]
    knots: Numbers
    values: Numbers
    bends: Numbers

    @property
    def n_outputs(self) -> int:
        return len(self.intercepts)

    def predict(self, X: Numbers) -> Numbers:
        exponents = np.tile(self.intercepts, (len(X), 1))
        ends = np.cumsum(self.counts.ravel()).reshape(self.counts.shape)
        for output, feature in np.argwhere(self.counts).tolist():
            end = int(ends[output, feature])
            part = slice(end - int(self.counts[output, feature]), end)
            curve = self.knots[part], self.values[part], self.bends[part]
            exponents[:, output] += natural_spline(X[:, feature], *curve)
        return bounded_exp(exponents)

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        parts = [p.arrays() for p in predictors]
        return cls(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        counts = arrays["counts"].ravel()
        insist(sum(counts.tolist()) == lengths["K"], "predictor.counts: do not fit the knots")
        insist(not (counts == 1).any(), "predictor.counts: one knot alone")
        rises = np.diff(arrays["knots"])
        inside = np.ones(len(rises), np.bool_)
        ends = np.cumsum(counts)
        inside[[end - 1 for end in ends.tolist() if 0 < end <= len(rises)]] = False
        insist(bool((rises[inside] > 0).all()), "predictor.knots: not ascending")


def fit(X: Numbers, times_s: Numbers) -> NaturalSplines:
    """R's ``gam(y ~ s(x1) + s(x2) + …, family = Gamma(link = "log"))`` per configuration.

    Thin plate splines chosen by generalised cross-validation, mgcv's defaults. Times are divided by
    their geometric mean, which moves only the intercept. What was left out because it is slow
    enters with a guess, see `slow_guessed`. A feature of two values is linear, one that never
    varies has no effect.
    """
    known = slow_guessed(times_s)
    with tempfile.TemporaryDirectory(prefix="colltune-mgcv-") as name:
        folder = Path(name)
        _write(folder, X, known)
        _run(folder, known.shape[1])
        found = _read(folder, (known.shape[1], X.shape[1]))
        _check(found, X, known, folder)
    return found


def fit_published(X: Numbers, times_s: Numbers) -> NaturalSplines:
    """Additive model ``s(msize) + s(nodes) + s(ppn)`` of the paper by mgcv, else by pygam.

    pygam's knots are uniform, which puts all but one of them where no message has so many bytes. So
    pygam is given ranks among the distinct values, and its knots are at their quantiles. Between
    and beyond them a natural cubic spline goes on, as mgcv's does.
    """
    if available():
        return fit(X, times_s)
    found, reasons = [], {}
    for output, column in enumerate(slow_guessed(times_s).T):
        rows = np.isfinite(column)
        try:
            found.append(_by_ranks(X[rows], column[rows]))
        except ValueError as error:
            reasons[output] = str(error)
    if reasons:
        raise UnfittableError(reasons)
    return NaturalSplines.stacked(found)


def _by_ranks(X: Numbers, y: Numbers) -> NaturalSplines:
    """Fit pygam's model to ranks; lay natural splines through its terms' values."""
    from scipy.interpolate import CubicSpline

    distinct = [np.unique(column) for column in X.T]
    ranks = [np.searchsorted(d, column) for d, column in zip(distinct, X.T, strict=True)]
    model = gam.fit(np.column_stack(ranks), y)
    origin = np.zeros((1, len(distinct)))
    level = np.log(model.predict(origin)[:, 0])
    counts = np.array([len(d) if len(d) > 1 else 0 for d in distinct])
    knots, values, bends = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    for feature in np.flatnonzero(counts).tolist():
        asked = np.repeat(origin, counts[feature], axis=0)
        asked[:, feature] = np.arange(counts[feature])
        term = np.log(model.predict(asked)[:, 0]) - level
        knots.append(distinct[feature])
        values.append(term)
        bends.append(CubicSpline(distinct[feature], term, bc_type="natural")(distinct[feature], 2))
    joined = (np.concatenate(parts) for parts in (knots, values, bends))
    return NaturalSplines(level, counts[None], *joined)


def _write(folder: Path, X: Numbers, y: Numbers) -> None:
    """Write one row per finite time of `y` (n, C), output by output."""
    import pandas as pd

    output, at = np.argwhere(np.isfinite(y.T)).T
    features = {f"x{k + 1}": column[at] for k, column in enumerate(X.T)}
    data = pd.DataFrame({"output": output + 1, "y": y[at, output], **features})
    data.to_csv(folder / "data.csv", index=False)


def _run(folder: Path, n_outputs: int) -> None:
    """Let R fit what is in `folder`."""
    command: list[str | Path] = [process.find("Rscript", INSTALL), "--vanilla", SCRIPT, folder]
    outcome = process.run(command, timeout_s=_START_S + _FIT_S * n_outputs)
    if outcome.returncode == _NO_MGCV:
        raise say("no-mgcv")
    process.check(outcome, "fitting with mgcv")
    failed = _table(folder, "errors").itertuples(index=False)
    if reasons := {int(output) - 1: f"mgcv cannot fit it: {why}" for output, why in failed}:
        raise UnfittableError(reasons)


def _table(folder: Path, name: str) -> pd.DataFrame:
    import pandas as pd

    # as text, since pandas before 3 reads numbers with errors in their last digits
    return pd.read_csv(folder / f"{name}.csv", dtype=str)


def _read(folder: Path, shape: tuple[int, int]) -> NaturalSplines:
    """Read the terms' values of C outputs and k features; lay natural cubic splines through."""
    from scipy.interpolate import CubicSpline

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
