"""Interconnects and their rates, read from ``/sys/class/{infiniband,cxi,net}``.

Sources: the kernel's ``Documentation/ABI/stable/sysfs-class-infiniband`` and
``sysfs-class-net``; the Slingshot drivers' ``device/port``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from colltune.provenance.reading import entries, exists, link_name, text

_ETHERNET_TYPE = "1"
_NODE_TYPE_IWARP = "4"


@dataclass(frozen=True)
class Port:
    """One port of a network adapter; ``gbit_per_s`` is 0 where the rate is not told."""

    device: str
    kind: str
    gbit_per_s: float
    is_active: bool

    def __str__(self) -> str:
        rate = f" {self.gbit_per_s:g} Gb/s" if self.gbit_per_s else ""
        return f"{self.device} {self.kind}{rate}{'' if self.is_active else ' (down)'}"

    @property
    def is_for_clusters(self) -> bool:
        """Whether MPI would prefer it to plain Ethernet."""
        return self.kind != "Ethernet"


def facts(root: Path) -> dict[str, str]:
    """Return ``interconnect`` (all ports) and ``fabric`` (see `name`), where there are any."""
    found = ports(root)
    told = {"interconnect": "; ".join(map(str, found)), "fabric": name(found)}
    return {key: value for key, value in told.items() if value}


def ports(root: Path) -> tuple[Port, ...]:
    """Return the ports of all adapters; virtual interfaces are left out."""
    return (*_slingshot(root), *_verbs(root), *_ethernet(root))


def name(ports: tuple[Port, ...]) -> str:
    """Return the active ports that MPI would use, in short: ``2 x InfiniBand 200 Gb/s``.

    It can serve as a campaign's fabric; it is never put into a dataset's context by itself.
    """
    active = [port for port in ports if port.is_active]
    candidates = [port for port in active if port.is_for_clusters] or active
    if not candidates:
        return ""
    best = max(candidates, key=lambda port: port.gbit_per_s)
    rails = sum((p.kind, p.gbit_per_s) == (best.kind, best.gbit_per_s) for p in candidates)
    rate = f" {best.gbit_per_s:g} Gb/s" if best.gbit_per_s else ""
    return f"{f'{rails} x ' if rails > 1 else ''}{best.kind}{rate}"


def _verbs(root: Path) -> Iterator[Port]:
    for device in entries(root / "sys/class/infiniband"):
        for port in entries(device / "ports"):
            state = text(port / "state")
            yield Port(
                f"{device.name}:{port.name}",
                _verbs_kind(device, text(port / "link_layer")),
                _gbit_per_s(text(port / "rate")),
                "ACTIVE" in state.split(),
            )


def _verbs_kind(device: Path, link_layer: str) -> str:
    driver = link_name(device / "device/driver")
    if device.name.startswith("hfi1") or driver == "hfi1":
        return "Omni-Path"
    if device.name.startswith("efa") or driver == "efa":
        return "EFA"
    if link_layer == "Ethernet":
        return "iWARP" if text(device / "node_type").startswith(_NODE_TYPE_IWARP) else "RoCE"
    return link_layer if link_layer == "InfiniBand" else "RDMA"


def _gbit_per_s(rate: str) -> float:
    """Return the number of ``200 Gb/sec (4X HDR)``."""
    match = re.match(r"(\d+(?:\.\d+)?)\s*Gb/s", rate)
    return float(match[1]) if match else 0.0


def _slingshot(root: Path) -> Iterator[Port]:
    """Yield Cassini adapters; a speed is ``BS_200G`` in ``port``, ``ck400G`` in ``port/0/link``."""
    for device in entries(root / "sys/class/cxi"):
        port = device / "device/port"
        speed = text(port / "speed") or text(port / "0/link/speed")
        state = text(port / "link") or text(port / "0/link/state")
        match = re.search(r"(\d+)G", speed)
        yield Port(
            device.name, "Slingshot", float(match[1]) if match else 0.0, state.lower() != "down"
        )


def _ethernet(root: Path) -> Iterator[Port]:
    for interface in entries(root / "sys/class/net"):
        # bridges, tunnels, loopback and the like have no device behind them
        is_physical = exists(interface / "device")
        if not is_physical or text(interface / "type") != _ETHERNET_TYPE:
            continue
        speed = text(interface / "speed")
        mbit_per_s = int(speed) if re.fullmatch(r"[0-9]{1,9}", speed) else 0
        is_up = text(interface / "operstate") in ("up", "unknown")
        yield Port(interface.name, "Ethernet", mbit_per_s / 1000, is_up)
