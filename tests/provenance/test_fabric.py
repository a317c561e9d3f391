"""Interconnects."""

from __future__ import annotations

from pathlib import Path

from colltune.provenance import machine as fabric
from tests.provenance import machine


def _verbs(device: str, rate: str, layer: str, state: str = "4: ACTIVE") -> dict[str, str]:
    port = f"sys/class/infiniband/{device}/ports/1"
    return {f"{port}/rate": rate, f"{port}/link_layer": layer, f"{port}/state": state}


def _net(name: str, speed: str, state: str = "up", *, physical: bool = True) -> dict[str, str]:
    folder = f"sys/class/net/{name}"
    files = {f"{folder}/speed": speed, f"{folder}/operstate": state, f"{folder}/type": "1"}
    return files | ({f"{folder}/device/vendor": "0x8086"} if physical else {})


_HDR = _verbs("mlx5_0", "200 Gb/sec (4X HDR)", "InfiniBand")


_EFA = _verbs("rdmap0s6", "100 Gb/sec (4X EDR)", "Unspecified")
_IWARP = _verbs("irdma0", "25 Gb/sec (1X EDR)", "Ethernet")
_DOWN = _verbs("mlx5_1", "10 Gb/sec (4X SDR)", "InfiniBand", "1: DOWN")
_DEVICES = "sys/class/infiniband"
_FABRICS = (
    (_HDR, "InfiniBand 200 Gb/s"),
    (_HDR | _verbs("mlx5_1", "200 Gb/sec (4X HDR)", "InfiniBand"), "2 x InfiniBand 200 Gb/s"),
    (_HDR | _DOWN, "InfiniBand 200 Gb/s"),
    (_verbs("mlx4_0", "56 Gb/sec (4X FDR)", "InfiniBand"), "InfiniBand 56 Gb/s"),
    (_verbs("mlx4_0", "2.5 Gb/sec (1X SDR)", "InfiniBand"), "InfiniBand 2.5 Gb/s"),
    (_verbs("hfi1_0", "100 Gb/sec (4X EDR)", "InfiniBand"), "Omni-Path 100 Gb/s"),
    (_EFA, "RDMA 100 Gb/s"),
    (_EFA | {f"{_DEVICES}/rdmap0s6/device/driver": "efa"}, "EFA 100 Gb/s"),
    (_verbs("mlx5_bond_0", "100 Gb/sec (4X EDR)", "Ethernet"), "RoCE 100 Gb/s"),
    (_IWARP | {f"{_DEVICES}/irdma0/node_type": "4: RNIC"}, "iWARP 25 Gb/s"),
    ({"sys/class/cxi/cxi0/device/port/speed": "BS_200G"}, "Slingshot 200 Gb/s"),
    ({"sys/class/cxi/cxi0/device/port/0/link/speed": "ck400G"}, "Slingshot 400 Gb/s"),
    (_net("eth0", "25000"), "Ethernet 25 Gb/s"),
    (_net("eth0", "-1"), "Ethernet"),
    (_HDR | _net("eth0", "400000"), "InfiniBand 200 Gb/s"),
    (_net("eth0", "25000", "down"), ""),
    (_net("docker0", "10000", physical=False), ""),
)


def test_fabric_has_a_short_name(tmp_path: Path) -> None:
    """The fastest active port for MPI is named with its kind, rate and number of rails."""
    for number, (files, name) in enumerate(_FABRICS):
        machine.write(tmp_path / str(number), files)
        assert fabric.fabric_facts(tmp_path / str(number)).get("fabric", "") == name, files


def test_every_port_is_listed(tmp_path: Path) -> None:
    """Ports that are down are listed as such; bridges and loopback are left out."""
    machine.write(
        tmp_path,
        _HDR | _DOWN | _net("eth0", "1000") | _net("veth12", "10000", physical=False),
    )
    assert fabric.fabric_facts(tmp_path)["interconnect"] == (
        "mlx5_0:1 InfiniBand 200 Gb/s; mlx5_1:1 InfiniBand 10 Gb/s (down); eth0 Ethernet 1 Gb/s"
    )
