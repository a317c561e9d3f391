"""Where a report looks at decisions."""

from __future__ import annotations

from colltune.domain import Collective, Shape
from colltune.models.cells import cell_matrices
from colltune.models.collective_model import Coverage
from colltune.plot_data.decisions import MOST_SHAPES, Grid
from tests.models.machines import MSIZES, measured


def _grid(**dataset: object) -> Grid:
    cells = cell_matrices(measured(**dataset))[Collective.BCAST]  # type: ignore[arg-type]
    return Grid.of(Coverage.of(cells))


def test_measured_shapes_are_joined_by_some_between_and_beyond() -> None:
    """Every measured shape is there, by ppn; unseen ones lie between, and one is twice as large."""
    grid = _grid(nodes=(2, 8), ppn=(1, 4))
    flagged = dict(zip(grid.shapes, grid.known.tolist(), strict=True))
    assert flagged == {
        Shape(2, 1): True,
        Shape(4, 1): False,
        Shape(8, 1): True,
        Shape(16, 1): False,
        Shape(2, 4): True,
        Shape(4, 4): False,
        Shape(8, 4): True,
        Shape(16, 4): False,
    }
    assert list(flagged) == sorted(flagged, key=lambda shape: (shape.ppn, shape.nodes))


def test_sizes_are_the_measured_ones_two_per_octave_and_some_beyond() -> None:
    """Sizes go on to four times the largest, and measured ones are flagged."""
    grid = _grid(msizes=(0, 100, 1000))
    sizes = grid.msize_bytes.tolist()
    assert sizes[0] == 0
    assert 3000 < sizes[-1] <= 4000
    assert {96, 128, 192, 256} <= set(sizes)
    assert grid.msize_bytes[grid.known_size].tolist() == [0, 100, 1000]


def test_many_shapes_are_thinned_evenly_and_counted() -> None:
    """No more than 64 measured shapes are shown, the first and last among them."""
    grid = _grid(nodes=range(1, 101), ppn=(1,), msizes=MSIZES[:1])
    known = grid.nodes[grid.known]
    assert len(known) == MOST_SHAPES
    assert (known[0], known[-1]) == (1, 100)
    assert grid.left_out == 36


def test_a_barrier_has_one_size() -> None:
    """A collective without data is looked at for 0 bytes alone."""
    assert _grid(msizes=(0,)).msize_bytes.tolist() == [0]


def test_huge_numbers_do_not_overflow() -> None:
    """Sizes and node counts near the largest integers stay positive and ascending."""
    grid = _grid(nodes=(1 << 60,), ppn=(2,), msizes=(1 << 61,))
    sizes = grid.msize_bytes.tolist()
    assert sizes == sorted(set(sizes))
    assert sizes[0] > 0
    assert (grid.nodes * grid.ppn > 0).all()
