"""What a bundle's manifest and arrays must be: names, kinds, shapes that fit together, bounds.

A hash tells that a bundle is whole, not that it is good: who makes a bundle makes its hash. So all
of it is checked here before anything is made of it, and nothing is allocated that is larger than
the file. What does not fit is a ValueError that names the key or the array.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.domain import INTERPOSED, Collective, Configuration
from colltune.features import feature_set

Arrays = Mapping[str, NDArray[Any]]
Lengths = dict[str, int]
MOST_MANIFEST_BYTES = 64 << 20
_MOST_ARRAYS, _MOST_NUMBER_BYTES, _MOST_WORD_BYTES = 200, 8, 4096
_MOST_VOTES, _MOST_STEPS = 1 << 20, 1 << 26
_LONGEST_NAME = 1000
_VERSIONS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class _Array(NamedTuple):
    """An array's kinds of numbers, its axes (a length, or a name that stands for one), its range.

    ``bounds`` makes lowest and highest value of the lengths; None: any number but infinity and NaN.
    """

    kinds: str
    axes: tuple[str | int, ...]
    bounds: Callable[[Lengths], tuple[float, float]] | None = None


def _from(low: float) -> Callable[[Lengths], tuple[float, float]]:
    return lambda _lengths: (low, math.inf)


def _below(name: str, low: int = 0) -> Callable[[Lengths], tuple[float, float]]:
    return lambda lengths: (low, lengths[name] - 1)


def _node_or_leaf(nodes: str, leaves: str) -> Callable[[Lengths], tuple[float, float]]:
    return lambda lengths: (-lengths[leaves], lengths[nodes] - 1)


_ANY: Callable[[Lengths], tuple[float, float]] = lambda _lengths: (-math.inf, math.inf)  # noqa: E731
_LOG: Callable[[Lengths], tuple[float, float]] = lambda _lengths: (-745.0, 745.0)  # noqa: E731
_NODES = {
    "features": _Array("u", ("N",)),
    "thresholds": _Array("f", ("N",)),
    "left": _Array("i", ("N",), _node_or_leaf("N", "R")),
    "right": _Array("i", ("N",), _node_or_leaf("N", "R")),
    "roots": _Array("i", ("T",), _node_or_leaf("N", "R")),
}
_LEVEL = {
    "columns": _Array("i", ("d",), _below("k")),
    "center": _Array("f", ("d",)),
    "scale": _Array("f", ("d",)),
    "lengths": _Array("f", ("d",), _from(1e-300)),
    "points": _Array("f", ("P", "d")),
    "weights": _Array("f", ("P",)),
    "slopes": _Array("f", ("d",)),
    "offset": _Array("f", (1,)),
}
_PREDICTORS: Mapping[str, Mapping[str, _Array]] = {
    "forest": _NODES
    | {
        "regrets": _Array("i", ("R", "C")),
        "excess": _Array("i", ("R", "C")),
        "along": _Array("i", ("a",), _below("k")),
        "clip": _Array("f", (1,), _from(1e-300)),
    }
    | {f"level_{name}": array for name, array in _LEVEL.items()},
    "trees": {
        "features": _Array("u", ("T", "w"), _below("k")),
        # what splits nothing is infinite
        "thresholds": _Array("f", ("T", "w"), _ANY),
        "leaves": _Array("f", ("T", "W")),
        "first": _Array("i", ("C+1",), _below("T+1")),
        "margins": _Array("f", ("C",), _LOG),
        "units_s": _Array("f", ("C",), _from(0.0)),
        "cuts": _Array("f", ("c",), _ANY),
        "cut_counts": _Array("i", ("k",), _below("c+1")),
    },
    "neighbours": {
        "k": _Array("i", (1,), _from(1)),
        "site_points": _Array("i", ("s",), _from(1)),
        "site_outputs": _Array("i", ("s",), _from(1)),
        "points": _Array("f", ("P", "k")),
        "center": _Array("f", ("s", "k")),
        "scale": _Array("f", ("s", "k")),
        "log_times": _Array("f", ("t",), _LOG),
        "outputs": _Array("i", ("C",), _below("C")),
    },
    "spline": {
        "intercepts": _Array("f", ("C",)),
        "knots": _Array("f", ("C", "k", 2)),
        "sizes": _Array("i", ("C", "k"), _below("s+1")),
        "coefficients": _Array("f", ("C", "k", "s")),
    },
    "natural_spline": {
        "intercepts": _Array("f", ("C",)),
        "counts": _Array("i", ("C", "k"), _below("K+1")),
        "knots": _Array("f", ("K",)),
        "values": _Array("f", ("K",)),
        "bends": _Array("f", ("K",)),
    },
    "costs": {
        "configurations": _Array("U", ("C",)),
        "columns": _Array("U", ("k",)),
        "coefficients": _Array("U", ("m",)),
        "vectors": _Array("f", ("C", "m")),
        "formulas_version": _Array("i", (1,)),
    },
}
"""Arrays by kind of predictor. C are configurations, k features, T trees, N their inner nodes, R
rows that leaves name, P points."""
_COVERAGE: Mapping[str, _Array] = {
    "shapes": _Array("i", ("S", 2), lambda _: (1, 2**31)),
    "sizes": _Array("i", ("M",), lambda _: (0, 2**62)),
    "low": _Array("i", (3,), _from(0)),
    "high": _Array("i", (3,), _from(0)),
    "ppn_range": _Array("i", (2,), _from(0)),
    "alone": _Array("b", ("C",)),
    "together": _Array("b", ("C",)),
    "only": _Array("i", ("C",), _below("S", -1)),
    "seen": _Array("b", ("S", "C")),
    "own": _Array("i", (2, 4)),
    "default_column": _Array("i", (1,), _below("C", -1)),
    "ran": _Array("u", ("R", "V")),
    "columns": _Array("i", ("V",), _below("C")),
} | _NODES
_ERROR: Mapping[str, _Array] = {
    **{name: _Array("f", ("C",), _LOG) for name in ("lower", "upper", "shortfall", "margin")},
    **{name: _Array("f", (1,), lambda _: (0.0, 745.0)) for name in ("detectable", "noise")},
}
_TREES = "trees_"


def checked_collective(collective: Collective, entry: Mapping[str, Any], library: str) -> None:
    """Insist that a collective's entry in a manifest is one."""
    for name in ("learner", "feature_set", "predictor", "sha256"):
        _insist(type(entry[name]) is str, f"{collective}.{name} is no text")
    for name in ("configurations", "arrays"):
        texts = entry[name]
        good = type(texts) is list and all(type(t) is str for t in texts)
        _insist(good and len(set(texts)) == len(texts), f"{collective}.{name} is no list of names")
    _insist(bool(entry["configurations"]), f"{collective} has no configurations")
    for text in entry["configurations"]:
        found = Configuration.parse(text)
        good = found.collective is collective and found.library in (library, INTERPOSED)
        _insist(good, f"{text[:80]} is no configuration of {library}'s {collective}")


def checked_manifest(manifest: Mapping[str, Any]) -> None:
    """Insist that what a manifest says of the whole bundle is what colltune writes."""
    for name in ("created_utc", "colltune_version"):
        _insist(type(manifest[name]) is str, f"{name} is no text")
        _insist(len(manifest[name]) <= _LONGEST_NAME, f"{name} is too long")
    _insist(type(manifest.get("objective", "")) is str, "objective is no text")
    for name, value in manifest["context"].items():
        good = type(value) is str and len(value) <= _LONGEST_NAME
        _insist(
            good and all(" " <= letter != "\x7f" for letter in value), f"context.{name} is no name"
        )
    shapes = manifest["training_shapes"]
    good = type(shapes) is list and all(
        type(pair) is list and [type(number) for number in pair] == [int, int] for pair in shapes
    )
    _insist(good, "training_shapes are no pairs of whole numbers")
    _insist(bool(manifest["collectives"]), "it has no collectives")
    _check_evidence(manifest.get("evidence", {}))


def _check_evidence(evidence: object) -> None:
    _insist(isinstance(evidence, dict), "evidence is no table")
    assert isinstance(evidence, dict)
    learners, transfer = evidence.get("learners", {}), evidence.get("transfer", {})
    _insist(type(learners) is dict and type(transfer) is dict, "evidence has no tables")
    for name, found in learners.items():
        good = type(found) is dict and all(type(figures) is dict for figures in found.values())
        _insist(good, f"evidence.learners.{name} has no tables")
        for figures in found.values():
            for figure in ("instances", "regret", "share", "harm", "trust"):
                value = figures.get(figure)
                is_number = type(value) in (int, float) and abs(value) < 1e18
                _insist(value is None or is_number, f"evidence.learners.{name}: no {figure}")
            counted = type(figures.get("instances", 0)) is int
            _insist(counted, f"evidence.learners.{name}: instances are no number")


def arrays_in(content: bytes, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, in the order of their `names`; only kinds that bundles have."""
    _insist(len(names) <= _MOST_ARRAYS, "too many arrays")
    stream = io.BytesIO(content)
    found = {name: _array_in(stream, name, len(content)) for name in names}
    _insist(stream.tell() == len(content), "more than the arrays that the manifest names")
    return found


def _array_in(stream: io.BytesIO, name: str, size_bytes: int) -> NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    _insist(version in _VERSIONS, f"{name}: another version of numpy's format")
    shape, is_fortran, dtype = _VERSIONS[version](stream)
    known = dtype.kind in "biufU" and dtype.isnative and dtype.fields is None
    most = _MOST_WORD_BYTES if dtype.kind == "U" else _MOST_NUMBER_BYTES
    _insist(known and 0 < dtype.itemsize <= most, f"{name}: numbers of the kind {dtype.str[:20]}")
    needed = math.prod(shape) * dtype.itemsize
    fits = all(0 <= length <= size_bytes for length in shape)
    _insist(fits and needed <= size_bytes - stream.tell(), f"{name}: larger than its file")
    flat: NDArray[Any] = np.frombuffer(stream.read(needed), dtype)
    if dtype.kind == "b":
        _insist(not (flat.view(np.uint8) > 1).any(), f"{name}: neither true nor false")
    return flat.reshape(shape, order="F" if is_fortran else "C").copy()


def checked_arrays(
    kind: str, parts: Mapping[str, Arrays], n_configurations: int, features: str
) -> None:
    """Insist that the arrays of a collective fit each other and its configurations.

    `kind` is that of the predictor, `features` the name of its feature set.
    """
    known = {"C": n_configurations, "k": len(feature_set(features).columns)}
    predictor, coverage = parts["predictor"], parts["coverage"]
    where = {name.removeprefix(_TREES): a for name, a in coverage.items()}
    _insist(len(where) == len(coverage), "coverage: an array is there twice")
    # an older colltune stored more than is read today
    of_coverage = {name: where[name] for name in _COVERAGE if name in where}
    lengths = _fitting("predictor", predictor, _PREDICTORS[kind], dict(known))
    in_coverage = _fitting("coverage", of_coverage, _COVERAGE, dict(known))
    _fitting("error", parts["error"], _ERROR, dict(known))
    if "roots" in of_coverage:
        n_features = len(feature_set("divisors").columns)
        _check_nodes("coverage", of_coverage, n_features)
        votes = in_coverage["T"] * max(1, in_coverage["V"])
        _insist(votes <= _MOST_VOTES, "coverage: too many trees")
        # no tree tells nothing
        _insist(bool(in_coverage["T"]) or not in_coverage["V"], "coverage: no trees")
    if kind in _CHECKS:
        _CHECKS[kind](predictor, lengths)


def _fitting(part: str, arrays: Arrays, known: Mapping[str, _Array], lengths: Lengths) -> Lengths:
    """Insist on names, kinds, axes and bounds, and return the lengths of axes by name."""
    for name, array in arrays.items():
        if name not in known:
            raise ValueError(f"{part}.{name[:80]}: unknown")
        kinds, axes, _ = known[name]
        _insist(array.dtype.kind in kinds, f"{part}.{name}: numbers of another kind")
        _insist(array.ndim == len(axes), f"{part}.{name}: another number of axes")
        for axis, length in zip(axes, array.shape, strict=True):
            wanted = axis if isinstance(axis, int) else _length(axis, lengths, length)
            _insist(length == wanted, f"{part}.{name}: does not fit the others")
    for name, array in arrays.items():
        _check_bounds(f"{part}.{name}", array, known[name], lengths)
    return lengths


def _length(axis: str, lengths: Lengths, length: int) -> int:
    name, plus, more = axis.partition("+")
    return lengths.setdefault(name, length - int(more or 0)) + (int(more) if plus else 0)


def _check_bounds(name: str, array: NDArray[Any], known: _Array, lengths: Lengths) -> None:
    if array.dtype.kind not in "iuf" or not array.size:
        return
    if known.bounds is None:
        _insist(bool(np.isfinite(array).all()), f"{name}: not a number, or infinite")
        return
    with_sums = lengths | {f"{axis}+1": length + 1 for axis, length in lengths.items()}
    low, high = known.bounds(with_sums)
    _insist(bool((array >= low).all() and (array <= high).all()), f"{name}: out of bounds")


def _check_nodes(part: str, arrays: Arrays, n_features: int) -> None:
    """Insist on trees: no node has two parents, so that every way down ends."""
    _insist(bool((arrays["features"] < n_features).all()), f"{part}.features: out of bounds")
    children = np.concatenate([arrays[name] for name in ("left", "right", "roots")])
    inner = children[children >= 0]
    parents = np.bincount(inner) if len(inner) else np.zeros(1)
    _insist(int(parents.max()) <= 1, f"{part}: its trees are none")


def _distinct(numbers: NDArray[Any]) -> int:
    """Return how many different numbers there are; np.unique would load masked arrays first."""
    return len(set(numbers.tolist()))


def _check_forest(arrays: Arrays, lengths: Lengths) -> None:
    _check_nodes("predictor", arrays, lengths["k"])
    _insist(lengths["T"] > 0, "predictor: no trees")
    _insist(bool((arrays["level_scale"] != 0).all()), "predictor.level_scale: 0")
    _insist(_distinct(arrays["along"]) == lengths["a"], "predictor.along: a feature twice")
    asked = np.isin(arrays["features"], arrays["along"])
    cuts = _distinct(arrays["thresholds"][asked]) * max(1, lengths["a"])
    _insist(cuts * lengths["C"] <= _MOST_STEPS, "predictor.thresholds: too many")


def _check_trees(arrays: Arrays, lengths: Lengths) -> None:
    w, first = lengths["w"], arrays["first"]
    _insist(w > 0 and w & (w + 1) == 0 and lengths["W"] == w + 1, "predictor.leaves: no tree's")
    ascends = first[0] == 0 and first[-1] == lengths["T"] and (np.diff(first) >= 0).all()
    _insist(bool(ascends), "predictor.first: not ascending")
    _insist(int(arrays["cut_counts"].sum()) == lengths["c"], "predictor.cut_counts: other cuts")
    _insist(not np.isnan(arrays["cuts"]).any(), "predictor.cuts: not a number")
    _insist(not np.isnan(arrays["thresholds"]).any(), "predictor.thresholds: not a number")


def _check_neighbours(arrays: Arrays, lengths: Lengths) -> None:
    points, outputs = arrays["site_points"].tolist(), arrays["site_outputs"].tolist()
    times = sum(p * o for p, o in zip(points, outputs, strict=True))
    fits = (sum(points), sum(outputs), times) == tuple(lengths[n] for n in ("P", "C", "t"))
    _insist(fits, "predictor.site_points: do not fit the points")
    _insist(_distinct(arrays["outputs"]) == lengths["C"], "predictor.outputs: one twice")
    _insist(bool((arrays["scale"] != 0).all()), "predictor.scale: 0")


def _check_spline(arrays: Arrays, _lengths: Lengths) -> None:
    sizes = arrays["sizes"]
    _insist(not ((sizes > 0) & (sizes < 4)).any(), "predictor.sizes: fewer than a cubic spline has")


def _check_natural_spline(arrays: Arrays, lengths: Lengths) -> None:
    counts = arrays["counts"].ravel()
    _insist(sum(counts.tolist()) == lengths["K"], "predictor.counts: do not fit the knots")
    _insist(not (counts == 1).any(), "predictor.counts: one knot alone")
    rises = np.diff(arrays["knots"])
    inside = np.ones(len(rises), np.bool_)
    ends = np.cumsum(counts)
    inside[[end - 1 for end in ends.tolist() if 0 < end <= len(rises)]] = False
    _insist(bool((rises[inside] > 0).all()), "predictor.knots: not ascending")


_CHECKS: Mapping[str, Callable[[Arrays, Lengths], None]] = {
    "forest": _check_forest,
    "trees": _check_trees,
    "neighbours": _check_neighbours,
    "spline": _check_spline,
    "natural_spline": _check_natural_spline,
}


def _insist(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)
