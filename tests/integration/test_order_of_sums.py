"""The order in which libcolltune's allreduces add, by the bits of sums with terms that cancel."""

from __future__ import annotations

import re

import pytest

from colltune.domain import Configuration
from tests.integration.real import Real

pytestmark = pytest.mark.mpi
MOST = 9


def _sums(each: Real, nprocs: int, ppn: int, how: tuple[str, ...], **variables: str) -> int:
    """Return how many sums held; ``ppn`` 0: all processes lie on one node."""
    nodes = {"COLLTUNE_NODES": f"by-rank:{ppn}"} if ppn else {}
    command = [each.compiled("order.c"), str(ppn), *how]
    outcome = each.run(nprocs, command, nodes | variables)
    assert outcome.ok, outcome.explain()
    assert "colltune: " not in outcome.stderr
    found = re.search(r"^(\d+) sums held$", outcome.stdout, re.MULTILINE)
    assert found, outcome.explain()
    return int(found[1])


def test_doubling_has_the_bits_of_the_librarys_recursive_doubling(each: Real) -> None:
    """On 2 to 9 processes, in any order of ranks, and all ranks hold the same; so they do by ring.

    Its bits are those of the order that the reference tells, too, and so are ring's.
    """
    library = each.installation.mpi
    wanted = Configuration.parse(f"{library.name}.allreduce.recursive_doubling")
    forced = library.at(each.release).forced_environment(wanted)
    assert _sums(each, MOST, 0, ("library",), **forced) > 1000


def test_sums_in_several_rounds_have_the_same_order(each: Real) -> None:
    """Where memory is short."""
    assert _sums(each, 5, 0, (), COLLTUNE_SHM_MIB="1") > 100


@pytest.mark.parametrize("ppn", [1, 2])
def test_between_nodes_ring_adds_in_the_order_of_nodes_and_doubling_never(
    each: Real, ppn: int
) -> None:
    """From the node that follows the one that gathers a part, around to that one."""
    assert _sums(each, 5, ppn, ()) >= 5 * 12
