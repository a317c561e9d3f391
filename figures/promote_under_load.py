"""Requests that fail while bundles are promoted under two servers of one registry; none should.

Two `colltune serve` of two workers each share a registry's folder, as hosts behind one proxy do.
Kept connections ask for one file without a pause while the bundle in force changes. A request fails
if its answer is not the file, or comes from a bundle that this worker had already left; a promotion
that a worker does not take up in time counts as one, too. ``ours`` are those, ``baseline`` all.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from colltune.models.fitting import fit
from colltune.registry import Registry
from figures.figure import Figure
from tests.models.machines import measured
from tests.server.load import Client, Load
from tests.server.serving_process import Server

_PATH = "/v1/config/openmpi/4.1.4?nodes=4&ppn=4"
_PROMOTIONS = 20
_CONNECTIONS = 4
_TAKEN_UP_S = 5.0


def run() -> Figure:
    """Count requests that fail while bundles are promoted under load."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "registry")
        registry = Registry(root)
        ids = [registry.add(fit(measured(noise=noise), "knn")) for noise in (0.0, 0.1)]
        registry.promote(ids[0], by="benchmark")
        words = ("--registry", root, "--workers", 2)
        with Server(*words) as one, Server(*words) as two:
            one.await_ready()
            two.await_ready()
            promoted = [ids[0]]
            with Load([one, two], _PATH, _CONNECTIONS) as load:
                late = _late(load, ids[0])
                for k in range(1, _PROMOTIONS + 1):
                    promoted.append(ids[k % 2])
                    registry.promote(promoted[-1], by="benchmark")
                    late += _late(load, promoted[-1])
            back = sum(_strayed(client, promoted) for client in load.clients)
    failed = len(load.failures) + back + late
    return Figure(
        "promote_under_load", failed, "failed requests", failed, load.answered + len(load.failures)
    )


def _late(load: Load, bundle_id: str) -> int:
    """Wait until all answers come from a bundle; return 1 if that takes too long."""
    deadline = time.monotonic() + _TAKEN_UP_S
    while not load.all_have(bundle_id):
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.02)
    return 0


def _strayed(client: Client, promoted: list[str]) -> int:
    """Count answers of a client that are not next in the order of promotions."""
    at, strayed = 0, 0
    for bundle in client.in_order:
        if bundle in promoted[at : at + 2]:
            at += promoted[at : at + 2].index(bundle)
        else:
            strayed += 1
    return strayed
