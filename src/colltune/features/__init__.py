"""Instances as numbers: named, vectorised maps from (nodes, ppn, message size) to a matrix.

Sizes are bytes as the caller passes them, counts are nodes and processes per node. A message of 0
bytes counts as one of 1 byte wherever a logarithm is taken. Only numpy is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.errors import DataError, unknown

Numbers = NDArray[np.float64]


class FeatureSet(NamedTuple):
    """Named columns and the function that computes them.

    ``compute`` takes three vectors of length n (nodes, ppn, msize_bytes) as floats and returns a
    float64 matrix of shape (n, len(columns)).

    ``name`` is the one in bundles, ``columns`` are the names of the k features.
    """

    name: str
    columns: tuple[str, ...]
    compute: Callable[[Numbers, Numbers, Numbers], Numbers]

    def matrix(
        self, nodes: np.typing.ArrayLike, ppn: np.typing.ArrayLike, msize_bytes: np.typing.ArrayLike
    ) -> Numbers:
        """Return the features of n instances, shape (n, k), float64.

        `ppn` are processes per node (n), as whole numbers.

        Parameters
        ----------
        nodes, ppn, msize_bytes
            Scalars or vectors of one length: nodes, processes per node, message size in bytes.
        """
        vectors = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(v, np.float64)) for v in (nodes, ppn, msize_bytes))
        )
        return self.compute(*vectors)


def _basic(nodes: Numbers, ppn: Numbers, msize_bytes: Numbers) -> Numbers:
    columns: Numbers = np.column_stack([msize_bytes, nodes, ppn])
    return columns


def _log(nodes: Numbers, ppn: Numbers, msize_bytes: Numbers) -> Numbers:
    logs: Numbers = np.log2(_basic(nodes, ppn, np.maximum(msize_bytes, 1.0)))
    return logs


def _rich(nodes: Numbers, ppn: Numbers, msize_bytes: Numbers) -> Numbers:
    nprocs = nodes * ppn
    logs = _log(nodes, ppn, msize_bytes)
    log_msize, log_nodes, log_ppn = logs.T
    log_nprocs = np.log2(nprocs)
    volumes = [log_msize - log_nprocs, log_msize + log_ppn, log_msize + log_nprocs]
    rounds = [np.ceil(log_nprocs), np.ceil(log_nodes)]
    powers = [_is_power_of_two(count) for count in (nprocs, nodes, ppn)]
    odd = [count % 2 for count in (nprocs, nodes, ppn)]
    columns: Numbers = np.column_stack([logs, log_nprocs, *volumes, *rounds, *powers, *odd])
    return columns


def _divisors(nodes: Numbers, ppn: Numbers, msize_bytes: Numbers) -> Numbers:
    nprocs = nodes * ppn
    largest = np.array([_largest_prime_factor(count) for count in nprocs.astype(np.int64).tolist()])
    factors = np.log2(np.column_stack([largest, nprocs / largest]))
    return np.concatenate([_rich(nodes, ppn, msize_bytes), factors], axis=1)


@functools.cache
def _largest_prime_factor(count: int) -> int:
    divisor = 2
    while divisor * divisor <= count:
        if count % divisor:
            divisor += 1
        else:
            count //= divisor
    return count


def _is_power_of_two(count: Numbers) -> Numbers:
    mantissa, _ = np.frexp(count)
    return np.asarray(mantissa == 0.5, np.float64)


_RICH_COLUMNS = (
    "log2_msize",
    "log2_nodes",
    "log2_ppn",
    "log2_nprocs",
    "log2_msize_per_process",
    "log2_msize_per_node",
    "log2_msize_of_all",
    "rounds_nprocs",
    "rounds_nodes",
    "nprocs_is_power_of_two",
    "nodes_is_power_of_two",
    "ppn_is_power_of_two",
    "nprocs_is_odd",
    "nodes_is_odd",
    "ppn_is_odd",
)

FEATURE_SETS: dict[str, FeatureSet] = {
    "basic": FeatureSet("basic", ("msize_bytes", "nodes", "ppn"), _basic),
    "log": FeatureSet("log", ("log2_msize", "log2_nodes", "log2_ppn"), _log),
    "rich": FeatureSet("rich", _RICH_COLUMNS, _rich),
    "divisors": FeatureSet(
        "divisors",
        (*_RICH_COLUMNS, "log2_largest_prime_factor", "log2_other_factors"),
        _divisors,
    ),
}
"""``basic`` is the input of Hunold et al. (CLUSTER 2020, sec. III-B): message size, nodes, ppn.

``log`` is the same on a logarithmic scale. ``rich`` adds what cost models of collectives are made
of: processes, message per process, per node and of all processes together, rounds of a tree over
processes and nodes (the ceiling of the binary logarithm), and whether counts are powers of two or
odd, on which recursive-doubling algorithms depend. ``divisors`` adds to ``rich`` the largest prime
factor of the processes and the product of the others, on which meshes depend.
"""


def feature_set(name: str) -> FeatureSet:
    """Return the feature set called `name`.

    Raises
    ------
    DataError
        If there is none.
    """
    try:
        return FEATURE_SETS[name]
    except KeyError:
        raise unknown("feature set", name, FEATURE_SETS, DataError) from None
