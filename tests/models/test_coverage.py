"""Where a configuration may be chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Instance, RunStatus
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.collective_model import Applicability, Coverage
from tests.models.machines import configuration, measured


def cells(**changes: object) -> CellMatrix:
    """Return the only collective's cells of the made-up machine."""
    (matrix,) = cell_matrices(measured(**changes)).values()  # type: ignore[arg-type]
    return matrix


def coverage(of: CellMatrix) -> Coverage:
    """Return what was measured of the cells and where their configurations run."""
    return Coverage.of(of, Applicability.of(of))


def names(matrix: CellMatrix, nodes: int, ppn: int, msize: int) -> set[str]:
    """Return the algorithms that may be chosen for one instance."""
    as_arrays = (cells_of([n]) for n in (nodes, ppn, msize))
    allowed = coverage(matrix).candidates(*as_arrays)[0]
    return {c.algorithm for c, a in zip(matrix.configurations, allowed, strict=True) if a}


def cells_of(numbers: list[int]) -> NDArray[np.int64]:
    """Return an integer vector."""
    return np.array(numbers, np.int64)


ALL = {"default", "linear", "binomial", "scatter_allgather"}


def test_what_was_measured_everywhere_may_be_chosen_everywhere() -> None:
    """Inside the grid, between its points and, moved to its edge, beyond it."""
    for asked in ((2, 1, 1), (5, 3, 1000), (16, 4, 4194304), (99, 7, 10**9)):
        assert names(cells(), *asked) == ALL, asked


def test_one_shape_counts_only_at_that_shape() -> None:
    """A configuration measured at a single shape is a candidate there and nowhere else."""

    def elsewhere(algorithm: str, instance: Instance) -> bool:
        return algorithm == "linear" and str(instance.shape) != "4x4"

    matrix = cells(left_out=elsewhere)
    assert names(matrix, 4, 4, 100) == ALL
    assert names(matrix, 8, 4, 100) == ALL - {"linear"}
    assert names(matrix, 4, 3, 100) == ALL - {"linear"}


def test_powers_of_two_are_learned() -> None:
    """What is missing where processes are no power of two is no candidate at other such counts."""

    def odd(algorithm: str, instance: Instance) -> bool:
        return algorithm == "linear" and bool(instance.shape.nprocs & (instance.shape.nprocs - 1))

    matrix = cells(nodes=(2, 3, 4, 6, 8, 12, 16, 20), left_out=odd)
    for nodes in (5, 7, 9, 11, 13, 18):
        assert names(matrix, nodes, 4, 1024) == ALL - {"linear"}
    for nodes, ppn in ((2, 2), (4, 2), (16, 2)):
        assert names(matrix, nodes, ppn, 1024) == ALL


def test_failures_count_as_what_is_missing() -> None:
    """A configuration that crashed at most counts, and ran at a few, is only chosen like those."""
    data = measured(nodes=(2, 3, 4, 6, 8, 12), ppn=(1,))
    crashed = (data.frame["algorithm"] == "linear") & data.frame["nodes"].isin([3, 6, 12])
    status = data.frame["status"].where(~crashed, RunStatus.CRASH.value)
    (matrix,) = cell_matrices(replace(data, frame=data.frame.assign(status=status))).values()
    assert names(matrix, 5, 1, 1024) == ALL - {"linear"}
    assert names(matrix, 4, 1, 1024) == ALL


def test_what_ran_everywhere_costs_nothing() -> None:
    """No tree is grown, and stored coverage is read back."""
    found = coverage(cells())
    assert not len(found.applicability.nodes.roots)
    again = Coverage.from_arrays(found.arrays())
    at = [cells_of(v) for v in ([2, 9], [1, 3], [64, 64])]
    np.testing.assert_array_equal(again.candidates(*at), found.candidates(*at))


def test_missing_large_cells_are_not_filled_in() -> None:
    """Where an algorithm timed out on many processes and large messages, it is no candidate."""

    def timed_out(algorithm: str, instance: Instance) -> bool:
        slow = instance.shape.nprocs >= 32 and instance.msize_bytes > 16384
        return algorithm == "linear" and slow

    matrix = cells(left_out=timed_out)
    assert names(matrix, 16, 4, 16384) == ALL
    assert names(matrix, 16, 4, 65536) == ALL - {"linear"}
    assert names(matrix, 8, 4, 4194304) == ALL - {"linear"}
    assert names(matrix, 4, 4, 4194304) == ALL


def test_missing_small_cells_are_not_filled_in() -> None:
    """The same holds towards small messages and few processes."""

    def late(algorithm: str, instance: Instance) -> bool:
        return algorithm == "linear" and instance.msize_bytes < 1024

    matrix = cells(left_out=late)
    assert names(matrix, 4, 4, 64) == ALL - {"linear"}
    assert names(matrix, 4, 4, 1024) == ALL


def test_one_node_is_another_machine() -> None:
    """Nothing measured on several nodes is chosen on one, nor the other way round."""
    assert names(cells(), 1, 4, 1024) == {"default"}
    assert names(cells(nodes=(1,)), 2, 4, 1024) == {"default"}
    assert names(cells(nodes=(1, 2, 4)), 1, 2, 1024) == ALL


def test_without_a_default_all_together_are_the_reference() -> None:
    """If the default was not measured, the range is that of all configurations together."""
    matrix = cells(algorithms=("linear", "binomial"))
    assert names(matrix, 99, 4, 10**9) == {"linear", "binomial"}
    assert configuration("default") not in matrix.configurations


def test_extrapolation_is_told() -> None:
    """An instance is extrapolated if nodes, ppn, processes or message leave the default's range."""
    coverage = Coverage.of(cells())
    nodes, ppn, msize = [16, 17, 1, 8, 8, 8], [4, 4, 4, 5, 4, 2], [64, 64, 64, 64, 4194305, 4194304]
    got = coverage.extrapolated(*map(cells_of, (nodes, ppn, msize)))
    assert got.tolist() == [False, True, True, True, True, False]


def test_borrowed_coverage_extrapolates_where_the_machine_was_not_measured() -> None:
    """Others' cells allow configurations, but only own ones make an instance known."""
    matrix = cells(nodes=(2, 4, 8, 16))
    everything = Coverage.of(matrix)
    few = Coverage.of(matrix.rows(matrix.nodes <= 4))
    at = [cells_of(v) for v in ([2, 8, 16], [1, 1, 1], [64, 64, 64])]
    assert not everything.extrapolated(*at).any()
    for borrowed, expected in (
        (everything.borrowed(few), [False, True, True]),
        (everything.borrowed(None), [True, True, True]),
    ):
        again = Coverage.from_arrays(borrowed.arrays())
        assert again.extrapolated(*at).tolist() == expected
        np.testing.assert_array_equal(again.candidates(*at), everything.candidates(*at))


def test_nothing_is_predicted_far_from_what_was_measured() -> None:
    """Sixteen times the counts, a sixteenth, twice the message; one count tells of no other."""
    found = Coverage.of(cells(nodes=(32, 64), ppn=(1, 4)))
    instances = [
        (1024, 4, 1),
        (1025, 4, 1),
        (2, 1, 1),
        (1, 1, 1),
        (32, 4, 8388608),
        (32, 4, 8388609),
    ]
    far = found.is_far(*(cells_of(list(v)) for v in zip(*instances, strict=True)))
    assert far.tolist() == [False, True, False, True, False, True]
    one = Coverage.of(cells(nodes=(32,), ppn=(1,)))
    assert one.is_far(*(cells_of(v) for v in ([31, 32, 33], [1] * 3, [1] * 3))).tolist() == [
        True,
        False,
        True,
    ]


def test_borrowed_coverage_reaches_twice_as_far_in_nodes() -> None:
    """Half to twice the nodes and processes of other machines count as near, sizes as they are."""
    own = Coverage.of(cells(nodes=(32, 64), ppn=(1,)))
    assert [list(side) for side in own.farthest] == [[2, 2, 0], [1024, 1024, 8388608]]
    low, high = own.borrowed(None).farthest
    assert [list(low), list(high)] == [[1, 1, 0], [2048, 2048, 8388608]]


def test_a_machine_inside_what_others_measured_is_not_far() -> None:
    """Others' only count stands for half to twice as many, and 16 times beyond are not far."""
    one = Coverage.of(cells(nodes=(256,), ppn=(1, 4))).borrowed(None)
    nodes = [7, 8, 32, 256, 8192, 8193]
    at = [cells_of(v) for v in (nodes, [1] * 6, [64] * 6)]
    assert one.is_far(*at).tolist() == [True, False, False, False, False, True]
    several = Coverage.of(cells(nodes=(4, 2048), ppn=(1,))).borrowed(None)
    inside, outside = ([cells_of(v) for v in ([n], [1], [64])] for n in (100, 2048 * 32 + 1))
    assert not several.is_far(*inside).any()
    assert several.is_far(*outside).all()
