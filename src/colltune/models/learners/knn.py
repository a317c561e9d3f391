"""K nearest neighbours on scaled inputs; configurations measured alike share their neighbours.

With K = 5 they are a learner of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020, sec. III-B).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.bundle_schema import (
    LOG,
    Arrays,
    Lengths,
    Stored,
    at_least,
    below,
    count_distinct,
    insist,
)
from colltune.models.learners import Numbers, distinct

_K = 5
_TIE, _EXACT_TIE = 0.05, 1e-9
_ROUNDING = 1e-18
_STEP, _STEPS = 2.0**-36, 45
_CHUNK_ELEMENTS = 1 << 16


@dataclass(frozen=True, eq=False)
class _Site:
    """The points that some configurations were measured at: ``points`` (P, k), already scaled.

    ``log_times`` (P, c), whole multiples of `_STEP`, belong to the output columns ``outputs`` (c).
    """

    points: Numbers
    center: Numbers
    scale: Numbers
    log_times: Numbers
    outputs: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Mean over the `k` nearest measured points, all that tie with the last included.

    The mean is geometric, and squared distances within 5 % are ties: on a grid of powers of two the
    fifth and the sixth neighbour are often equally far, and a decision must not hang on a single
    byte. An ``arithmetic`` mean is that of the seconds, over what is exactly as far.

    Inputs are standardised by the measured points' mean and standard deviation. Logarithms of times
    are whole multiples of a small step, and so are times for an arithmetic mean; their sums are
    therefore exact, and a prediction does not depend on how it is computed.
    """

    kind: ClassVar[str] = "neighbours"
    stored: ClassVar[Mapping[str, Stored]] = {
        "k": Stored("i", (1,), at_least(1)),
        "site_points": Stored("i", ("s",), at_least(1)),
        "site_outputs": Stored("i", ("s",), at_least(1)),
        "points": Stored("f", ("P", "k")),
        "center": Stored("f", ("s", "k")),
        "scale": Stored("f", ("s", "k")),
        "log_times": Stored("f", ("t",), LOG),
        "outputs": Stored("i", ("C",), below("C")),
        "arithmetic": Stored("f", (1,)),
    }
    k: int
    sites: tuple[_Site, ...]
    arithmetic: bool = False

    @classmethod
    def fit(cls, X: Numbers, time_s: Numbers, k: int, *, arithmetic: bool = False) -> Neighbours:
        """Keep the points `X` (n, features) with their times in seconds (n)."""
        center, deviation = X.mean(axis=0), X.std(axis=0)
        scale = np.where(deviation > 0, deviation, 1.0)
        log_times = _in_steps(np.log(time_s)[:, None])
        site = _Site((X - center) / scale, center, scale, log_times, np.zeros(1, np.int64))
        return cls(k, (site,), arithmetic)

    @property
    def n_outputs(self) -> int:
        return sum(len(site.outputs) for site in self.sites)

    def predict(self, X: Numbers) -> Numbers:
        result = np.empty((len(X), self.n_outputs))
        for site in self.sites:
            rows = max(1, _CHUNK_ELEMENTS // max(1, len(site.points)))
            for first in range(0, len(X), rows):
                part = slice(first, first + rows)
                result[part, site.outputs] = self._at_site(site, X[part])
        return result

    def _at_site(self, site: _Site, X: Numbers) -> Numbers:
        queries = (X - site.center) / site.scale
        distances = np.zeros((len(queries), len(site.points)))
        for query, point in zip(queries.T, site.points.T, strict=True):
            values, places = distinct(query)
            distances += np.square(values[:, None] - point)[places]
        last = min(self.k, len(site.points)) - 1
        reach = np.partition(distances, last, axis=1)[:, last, None]
        tie = _EXACT_TIE if self.arithmetic else _TIE
        near = (distances <= reach * (1 + tie) + _ROUNDING).astype(np.float64)
        count = near.sum(axis=1, keepdims=True)
        if self.arithmetic:
            return np.asarray(near @ _whole_steps(np.exp(site.log_times)) / count)
        return np.asarray(np.exp(near @ site.log_times / count))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the points, scalings and times of all sites, concatenated, with their lengths."""
        arithmetic = {"arithmetic": np.ones(1)} if self.arithmetic else {}
        return arithmetic | {
            "k": np.array([self.k]),
            "site_points": np.array([len(s.points) for s in self.sites]),
            "site_outputs": np.array([len(s.outputs) for s in self.sites]),
            "points": np.concatenate([s.points for s in self.sites]),
            "center": np.stack([s.center for s in self.sites]),
            "scale": np.stack([s.scale for s in self.sites]),
            "log_times": np.concatenate([s.log_times.ravel() for s in self.sites]),
            "outputs": np.concatenate([s.outputs for s in self.sites]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        n_points, n_outputs = arrays["site_points"], arrays["site_outputs"]
        points = np.split(arrays["points"], np.cumsum(n_points)[:-1])
        outputs = np.split(arrays["outputs"], np.cumsum(n_outputs)[:-1])
        times = np.split(_in_steps(arrays["log_times"]), np.cumsum(n_points * n_outputs)[:-1])
        sites = tuple(
            _Site(p, center, scale, t.reshape(len(p), len(o)), o)
            for p, center, scale, t, o in zip(
                points, arrays["center"], arrays["scale"], times, outputs, strict=True
            )
        )
        return cls(int(arrays["k"][0]), sites, "arithmetic" in arrays)

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side; sites with equal points become one."""
        groups: dict[bytes, list[_Site]] = {}
        offset = 0
        for predictor in predictors:
            for site in predictor.sites:
                moved = replace(site, outputs=site.outputs + offset)
                key = site.points.tobytes() + site.center.tobytes() + site.scale.tobytes()
                groups.setdefault(key, []).append(moved)
            offset += predictor.n_outputs
        sites = tuple(
            replace(
                group[0],
                log_times=np.concatenate([s.log_times for s in group], axis=1),
                outputs=np.concatenate([s.outputs for s in group]),
            )
            for group in groups.values()
        )
        return cls(predictors[0].k, sites, predictors[0].arithmetic)

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        points, outputs = arrays["site_points"].tolist(), arrays["site_outputs"].tolist()
        times = sum(p * o for p, o in zip(points, outputs, strict=True))
        fits = (sum(points), sum(outputs), times) == tuple(lengths[n] for n in ("P", "C", "t"))
        insist(fits, "predictor.site_points: do not fit the points")
        insist(count_distinct(arrays["outputs"]) == lengths["C"], "predictor.outputs: one twice")
        insist(bool((arrays["scale"] != 0).all()), "predictor.scale: 0")


def fit(X: Numbers, times_s: Numbers) -> Neighbours:
    """Geometric mean of the nearest measured times.

    Inputs are standardised. As in the paper's R package all points at the distance of the k-th are
    used, which on a grid of message sizes and node counts decides most predictions. The mean is
    geometric, because runtimes of neighbouring message sizes differ by factors. With fewer than
    five points all are used.
    """
    return Neighbours.fit(X, times_s, _K)


def fit_published(X: Numbers, times_s: Numbers) -> Neighbours:
    """Arithmetic mean of the five nearest measured times.

    Inputs are standardised. As in R's caret all points at the distance of the fifth are used, where
    scikit-learn would take any five.
    """
    return Neighbours.fit(X, times_s, _K, arithmetic=True)


def _whole_steps(time_s: Numbers) -> Numbers:
    """Return times (P, c) as multiples of a small part of each column's longest; not 0."""
    step = np.exp2(np.ceil(np.log2(time_s.max(axis=0))) - _STEPS)
    return np.asarray(np.maximum(np.rint(time_s / step), 1.0) * step)


def _in_steps(log_times: Numbers) -> Numbers:
    return np.asarray(np.rint(log_times / _STEP) * _STEP)
