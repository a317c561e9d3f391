"""Simulated clusters: what a campaign may say of one, and what SimGrid is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colltune.bench import campaign_file
from colltune.bench.simulated import Simulation, host_names
from colltune.domain import Shape
from colltune.errors import CampaignError
from tests.refusals import refused

FAT_TREE = Simulation(topology="fat_tree", parameters="2;6,6;1,3;1,1")
MIXED = """<platform version="4.1"><zone id="w" routing="Full">
<host id="front" speed="1Gf"/>
<cluster id="c" prefix="n" suffix=".x" radical="0-1,7" speed="1Gf" bw="1GBps" lat="1us"/>
</zone></platform>"""
CAMPAIGN = """
[space]
collectives = ["bcast"]
msizes_bytes = [8]
[measure]
backend = "smpi"
[smpi]
topology = "torus"
parameters = "4,4"
latency_us = 2
limit_s = 7.5
"""


def test_a_topology_has_the_hosts_that_its_numbers_make() -> None:
    """All hosts can be asked for, and not one more; a flat one grows with the campaign."""
    torus = Simulation(topology="torus", parameters="4,4,2")
    dragonfly = Simulation(topology="dragonfly", parameters="3,4;3,2;3,1;2")
    for simulation, hosts in ((FAT_TREE, 36), (torus, 32), (dragonfly, 54)):
        assert simulation.hosts(hosts)[-1] == f"node-{hosts - 1}"
        with refused("few-hosts", CampaignError):
            simulation.hosts(hosts + 1)
    assert len(Simulation().hosts(300)) == 300


def test_the_description_says_what_was_asked_for() -> None:
    """Rates are in bytes per second, and what stands for the topology is SimGrid's."""
    text = Simulation(
        topology="torus", parameters="4,4", rate_mbit=8.0, latency_us=3.0
    ).description()
    for part in ('bw="1000000Bps"', 'lat="3us"', 'topology="TORUS" topo_parameters="4,4"'):
        assert part in text


def test_ranks_fill_one_host_after_the_other() -> None:
    """The hostfile gives every host its processes, in the platform's order."""
    assert FAT_TREE.hostfile(Shape(2, 3)) == "node-0:3\nnode-1:3\n"


def test_a_file_s_hosts_are_found(tmp_path: Path) -> None:
    """Hosts and clusters of a platform file are named in its order."""
    file = tmp_path / "p.xml"
    file.write_text(MIXED)
    assert Simulation(platform=str(file)).hosts(4) == ("front", "n0.x", "n1.x", "n7.x")


def test_what_is_no_platform_is_refused() -> None:
    """The message names the file."""
    for text in ("", "<platform", '<a><cluster radical="x"/></a>', "<a><host/></a>"):
        with refused("not-a-platform", CampaignError, file="p.xml"):
            host_names(text, "p.xml")


def test_a_missing_file_is_named() -> None:
    """A platform file that is not there is an error of the campaign."""
    with refused("unreadable", CampaignError, path=Path("nowhere.xml")):
        Simulation(platform="nowhere.xml").hosts(1)


NONSENSE: tuple[tuple[dict[str, Any], str, dict[str, object]], ...] = (
    ({"topology": "ring"}, "unknown", {"name": "ring"}),
    ({"topology": "torus"}, "wrong-parameters", {"topology": "torus"}),
    ({"topology": "torus", "parameters": "0,4"}, "no-hosts", {}),
    ({"topology": "fat_tree", "parameters": "4,4"}, "wrong-parameters", {}),
    (
        {"topology": "dragonfly", "parameters": "3,4;3,2;2,1;2"},
        "few-routers",
        {"groups": 3, "routers": 2},
    ),
    ({"parameters": "4"}, "flat-has-none", {}),
    ({"platform": "p.xml", "topology": "torus"}, "platform-is-all", {}),
    ({"latency_us": -1.0}, "out-of-bounds", {"name": "latency_us"}),
    ({"rate_mbit": 0.0}, "out-of-bounds", {"name": "rate_mbit"}),
    ({"limit_s": float("nan")}, "out-of-bounds", {"name": "limit_s"}),
    ({"checked_bytes": -1}, "out-of-bounds", {"name": "checked_bytes"}),
)


def test_nonsense_is_refused() -> None:
    """The message names the key and what it should be."""
    for wrong, code, values in NONSENSE:
        with refused(code, CampaignError, **values):
            Simulation(**wrong)


def test_other_platforms_have_other_names() -> None:
    """Measurements of different simulated clusters are never joined; limits make no difference."""
    names = {
        Simulation().name,
        FAT_TREE.name,
        Simulation(latency_us=1.0).name,
        Simulation(overhead_us=1.0).name,
    }
    assert len(names) == 4
    assert Simulation(limit_s=1.0, checked_bytes=1).name == Simulation().name


def test_a_campaign_file_holds_it() -> None:
    """The table [smpi] becomes the simulation, and is part of the campaign's identity."""
    campaign = campaign_file.parse(CAMPAIGN, "c.toml")
    assert campaign.smpi == Simulation(
        topology="torus", parameters="4,4", latency_us=2.0, limit_s=7.5
    )
    other = campaign_file.parse(CAMPAIGN.replace("4,4", "4,5"), "c.toml")
    assert other.identity != campaign.identity


def test_errors_name_file_and_key() -> None:
    """A wrong line of the table is found again."""
    for old, new, told in (
        ('"torus"', '"star"', "not-allowed value=star key=smpi.topology line=8"),
        (
            "latency_us = 2",
            'latency_us = "2"',
            "not-allowed key=smpi.latency_us",
        ),
        ("limit_s", "limits_s", "unknown-key table=smpi key=smpi.limits_s line=11"),
        ('"4,4"', '"4;4"', "wrong-parameters topology=torus"),
    ):
        with refused(told, CampaignError):
            campaign_file.parse(CAMPAIGN.replace(old, new), "c.toml")
