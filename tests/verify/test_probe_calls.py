"""The communicators that a job can form."""

from __future__ import annotations

import pytest

from colltune.domain import Shape
from colltune.verify.probe_calls import Communicator, JobLayout


def test_a_regular_job_forms_the_usual_ones() -> None:
    """Whole job, leaders, one node, halves, powers of two; several spreads of one size."""
    found = JobLayout((4, 4)).communicators(())
    assert found[0] == Communicator(8, 2, is_whole=True)
    assert set(found[1:]) == {
        Communicator(4, 2),
        Communicator(4, 1),
        Communicator(2, 2),
        Communicator(2, 1),
    }


def test_sizes_that_a_file_tells_apart_are_tried() -> None:
    """Those of the file as far as the job holds them; larger ones and single processes not."""
    found = JobLayout((4, 4)).communicators((1, 3, 7, 8, 9))
    assert {c.size for c in found} == {8, 7, 4, 3, 2}
    assert {c.nodes for c in found if c.size == 7} == {2}
    assert {c.nodes for c in found if c.size == 3} == {1, 2}


def test_the_largest_come_first() -> None:
    """Of one size, those over more nodes come first."""
    sizes = [(c.size, c.nodes) for c in JobLayout((2, 2, 2)).communicators(())]
    assert sizes == sorted(sizes, key=lambda pair: (-pair[0], -pair[1]))
    assert sizes[0] == (6, 3)


@pytest.mark.parametrize(
    ("size", "nodes", "holds"),
    [(4, 2, True), (5, 2, False), (3, 2, True), (2, 2, True), (2, 1, True), (3, 1, False)],
)
def test_an_uneven_job_holds_what_lies_evenly(size: int, nodes: int, holds: bool) -> None:
    """With 2 and 3 processes on its nodes, the first must not be asked for a third one."""
    assert JobLayout((2, 3)).holds(size, nodes) is holds


def test_only_even_spreads_are_measured() -> None:
    """The benchmark measures shapes; what is none, or larger than the regular part, is not."""
    layout = JobLayout((3, 2))
    assert layout.regular == Shape(2, 2)
    assert layout.shape_of(Communicator(4, 2)) == Shape(2, 2)
    assert layout.shape_of(Communicator(5, 2, is_whole=True)) is None
    assert layout.shape_of(Communicator(3, 1)) is None
