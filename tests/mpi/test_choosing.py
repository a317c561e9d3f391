"""How the processes of a communicator can lie on nodes."""

from __future__ import annotations

from colltune.domain import Shape
from colltune.mpi.choosing import even_layouts


def test_layouts_are_all_even_divisions() -> None:
    """Every number of nodes that divides the processes and holds them is there, ascending."""
    for nodes in range(1, 13):
        for ppn in range(1, 9):
            for size in range(1, nodes * ppn + 2):
                expected = tuple(
                    Shape(n, size // n)
                    for n in range(1, min(size, nodes) + 1)
                    if size % n == 0 and size // n <= ppn
                )
                assert even_layouts(size, Shape(nodes, ppn)) == expected


def test_the_largest_jobs_are_no_matter() -> None:
    """A job of four billion processes has its layouts, of which there are few."""
    found = even_layouts(1 << 32, Shape(1 << 20, 1 << 12))
    assert found == (Shape(1 << 20, 1 << 12),)
    assert len(even_layouts(720720 * 2520, Shape(720720, 5040))) > 2
