"""What a campaign says of the nodes reaches the command line."""

from __future__ import annotations

from pathlib import Path

from colltune.bench.launchers import Mpirun, Placed, Start
from colltune.domain import Shape


def test_a_campaigns_nodes_and_options_reach_the_launcher() -> None:
    """Processors, host file and options are those of the campaign; a start's own options follow."""
    placed = Placed(Mpirun(Path("/mpirun")), 2, Path("hosts"), ("--bind-to", "core"))
    start = Start(Shape(2, 4), ("./p",), cores=64, options=("--tag-output",))
    assert placed.command(start) == (
        *("/mpirun", "-np", "8", "--hostfile", "hosts", "--map-by", "ppr:4:node"),
        *("--oversubscribe", "--bind-to", "core", "--tag-output", "./p"),
    )
    wanted = {"OMPI_MCA_pml": "ob1"}
    assert placed.environment({}, wanted, Shape(2, 4)) == wanted


def test_a_campaign_that_says_nothing_changes_nothing() -> None:
    """Without nodes, processors and options the start is passed on as it is."""
    start = Start(Shape(1, 2), ("./p",), cores=4, hostfile=Path("h"))
    assert Placed(Mpirun(Path("/m"))).command(start) == Mpirun(Path("/m")).command(start)
