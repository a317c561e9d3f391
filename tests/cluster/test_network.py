"""The texts from which virtual clusters are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.network import Named, Network
from colltune.bench import campaign_file
from colltune.domain import Shape
from colltune.errors import CampaignError

FOLDER = Path("/run/c")
TWO_RAILS = Named(Network(3, 2, 500.0, (1000.0, 250.0)), "v", 7)


def test_every_host_has_one_address_on_each_rail() -> None:
    """Names and addresses are all different, and each address lies in its rail's subnet."""
    assert TWO_RAILS.hosts == ("v0", "v1", "v2")
    assert TWO_RAILS.subnets == ("10.7.0.0/24", "10.7.1.0/24")
    addresses = [TWO_RAILS.address(host, rail) for rail in range(2) for host in range(3)]
    assert addresses == [f"10.7.{rail}.{host}" for rail in range(2) for host in (1, 2, 3)]


def test_a_switch_gets_its_own_rate_and_ports() -> None:
    """Rails share the latency; each has its rate, and one port per host."""
    assert TWO_RAILS.files(FOLDER)["switches"].splitlines() == [
        "500.000 1000.000 p0-0 p0-1 p0-2",
        "500.000 250.000 p1-0 p1-1 p1-2",
    ]


def test_hardware_addresses_tell_the_port() -> None:
    """The switch learns nothing: the last two bytes of a station's address number its port."""
    links = Named(Network(250, 1), "v", 0).files(FOLDER)["host/v249"]
    assert "address 02:c7:00:00:00:f9 type veth peer name p0-249" in links
    assert "neigh add 10.0.0.1 lladdr 02:c7:00:00:00:00 nud permanent dev rail0" in links
    assert links.count("neigh add") == 249


def test_launchers_read_hosts_and_slots() -> None:
    """Open MPI's and MPICH's files name the same hosts, each in its own format."""
    files = TWO_RAILS.files(FOLDER)
    assert files["hostfile"] == "v0 slots=2\nv1 slots=2\nv2 slots=2\n"
    assert files["hostfile.mpich"] == "v0:2\nv1:2\nv2:2\n"


def test_the_campaign_measures_from_two_hosts_on() -> None:
    """The campaign file that comes with a cluster can be read, and fills it."""
    campaign = campaign_file.parse(TWO_RAILS.files(FOLDER)["campaign.toml"], "c")
    assert campaign.largest == Shape(3, 2)
    assert campaign.hostfile == "/run/c/hostfile"
    assert min(campaign.nodes) == 2
    assert campaign.fabric == "500 us, 1000+250 Mbit/s"


def test_messages_go_over_every_rail() -> None:
    """Open MPI is told all subnets, so that it stripes large messages."""
    told = TWO_RAILS.environment(FOLDER)
    assert told["OMPI_MCA_btl_tcp_if_include"] == "10.7.0.0/24,10.7.1.0/24"


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": 0},
        {"nodes": 251},
        {"ppn": 0},
        {"latency_us": -1.0},
        {"rates_mbit": ()},
        {"rates_mbit": (-1.0,)},
        {"rates_mbit": (float("nan"),)},
    ],
)
def test_impossible_networks_are_refused(wrong: dict[str, int]) -> None:
    """Nothing is started that the addresses or the switch could not hold."""
    with pytest.raises(CampaignError, match="virtual cluster"):
        Network(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "c2", "A", "-a", "a b", "a" * 21])
def test_a_host_name_ends_with_its_number(name: str) -> None:
    """Names that no host can have, or that end in a digit, are refused."""
    with pytest.raises(CampaignError, match="no name for hosts"):
        Named(Network(), name, 0)
