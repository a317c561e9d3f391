"""Campaign files."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench import campaign
from colltune.domain import Collective, Shape
from colltune.errors import CampaignError

SHIPPED = sorted((Path(__file__).parents[2] / "reprompi_configs").glob("*.toml"))
GOOD = """
[machine]
name = "hydra"
[space]
collectives = ["bcast", "MPI_Alltoall"]
nodes = [1, 2]
ppn = [4]
msizes_bytes = [1, 1024]
only = ["*.bcast.*"]
[budget]
total_s = 60
cell_s = 0.5
"""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_campaigns_parse(path: Path) -> None:
    """Every campaign file that is shipped is valid."""
    assert campaign.load(path).collectives


def test_a_campaign_is_read_whole() -> None:
    """Every key of a campaign file arrives in the campaign."""
    parsed = campaign.parse(GOOD, "c.toml")
    assert parsed.collectives == (Collective.BCAST, Collective.ALLTOALL)
    assert parsed.shapes == (Shape(1, 4), Shape(2, 4))
    assert (parsed.machine, parsed.total_s, parsed.cell_s) == ("hydra", 60, 0.5)
    assert (parsed.msizes_bytes, parsed.only) == ((1, 1024), ("*.bcast.*",))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nodes", "node", r"c\.toml: unknown key space\.node; known in \[space\].*nodes"),
        ("[machine]", "[machin]", r"c\.toml: unknown table \[machin\]"),
        ("[1, 2]", "1", r"c\.toml: key space\.nodes = 1 must be a list"),
        ("[1, 2]", '["1"]', r"space\.nodes"),
        ("total_s = 60", "total_s = true", r"budget\.total_s = True must be a float"),
        ('"bcast"', '"bkast"', r"c\.toml: unknown collective 'bkast'"),
        ("[1, 1024]", "[]", r"msizes_bytes is empty"),
        ("[1, 1024]", "[-1]", r"msizes_bytes must not be negative"),
        ("[1, 2]", "[0]", r"nodes must be at least 1"),
        ("total_s = 60", "total_s = 0", r"total_s must be positive"),
        ("[machine]", "[machine", r"c\.toml: not valid TOML.*line 2"),
        ("msizes_bytes = [1, 1024]", "", r"c\.toml: key space\.msizes_bytes is missing"),
    ],
)
def test_a_wrong_key_is_named(old: str, new: str, message: str) -> None:
    """Every mistake names the file and the line or key."""
    with pytest.raises(CampaignError, match=message):
        campaign.parse(GOOD.replace(old, new, 1), "c.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A campaign file that is not there is named."""
    with pytest.raises(CampaignError, match=r"none\.toml"):
        campaign.load(tmp_path / "none.toml")


def test_the_built_in_campaign_fits_this_machine() -> None:
    """The built-in campaign measures the three collectives on one node."""
    laptop = campaign.laptop()
    assert set(laptop.collectives) == {
        Collective.BCAST,
        Collective.ALLREDUCE,
        Collective.ALLTOALL,
    }
    (shape,) = laptop.shapes
    assert shape.nodes == 1
    assert shape.ppn >= 4
    assert laptop.changed(total_s=5.0, ppn=None).total_s == 5.0
