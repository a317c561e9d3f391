"""What a bundle's manifest and arrays must be: names, kinds, shapes that fit together, bounds.

A hash tells that a bundle is whole, not that it is good: who makes a bundle makes its hash. So all
of it is checked here before anything is made of it, and nothing is allocated that is larger than
the file. What does not fit is a ValueError that names the key or the array.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from colltune.domain import INTERPOSED, Collective, Configuration
from colltune.features import feature_set

Arrays = Mapping[str, NDArray[Any]]
Lengths = dict[str, int]
MOST_MANIFEST_BYTES = 64 << 20
_MOST_ARRAYS, _MOST_NUMBER_BYTES, _MOST_WORD_BYTES = 200, 8, 4096
_MOST_VOTES = 1 << 20
_LONGEST_NAME = 1000
_VERSIONS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class Stored(NamedTuple):
    """An array's kinds of numbers, its axes (a length, or a name that stands for one), its range.

    C are configurations, k features, T trees, N their inner nodes, R rows that leaves name, P
    points.

    ``bounds`` makes lowest and highest value of the lengths; None: any number but infinity and NaN.
    """

    kinds: str
    axes: tuple[str | int, ...]
    bounds: Callable[[Lengths], tuple[float, float]] | None = None


class StoredArrays(Protocol):
    """What is stored as arrays, and tells what these must be."""

    stored: ClassVar[Mapping[str, Stored]]
    """What `arrays` returns."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that `from_arrays` needs, none of dtype object."""

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        """Insist on what ``stored`` does not tell of `arrays`; ValueError if it does not hold."""


def at_least(low: float) -> Callable[[Lengths], tuple[float, float]]:
    return lambda _lengths: (low, math.inf)


above_zero = at_least(1e-300)


def below(name: str, low: int = 0) -> Callable[[Lengths], tuple[float, float]]:
    return lambda lengths: (low, lengths[name] - 1)


def _node_or_leaf(lengths: Lengths) -> tuple[float, float]:
    return -lengths["R"], lengths["N"] - 1


ANY: Callable[[Lengths], tuple[float, float]] = lambda _lengths: (-math.inf, math.inf)  # noqa: E731
LOG: Callable[[Lengths], tuple[float, float]] = lambda _lengths: (-745.0, 745.0)  # noqa: E731
NODES = {
    "features": Stored("u", ("N",)),
    "thresholds": Stored("f", ("N",)),
    "left": Stored("i", ("N",), _node_or_leaf),
    "right": Stored("i", ("N",), _node_or_leaf),
    "roots": Stored("i", ("T",), _node_or_leaf),
}
_COVERAGE: Mapping[str, Stored] = {
    "shapes": Stored("i", ("S", 2), lambda _: (1, 2**31)),
    "sizes": Stored("i", ("M",), lambda _: (0, 2**62)),
    "low": Stored("i", (3,), at_least(0)),
    "high": Stored("i", (3,), at_least(0)),
    "ppn_range": Stored("i", (2,), at_least(0)),
    "alone": Stored("b", ("C",)),
    "together": Stored("b", ("C",)),
    "only": Stored("i", ("C",), below("S", -1)),
    "seen": Stored("b", ("S", "C")),
    "own": Stored("i", (2, 4)),
    "default_column": Stored("i", (1,), below("C", -1)),
    "ran": Stored("u", ("R", "V")),
    "columns": Stored("i", ("V",), below("C")),
} | NODES
_ERROR: Mapping[str, Stored] = {
    **{name: Stored("f", ("C",), LOG) for name in ("lower", "upper", "shortfall", "margin")},
    **{name: Stored("f", (1,), lambda _: (0.0, 745.0)) for name in ("detectable", "noise")},
}
_TREES = "trees_"


def checked_collective(collective: Collective, entry: Mapping[str, Any], library: str) -> None:
    """Insist that a collective's entry in a manifest is one."""
    for name in ("learner", "feature_set", "predictor", "sha256"):
        insist(type(entry[name]) is str, f"{collective}.{name} is no text")
    for name in ("configurations", "arrays"):
        texts = entry[name]
        good = type(texts) is list and all(type(t) is str for t in texts)
        insist(good and len(set(texts)) == len(texts), f"{collective}.{name} is no list of names")
    insist(bool(entry["configurations"]), f"{collective} has no configurations")
    for text in entry["configurations"]:
        found = Configuration.parse(text)
        good = found.collective is collective and found.library in (library, INTERPOSED)
        insist(good, f"{text[:80]} is no configuration of {library}'s {collective}")


def checked_manifest(manifest: Mapping[str, Any]) -> None:
    """Insist that what a manifest says of the whole bundle is what colltune writes."""
    for name in ("created_utc", "colltune_version"):
        insist(type(manifest[name]) is str, f"{name} is no text")
        insist(len(manifest[name]) <= _LONGEST_NAME, f"{name} is too long")
    insist(type(manifest.get("objective", "")) is str, "objective is no text")
    for name, value in manifest["context"].items():
        good = type(value) is str and len(value) <= _LONGEST_NAME
        insist(
            good and all(" " <= letter != "\x7f" for letter in value), f"context.{name} is no name"
        )
    shapes = manifest["training_shapes"]
    good = type(shapes) is list and all(
        type(pair) is list and [type(number) for number in pair] == [int, int] for pair in shapes
    )
    insist(good, "training_shapes are no pairs of whole numbers")
    insist(bool(manifest["collectives"]), "it has no collectives")
    _check_evidence(manifest.get("evidence", {}))


def _check_evidence(evidence: object) -> None:
    insist(isinstance(evidence, dict), "evidence is no table")
    assert isinstance(evidence, dict)
    learners, transfer = evidence.get("learners", {}), evidence.get("transfer", {})
    insist(type(learners) is dict and type(transfer) is dict, "evidence has no tables")
    for name, found in learners.items():
        good = type(found) is dict and all(type(figures) is dict for figures in found.values())
        insist(good, f"evidence.learners.{name} has no tables")
        for figures in found.values():
            for figure in ("instances", "regret", "share", "harm", "trust"):
                value = figures.get(figure)
                is_number = type(value) in (int, float) and abs(value) < 1e18
                insist(value is None or is_number, f"evidence.learners.{name}: no {figure}")
            counted = type(figures.get("instances", 0)) is int
            insist(counted, f"evidence.learners.{name}: instances are no number")


def arrays_in(content: bytes, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, in the order of their `names`; only kinds that bundles have."""
    insist(len(names) <= _MOST_ARRAYS, "too many arrays")
    stream = io.BytesIO(content)
    found = {name: _array_in(stream, name, len(content)) for name in names}
    insist(stream.tell() == len(content), "more than the arrays that the manifest names")
    return found


def _array_in(stream: io.BytesIO, name: str, size_bytes: int) -> NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    insist(version in _VERSIONS, f"{name}: another version of numpy's format")
    shape, is_fortran, dtype = _VERSIONS[version](stream)
    known = dtype.kind in "biufU" and dtype.isnative and dtype.fields is None
    most = _MOST_WORD_BYTES if dtype.kind == "U" else _MOST_NUMBER_BYTES
    insist(known and 0 < dtype.itemsize <= most, f"{name}: numbers of the kind {dtype.str[:20]}")
    needed = math.prod(shape) * dtype.itemsize
    fits = all(0 <= length <= size_bytes for length in shape)
    insist(fits and needed <= size_bytes - stream.tell(), f"{name}: larger than its file")
    flat: NDArray[Any] = np.frombuffer(stream.read(needed), dtype)
    if dtype.kind == "b":
        insist(not (flat.view(np.uint8) > 1).any(), f"{name}: neither true nor false")
    return flat.reshape(shape, order="F" if is_fortran else "C").copy()


def checked_arrays(
    learned: type[StoredArrays], parts: Mapping[str, Arrays], n_configurations: int, features: str
) -> None:
    """Insist that the arrays of a collective fit each other and its configurations.

    `learned` is the class of the predictor, `features` the name of its feature set.
    """
    known = {"C": n_configurations, "k": len(feature_set(features).columns)}
    coverage = parts["coverage"]
    where = {name.removeprefix(_TREES): a for name, a in coverage.items()}
    insist(len(where) == len(coverage), "coverage: an array is there twice")
    # an older colltune stored more than is read today
    of_coverage = {name: where[name] for name in _COVERAGE if name in where}
    check_predictor(learned, parts["predictor"], known)
    in_coverage = _fitting("coverage", of_coverage, _COVERAGE, dict(known))
    _fitting("error", parts["error"], _ERROR, dict(known))
    if "roots" in of_coverage:
        n_features = len(feature_set("divisors").columns)
        check_nodes("coverage", of_coverage, n_features)
        votes = in_coverage["T"] * max(1, in_coverage["V"])
        insist(votes <= _MOST_VOTES, "coverage: too many trees")
        # no tree tells nothing
        insist(bool(in_coverage["T"]) or not in_coverage["V"], "coverage: no trees")


def check_predictor(learned: type[StoredArrays], arrays: Arrays, known: Lengths) -> None:
    """Insist that `arrays` are those of such a predictor; `known` are C and k."""
    learned.check(arrays, _fitting("predictor", arrays, learned.stored, dict(known)))


def _fitting(part: str, arrays: Arrays, known: Mapping[str, Stored], lengths: Lengths) -> Lengths:
    """Insist on names, kinds, axes and bounds, and return the lengths of axes by name."""
    for name, array in arrays.items():
        if name not in known:
            raise ValueError(f"{part}.{name[:80]}: unknown")
        kinds, axes, _ = known[name]
        insist(array.dtype.kind in kinds, f"{part}.{name}: numbers of another kind")
        insist(array.ndim == len(axes), f"{part}.{name}: another number of axes")
        for axis, length in zip(axes, array.shape, strict=True):
            wanted = axis if isinstance(axis, int) else _length(axis, lengths, length)
            insist(length == wanted, f"{part}.{name}: does not fit the others")
    for name, array in arrays.items():
        _check_bounds(f"{part}.{name}", array, known[name], lengths)
    return lengths


def _length(axis: str, lengths: Lengths, length: int) -> int:
    name, plus, more = axis.partition("+")
    return lengths.setdefault(name, length - int(more or 0)) + (int(more) if plus else 0)


def _check_bounds(name: str, array: NDArray[Any], known: Stored, lengths: Lengths) -> None:
    if array.dtype.kind not in "iuf" or not array.size:
        return
    if known.bounds is None:
        insist(bool(np.isfinite(array).all()), f"{name}: not a number, or infinite")
        return
    with_sums = lengths | {f"{axis}+1": length + 1 for axis, length in lengths.items()}
    low, high = known.bounds(with_sums)
    insist(bool((array >= low).all() and (array <= high).all()), f"{name}: out of bounds")


def check_nodes(part: str, arrays: Arrays, n_features: int) -> None:
    """Insist on trees: no node has two parents, so that every way down ends."""
    insist(bool((arrays["features"] < n_features).all()), f"{part}.features: out of bounds")
    children = np.concatenate([arrays[name] for name in ("left", "right", "roots")])
    inner = children[children >= 0]
    parents = np.bincount(inner) if len(inner) else np.zeros(1)
    insist(int(parents.max()) <= 1, f"{part}: its trees are none")


def count_distinct(numbers: NDArray[Any]) -> int:
    """Return how many different numbers there are; np.unique would load masked arrays first."""
    return len(set(numbers.tolist()))


def insist(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)
