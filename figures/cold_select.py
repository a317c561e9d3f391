"""Time of a cold ``colltune select`` over that of ``import numpy``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES
from figures.figure import Figure, start_up_ratio
from figures.render_shape_ms import modelled

_MSIZES = tuple(4**k for k in range(12))
_ALGORITHMS = 24
_RELEASE = "4.1.4"


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
    measured = [
        measurement
        for collective in (Collective.BCAST, Collective.ALLREDUCE, Collective.ALLTOALL)
        for measurement in modelled(_configurations(collective), _MSIZES)
    ]
    dataset = PerformanceDataset.of(Context("model", "openmpi", _RELEASE), measured)
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        fit(dataset, "auto").save(bundle)
        program = str(Path(sys.executable).with_name("colltune"))
        shape = ["--nodes", "34", "--ppn", "32"]
        one = ["--collective", "bcast", "--msize", "65536"]
        ours = [program, "select", "--bundle", str(bundle), *shape, *one]
        baseline = [sys.executable, "-c", "import numpy"]
        return start_up_ratio("cold_select", ours, baseline, rounds=25)
