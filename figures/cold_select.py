"""Time of a cold ``colltune select`` over that of ``import numpy``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES
from figures.figure import Figure, start_up_ratio

_NODES, _PPN, _MSIZES = (4, 8, 16, 32), (1, 8, 32), tuple(4**k for k in range(12))
_ALGORITHMS = 24
_RELEASE = "4.1.4"


def _measurements() -> list[Measurement]:
    """Return a cluster's measurements as a latency-bandwidth model makes them."""
    found = []
    for collective in (Collective.BCAST, Collective.ALLREDUCE, Collective.ALLTOALL):
        for k, configuration in enumerate(_configurations(collective)):
            for nodes in _NODES:
                for ppn in _PPN:
                    for msize in _MSIZES:
                        shape = Shape(nodes, ppn)
                        latency_s = 1e-6 * (1 + k % 7) * shape.nprocs**0.5
                        time_s = latency_s + msize * 1e-10 * (1 + (3 * k) % 11)
                        instance = Instance(collective, shape, msize)
                        found.append(Measurement(instance, configuration, "l", times_s=(time_s,)))
    return found


def _configurations(collective: Collective) -> list[Configuration]:
    """Return the same number of every collective, with sizes of segments as many as that takes."""
    sizes = tuple(1024 * k for k in range(1, _ALGORITHMS))
    bound = LIBRARIES["openmpi"].at(_RELEASE)
    found = bound.portfolio(collective, (0, *sizes)).configurations
    requests = [
        Configuration("openmpi", collective, "linear_sync", (("requests", k),))
        for k in range(1, _ALGORITHMS)
    ]
    return [*found, *(requests if collective is Collective.ALLTOALL else [])][:_ALGORITHMS]


def run() -> Figure:
    """Return one cold decision of a bundle of 72 configurations over ``import numpy``."""
    dataset = PerformanceDataset.of(Context("model", "openmpi", _RELEASE), _measurements())
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        fit(dataset, "auto").save(bundle)
        program = str(Path(sys.executable).with_name("colltune"))
        shape = ["--nodes", "34", "--ppn", "32"]
        one = ["--collective", "bcast", "--msize", "65536"]
        ours = [program, "select", "--bundle", str(bundle), *shape, *one]
        baseline = [sys.executable, "-c", "import numpy"]
        return start_up_ratio("cold_select", ours, baseline, rounds=25)
