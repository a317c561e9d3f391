"""Log-log interpolation: what one would draw by hand through the measured points.

The logarithm of the runtime is multilinear in the features between the measured grid points: with
the feature set ``log``, a straight line in log-log paper along message size, nodes and processes
per node.

*Cells not measured.* The grid is that of all values measured of each feature. Where cells are
missing, they get the values that bend the surface least: the discrete thin-plate energy
(second derivatives along each feature and between each two, squared and integrated; Duchon 1977,
Wahba 1990, *Spline Models for Observational Data*, sec. 2.4) is minimised with the measured cells
held fixed. A shape measured apart from all others thereby gets the slopes of the nearest ones.

*Scattered points.* Where more than 1000 cells of that grid are missing, its longest axes keep only
some of their values, 1000 points in all, and the surface is fitted to what was measured with a
light smoothing by the same energy.

*Extrapolation* is linear, one range's width far at most, constant beyond. The slope is that over
the outer quarter of the message sizes, because the curve bends from latency to bandwidth, but that
over all nodes and all ppn, because the last two counts tell little: with the last interval's slope
a simulated fat tree, extrapolated from 16 to 36 nodes, lost .14 of the oracle's log gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve

Numbers = NDArray[np.float64]
_MOST_FEATURES = 3
_MOST_UNKNOWN = 1000
_LEVELLING = 1e-3
_SMOOTHING = 1e-4
_OUTER = (0.25, 1.0, 1.0)


class LogLogInterpolation:
    """Piecewise linear interpolation of log times on the grid of the first three features.

    Those are message size, nodes and processes per node in the feature sets ``log``, ``rich`` and
    ``basic``.
    """

    knots: list[Numbers]
    surface: Numbers

    def fit(self, X: Numbers, y: Numbers) -> Self:
        """Fit to features `X` (n, k) and positive times `y` (n)."""
        points, logs = X[:, :_MOST_FEATURES], np.log(y)
        knots = [np.unique(column) for column in points.T]
        missing = np.prod([float(len(k)) for k in knots]) - len(np.unique(points, axis=0))
        if missing <= _MOST_UNKNOWN:
            surface = _through(points, logs, knots)
        else:
            knots = _thinned(knots)
            surface = _along(points, logs, knots)
        for axis in range(len(knots)):
            knots[axis], surface = _prolonged(knots[axis], surface, axis)
        self.knots, self.surface = knots, surface
        return self

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds (n) for features `X` (n, k)."""
        result = np.zeros(len(X))
        for corner, weight in _corners(X, self.knots):
            result += weight * self.surface[corner]
        return np.exp(result)


def _corners(
    X: Numbers, knots: Sequence[Numbers]
) -> Iterator[tuple[tuple[NDArray[np.int64], ...], Numbers]]:
    """Yield the grid points around instances (n, at least d) and their weights in interpolation.

    Each grid point is given by its d numbers, each (n), with the weights (n); grid points without
    any weight are left out.
    """
    places = [_place(column, axis) for column, axis in zip(X.T, knots, strict=False)]
    for upper in product((0, 1), repeat=len(places)):
        weight = np.ones(len(X))
        for side, (_, share) in zip(upper, places, strict=True):
            weight = weight * (share if side else 1.0 - share)
        if weight.any():
            yield tuple(low + side for side, (low, _) in zip(upper, places, strict=True)), weight


def _place(values: Numbers, knots: Numbers) -> tuple[NDArray[np.int64], Numbers]:
    """Return the knot below each value (n), and how far it is to the next, from 0 to 1."""
    if len(knots) == 1:
        return np.zeros(len(values), np.int64), np.zeros(len(values))
    clipped = np.clip(values, knots[0], knots[-1])
    low = np.clip(np.searchsorted(knots, clipped, side="right") - 1, 0, len(knots) - 2)
    return low, (clipped - knots[low]) / (knots[low + 1] - knots[low])


def _thinned(knots: list[Numbers]) -> list[Numbers]:
    """Take values, never the ends, from the axis that has most until the grid is small."""
    thin = list(knots)
    while np.prod([float(len(k)) for k in thin]) > _MOST_UNKNOWN:
        axis = thin[(longest := int(np.argmax([len(k) for k in thin])))]
        kept = np.linspace(0, len(axis) - 1, len(axis) * 9 // 10).round().astype(np.int64)
        thin[longest] = axis[kept]
    return thin


def _through(points: Numbers, logs: Numbers, knots: list[Numbers]) -> Numbers:
    """Return the surface on the grid through points (n, d) that all lie on it."""
    shape = tuple(len(k) for k in knots)
    at = [np.searchsorted(k, column) for k, column in zip(knots, points.T, strict=True)]
    cell = np.ravel_multi_index(at, shape)
    counts = np.bincount(cell, minlength=int(np.prod(shape)))
    surface = np.bincount(cell, weights=logs, minlength=len(counts)) / np.maximum(counts, 1)
    known = counts > 0
    if not known.all():
        energy = _energy(knots)
        pull = -energy[~known][:, known] @ surface[known]
        surface[~known] = spsolve(energy[~known][:, ~known].tocsc(), pull)
    return surface.reshape(shape)


def _along(points: Numbers, logs: Numbers, knots: list[Numbers]) -> Numbers:
    """Return the surface on the grid that is nearest to points (n, d) and yet smooth."""
    shape = tuple(len(k) for k in knots)
    weights = sparse.csr_matrix((len(points), int(np.prod(shape))))
    for corner, weight in _corners(points, knots):
        entries = (weight, (np.arange(len(points)), np.ravel_multi_index(corner, shape)))
        weights = weights + sparse.csr_matrix(entries, shape=weights.shape)
    normal = weights.T @ weights + _SMOOTHING * _energy(knots)
    center = logs.mean()
    surface = spsolve(normal.tocsc(), weights.T @ (logs - center))
    return np.asarray(center + surface).reshape(shape)


def _energy(knots: list[Numbers]) -> sparse.csr_matrix:
    """Return the quadratic form of a surface's bending, each feature measured in its own range.

    A trace of its slope is added, so that it is level where nothing else determines it.
    """
    axes = [_forms(k) for k in knots]

    def integrated(orders: dict[int, int]) -> sparse.csr_matrix:
        factors = [forms[orders.get(axis, 0)] for axis, forms in enumerate(axes)]
        return reduce(lambda a, b: sparse.kron(a, b, format="csr"), factors)

    dimensions = range(len(axes))
    terms = [integrated({a: 2}) + _LEVELLING * integrated({a: 1}) for a in dimensions]
    terms += [2.0 * integrated({a: 1, b: 1}) for a in dimensions for b in range(a)]
    return sum(terms[1:], start=terms[0])


def _forms(knots: Numbers) -> tuple[sparse.csr_matrix, ...]:
    """Return the integrals of the squared function, its slope and its bend, each (K, K)."""
    n = len(knots)
    if n == 1:
        return tuple(sparse.csr_matrix([[value]]) for value in (1.0, 0.0, 0.0))
    gaps = np.diff(knots) / (knots[-1] - knots[0])
    mass = np.zeros(n)
    mass[:-1] += gaps / 2
    mass[1:] += gaps / 2
    steepness = np.diff(np.eye(n), axis=0) / gaps[:, None]
    slope = np.sqrt(gaps)[:, None] * steepness
    bend = np.diff(steepness, axis=0) / np.sqrt(mass[1:-1, None])
    forms = (np.diag(mass), slope.T @ slope, bend.T @ bend)
    return tuple(sparse.csr_matrix(form) for form in forms)


def _prolonged(knots: Numbers, surface: Numbers, axis: int) -> tuple[Numbers, Numbers]:
    """Add a knot one range's width below and one above, on the surface's outer slopes."""
    if len(knots) == 1:
        return knots, surface
    width = float(knots[-1] - knots[0])
    slabs = np.moveaxis(surface, axis, 0)
    reach = _OUTER[axis] * width
    inner = np.array([np.searchsorted(knots, knots[0] + reach), len(knots) - 1])
    outer = np.array([np.searchsorted(knots, knots[-1] - reach, "right") - 1, 0])
    first, last = max(1, int(inner.min())), min(len(knots) - 2, int(outer.max()))
    rise_below = (slabs[first] - slabs[0]) / (knots[first] - knots[0])
    rise_above = (slabs[-1] - slabs[last]) / (knots[-1] - knots[last])
    below, above = slabs[0] - width * rise_below, slabs[-1] + width * rise_above
    longer = np.concatenate([below[None], slabs, above[None]])
    ends = [knots[0] - width, knots[-1] + width]
    return np.concatenate([ends[:1], knots, ends[1:]]), np.moveaxis(longer, 0, axis)
