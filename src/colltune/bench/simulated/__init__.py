"""The simulated cluster of a campaign: its network as SimGrid's XML, its hosts, a message's cost.

Defaults are a cluster of today: 100 Gbit/s links, and 0.4 us of a processor's time for each message
sent or received.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

from colltune.domain import Shape
from colltune.errors import CampaignError, say, unknown
from colltune.files.reading import text_of
from colltune.files.settings import Key, check
from colltune.text import counted, parse_bytes

FLAT = "flat"
_NUMBERS = r"\d+(?:,\d+)*"
# how SimGrid wants a topology's parameters, and what they are
_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "fat_tree": (
        re.compile(rf"\d+;{_NUMBERS};{_NUMBERS};{_NUMBERS}"),
        "LEVELS;DOWN,…;UP,…;PARALLEL,…, such as 2;6,6;1,3;1,1",
    ),
    "torus": (re.compile(_NUMBERS), "the length of each dimension, such as 4,4,2"),
    "dragonfly": (
        re.compile(r"\d+,\d+;\d+,\d+;\d+,\d+;\d+"),
        "GROUPS,LINKS;CHASSIS,LINKS;ROUTERS,LINKS;NODES, such as 3,4;3,2;3,1;2",
    ),
}
TOPOLOGIES = (FLAT, *_FORMS)
_MBIT_BYTES = 1e6 / 8
_XML = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="world" routing="Full">
    <cluster id="cluster" prefix="node-" suffix="" radical="0-{last}" speed="{speed:g}Gf"
             core="{cores}" bw="{rate:.9g}Bps" lat="{latency:.9g}us"
             loopback_bw="{memory_rate:.9g}Bps" loopback_lat="{memory_latency:.9g}us"{topology}/>
  </zone>
</platform>
"""

SIZE = 'a whole number of bytes, or a size such as "64k"'
SIZE_TYPES = (int, str)


def size(value: int | str) -> int:
    """Return the bytes that a file's value stands for."""
    return parse_bytes(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Simulation:
    """What a campaign's table ``[smpi]`` says."""

    platform: Annotated[
        str | None,
        Key(
            "SimGrid's description of the cluster, an XML file; without one it is made from the"
            " rest.",
            example="cluster.xml",
        ),
    ] = None
    topology: Annotated[
        str,
        Key("Flat: every host at one switch, as many as the campaign asks for.", names=TOPOLOGIES),
    ] = FLAT
    parameters: Annotated[str, Key("SimGrid's numbers for the topology.")] = ""
    cores: Annotated[int, Key("Cores of a host.", 1)] = 32
    speed_gflops: Annotated[
        float, Key("Arithmetic of reductions costs one operation a byte.", above=0)
    ] = 10.0
    latency_us: Annotated[float, Key("Of a link.", 0)] = 0.5
    rate_mbit: Annotated[float, Key("Of a link.", above=0)] = 100_000.0
    memory_latency_us: Annotated[float, Key("Of messages within a host.", 0)] = 0.15
    memory_rate_mbit: Annotated[float, Key("Of messages within a host.", above=0)] = 64_000.0
    overhead_us: Annotated[
        float,
        Key("Of a processor for each message, in which it does nothing else, at both ends.", 0),
    ] = 0.4
    overhead_ns_per_byte: Annotated[float, Key("The same for each byte.", 0)] = 0.03
    eager_bytes: Annotated[
        int,
        Key(
            "Messages below are sent without waiting for the receiver.",
            0,
            read=size,
            takes=SIZE_TYPES,
            wanted=SIZE,
        ),
    ] = 65536
    checked_bytes: Annotated[
        int,
        Key(
            "Results are checked where the buffers of all processes take no more.",
            0,
            read=size,
            takes=SIZE_TYPES,
            wanted=SIZE,
        ),
    ] = 256 << 20
    limit_s: Annotated[float, Key("Wall time of one configuration on one shape.", above=0)] = 60.0

    def __post_init__(self) -> None:
        check(self, CampaignError, "smpi.")
        self._check_topology()

    def _check_topology(self) -> None:
        if self.platform is not None:
            if (self.topology, self.parameters) != (FLAT, ""):
                raise say("platform-is-all")
            return
        if self.topology == FLAT:
            if self.parameters:
                raise say("flat-has-none")
            return
        if self.topology not in TOPOLOGIES:
            raise unknown("topology", self.topology, TOPOLOGIES, CampaignError)
        form, words = _FORMS[self.topology]
        if not form.fullmatch(self.parameters):
            raise say("wrong-parameters", topology=self.topology, wanted=words)
        if self.topology == "dragonfly":
            groups, _, routers, _ = (int(p.split(",")[0]) for p in self.parameters.split(";"))
            if routers < groups:
                # a chassis' router number g is the way to group g; SimGrid crashes without it
                raise say("few-routers", parameters=self.parameters, groups=groups, routers=routers)
        if not self._made_hosts:
            raise say("no-hosts", parameters=self.parameters)

    @property
    def _made_hosts(self) -> int:
        """How many hosts the topology's numbers make; 0: as many as are asked for."""
        parts = self.parameters.split(";")
        if self.topology == "fat_tree":
            return math.prod(map(int, parts[1].split(",")))
        if self.topology == "torus":
            return math.prod(map(int, parts[0].split(",")))
        if self.topology == "dragonfly":
            return math.prod(int(part.split(",")[0]) for part in parts)
        return 0

    def description(self) -> str:
        """Return the platform's XML; its own, or one that is made."""
        if self.platform is None:
            return self._made(max(1, self._made_hosts))
        return text_of(Path(self.platform), CampaignError, "correct smpi.platform")

    def description_for(self, nodes: int) -> str:
        """Return the platform's XML with at least `nodes` hosts."""
        return self._made(nodes) if self._grows else self.description()

    @property
    def _grows(self) -> bool:
        return self.platform is None and self.topology == FLAT

    def _made(self, hosts: int) -> str:
        topology = ""
        if self.topology != FLAT:
            kind, numbers = quoteattr(self.topology.upper()), quoteattr(self.parameters)
            topology = f"\n             topology={kind} topo_parameters={numbers}"
        return _XML.format(
            last=hosts - 1,
            speed=self.speed_gflops,
            cores=self.cores,
            rate=self.rate_mbit * _MBIT_BYTES,
            latency=self.latency_us,
            memory_rate=self.memory_rate_mbit * _MBIT_BYTES,
            memory_latency=self.memory_latency_us,
            topology=topology,
        )

    def hosts(self, nodes: int) -> tuple[str, ...]:
        names = host_names(self.description_for(nodes), self.platform or "smpi")
        if len(names) < nodes:
            raise say("few-hosts", hosts=counted(len(names), "host"), nodes=nodes)
        return names[:nodes]

    def hostfile(self, shape: Shape) -> str:
        """Return smpirun's hostfile: rank r is on host ``r // shape.ppn``."""
        return "".join(f"{host}:{shape.ppn}\n" for host in self.hosts(shape.nodes))

    def options(self) -> tuple[str, ...]:
        """Return smpirun's options for what a message costs."""
        cost = f"0:{self.overhead_us * 1e-6:.9g}:{self.overhead_ns_per_byte * 1e-9:.9g}"
        # os: of MPI_Send, ois: of MPI_Isend; without it a flat tree would send for nothing
        costs = [f"--cfg=smpi/{name}:{cost}" for name in ("os", "ois", "or")]
        return (*costs, f"--cfg=smpi/async-small-thresh:{self.eager_bytes}")

    @property
    def name(self) -> str:
        """What sets measurements apart from those of another simulated cluster."""
        facts = {k: v for k, v in asdict(self).items() if k not in ("checked_bytes", "limit_s")}
        facts["platform"] = None if self.platform is None else self.description()
        digest = hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:8]
        what = f"{self.topology} {self.parameters}".strip()
        return f"simulated {what if self.platform is None else Path(self.platform).name} {digest}"


def host_names(description: str, source: str) -> tuple[str, ...]:
    try:
        root = ET.fromstring(description)  # noqa: S314 - the user's own file
        names: list[str] = []
        for element in root.iter():
            if element.tag == "host":
                names.append(element.attrib["id"])
            elif element.tag == "cluster":
                prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
                names += [f"{prefix}{i}{suffix}" for i in _radical(element.attrib["radical"])]
    except (ET.ParseError, KeyError, ValueError) as error:
        raise say("not-a-platform", file=source, why=error) from None
    return tuple(names)


def _radical(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
