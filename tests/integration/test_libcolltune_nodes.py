"""libcolltune across (emulated) nodes: layouts are known, and steering comes before coll/han."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from colltune.mpi import trace
from tests.integration.real import Real, RealMpi
from tests.integration.tables_for_libcolltune import OPENMPI, sealed
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts

pytestmark = [pytest.mark.mpi, pytest.mark.root]


def test_a_layout_is_steered_across_nodes(
    mpi: RealMpi, preloaded: Real, spaces: Namespaces, tmp_path: Path
) -> None:
    """On 2 nodes with 2 processes each their rules hold, flat; the rest stays with coll/han."""
    if not mpi.release.startswith("5.0."):
        pytest.skip(f"Open MPI {mpi.release} does not prefer coll/han")
    both = dataclasses.replace(mpi, behind=(Path(preloaded.preload),))
    table = tmp_path / "table"
    table.write_text(sealed(OPENMPI.format(release=mpi.release)), encoding="utf-8")
    options = openmpi_hosts(tmp_path, ["na", "nb"], slots=2)
    steps = ["bcast:4999", "bcast:5000", "bcast:4999:plain:3"]
    named = {"COLLTUNE_TABLE": str(table)}
    outcome = both.call(4, steps, named, options, spaces.enter([]))
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr
    steered, left, other = trace.marked(outcome.stderr)
    assert steered.functions[-1].symbol == "ompi_coll_base_bcast_intra_chain"
    assert left.functions[0].symbol == "mca_coll_han_bcast_intra"
    assert other.functions[0].symbol == "mca_coll_han_bcast_intra"
