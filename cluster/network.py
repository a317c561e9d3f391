"""What a virtual cluster looks like, and the texts that its scripts and MPI launchers read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from colltune.errors import CampaignError

MTU_BYTES = 9000
# segments in flight before anything was acknowledged: more than any window lets through
_FIRST_WINDOW = 1000
_NAME = re.compile(r"[a-z]([a-z-]*[a-z])?")
_MOST_NODES = 250
_MOST_RAILS = 8
_SUBNETS = 256


@dataclass(frozen=True)
class Network:
    """Hosts, and the networks ("rails") that join them.

    Attributes
    ----------
    nodes, ppn
        Hosts, and slots for processes on each.
    latency_us
        From a message's being sent to its arrival on another host, in microseconds.
    rates_mbit
        One rail for each: its rate per port and direction, in 10^6 bits per second; 0: unlimited.
    """

    nodes: int = 4
    ppn: int = 2
    latency_us: float = 2000.0
    rates_mbit: tuple[float, ...] = (1000.0,)

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= _MOST_NODES:
            raise CampaignError(f"virtual cluster: nodes must be 1 to {_MOST_NODES}")
        if self.ppn < 1:
            raise CampaignError("virtual cluster: ppn must be at least 1")
        if not 0 <= self.latency_us <= 1e7:
            raise CampaignError("virtual cluster: latency_us must be 0 to 1e7")
        if not 1 <= len(self.rates_mbit) <= _MOST_RAILS:
            raise CampaignError(f"virtual cluster: there can be 1 to {_MOST_RAILS} rails")
        if not all(0 <= rate <= 1e6 for rate in self.rates_mbit):
            raise CampaignError("virtual cluster: rates_mbit must be 0 (unlimited) to 1e6")

    @property
    def rails(self) -> int:
        """How many networks join the hosts."""
        return len(self.rates_mbit)

    def __str__(self) -> str:
        rates = " and ".join(f"{r:g} Mbit/s" if r else "unlimited" for r in self.rates_mbit)
        rails = "1 rail" if self.rails == 1 else f"{self.rails} rails"
        return f"{self.nodes} hosts x {self.ppn} slots, {self.latency_us:g} us, {rails}: {rates}"


@dataclass(frozen=True)
class Named:
    """A network with the names and addresses of one cluster; ``number`` sets subnets apart."""

    network: Network
    name: str
    number: int

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 20:
            raise CampaignError(
                f"virtual cluster: {self.name!r} is no name for hosts; use up to 20 letters a-z"
            )
        if not 0 <= self.number < _SUBNETS:
            raise CampaignError(f"virtual cluster: number must be 0 to {_SUBNETS - 1}")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, in the order of their numbers."""
        return tuple(f"{self.name}{host}" for host in range(self.network.nodes))

    @property
    def subnets(self) -> tuple[str, ...]:
        """The subnet of each rail."""
        return tuple(f"{self._prefix(rail)}.0/24" for rail in range(self.network.rails))

    def address(self, host: int, rail: int = 0) -> str:
        """Return the address of host number `host` on `rail`."""
        return f"{self._prefix(rail)}.{host + 1}"

    def _prefix(self, rail: int) -> str:
        # 10.0.0.0/8 in 256 parts; the hosts see no other network
        return f"10.{self.number}.{rail}"

    def files(self, folder: Path) -> Mapping[str, str]:
        """Return what the scripts and launchers read, by name below `folder`."""
        network = self.network
        addresses = [f"{self.address(i)} {host}" for i, host in enumerate(self.hosts)]
        links = {f"host/{host}": "\n".join(self._links(i)) for i, host in enumerate(self.hosts)}
        rails = range(network.rails)
        ports = [port for rail in rails for port in self._ports(rail)]
        texts = links | {
            "names": "\n".join(self.hosts),
            "hosts": "\n".join(["127.0.0.1 localhost", *addresses]),
            "ports": "\n".join(f"link set {port} promisc on up" for port in ports),
            "switches": "\n".join(self._switch(rail) for rail in rails),
            "switch.log": "",
            "hostfile": "\n".join(f"{host} slots={network.ppn}" for host in self.hosts),
            "hostfile.mpich": "\n".join(f"{host}:{network.ppn}" for host in self.hosts),
            "campaign.toml": self._campaign(folder),
        }
        return {name: text + "\n" if text else "" for name, text in texts.items()}

    def _ports(self, rail: int) -> list[str]:
        return [f"p{rail}-{host}" for host in range(self.network.nodes)]

    def _switch(self, rail: int) -> str:
        network = self.network
        head = f"{network.latency_us:.3f} {network.rates_mbit[rail]:.3f}"
        return " ".join([head, *self._ports(rail)])

    def _links(self, host: int) -> Iterator[str]:
        """Yield what ip is told on a host; each link ends in the keeper's namespace."""
        yield "link set lo up"
        for rail in range(self.network.rails):
            device = f"rail{rail}"
            yield (
                f"link add {device} mtu {MTU_BYTES} address {_hardware(host, rail)} type veth"
                f" peer name p{rail}-{host} mtu {MTU_BYTES} netns 1"
            )
            yield f"addr add {self.address(host, rail)}/24 dev {device}"
            yield f"link set {device} up"
            yield (
                f"route replace {self._prefix(rail)}.0/24 dev {device}"
                f" src {self.address(host, rail)}"
                f" initcwnd {_FIRST_WINDOW} initrwnd {_FIRST_WINDOW} quickack 1"
            )
            # nobody has to ask for addresses, which would cost the first message a round trip
            for other in range(self.network.nodes):
                if other != host:
                    yield (
                        f"neigh add {self.address(other, rail)} lladdr {_hardware(other, rail)}"
                        f" nud permanent dev {device}"
                    )

    def _campaign(self, folder: Path) -> str:
        network = self.network
        rates = "+".join(f"{rate:g}" for rate in network.rates_mbit)
        nodes = list(range(2, network.nodes + 1)) or [1]
        return f"""\
# Written by the virtual cluster {self.name}; cluster/run starts colltune on it.
[machine]
name = "virtual-cluster"
fabric = "{network.latency_us:g} us, {rates} Mbit/s"
cores_per_node = {network.ppn}

[launcher]
hostfile = "{folder / "hostfile"}"

[space]
collectives = ["bcast", "allreduce"]
nodes = {nodes}
ppn = {sorted({1, network.ppn})}
msizes_bytes = [8, 1024, 16384, 262144]
segsizes_bytes = [0, 8192]
fanouts = [4]

[measure]
synchronisation = "window"

[budget]
total = "3m"
max_reps = 20
cell_s = 0.2"""

    def environment(self, folder: Path) -> dict[str, str]:
        """Return what tells Open MPI's and MPICH's launchers and libraries of the cluster."""
        subnets = ",".join(self.subnets)
        shell = str(folder / "remote_shell")
        openmpi_5 = {
            "PRTE_MCA_plm_ssh_agent": shell,
            "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
            "PRTE_MCA_prte_if_include": self.subnets[0],
            "PRTE_MCA_prte_default_hostfile": str(folder / "hostfile"),
            "PRTE_MCA_hwloc_default_binding_policy": "none",
        }
        openmpi_4 = {
            "OMPI_MCA_plm_rsh_agent": shell,
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_oob_tcp_if_include": self.subnets[0],
            "OMPI_MCA_orte_default_hostfile": str(folder / "hostfile"),
            "OMPI_MCA_hwloc_base_binding_policy": "none",
        }
        openmpi = {
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "^ofi,openib,uct,usnic",
            "OMPI_MCA_btl_tcp_if_include": subnets,
            # there are fewer processors than processes: who waits gives way
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        hydra = {
            "HYDRA_LAUNCHER": "rsh",
            "HYDRA_LAUNCHER_EXEC": shell,
            "HYDRA_HOST_FILE": str(folder / "hostfile.mpich"),
            "HYDRA_IFACE": "rail0",
        }
        return {**openmpi_4, **openmpi_5, **openmpi, **hydra, "TMPDIR": str(folder / "tmp")}


def _hardware(host: int, rail: int) -> str:
    """Return a station's address: locally administered, the port's number in the last bytes."""
    return f"02:c7:00:{rail:02x}:{host >> 8:02x}:{host & 255:02x}"
