"""Milliseconds to decide and write all collectives of one shape from a loaded bundle.

The bundle has all 14 collectives of Open MPI with `_TOTAL` configurations in all, measured as a
latency-bandwidth model makes them; what is timed is what a service does per request: decisions for
all communicators of the job, exact switch points, and the text of the rules file, read back.
COLLTUNE_CONFIGURATIONS changes how many configurations there are.
"""

from __future__ import annotations

import os
import statistics
import time
from itertools import zip_longest

from benchmarks.figure import Figure
from colltune.cli.configuration import selector_for, table_for
from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi import CONFIGURABLE

_TOTAL = 60
_PROMISED_MS = 50.0
_RELEASE = "4.1.6"
_NODES, _PPN, _MSIZES = (4, 8, 16, 32), (1, 8, 32), tuple(4**k for k in range(11))
_ASKED = Shape(34, 32)
_ROUNDS = 15


def _portfolio(total: int) -> list[Configuration]:
    """Return the defaults, then one configuration of each collective in turn."""
    library = CONFIGURABLE["openmpi"]
    portfolios = [library.portfolio(_RELEASE, c).configurations for c in Collective]
    in_turn = [c for row in zip_longest(*portfolios) for c in row if c is not None]
    return in_turn[:total]


def _measurements(total: int) -> list[Measurement]:
    found = []
    for k, configuration in enumerate(_portfolio(total)):
        for nodes in _NODES:
            for ppn in _PPN:
                for msize in _MSIZES:
                    shape = Shape(nodes, ppn)
                    latency_s = 1e-6 * (1 + k % 7) * shape.nprocs**0.5
                    time_s = latency_s + msize * 1e-10 * (1 + (3 * k) % 11)
                    instance = Instance(configuration.collective, shape, msize)
                    found.append(Measurement(instance, configuration, "l", times_s=(time_s,)))
    return found


def _render_ms(bundle: Bundle) -> float:
    mpi = CONFIGURABLE["openmpi"]
    started = time.perf_counter()
    selector = selector_for(bundle, mpi, _RELEASE, builtin_operations_only=True)
    table = table_for(selector, _ASKED, mpi, _RELEASE, describe=False)
    mpi.write(table, _RELEASE, builtin_operations_only=True)
    return 1000 * (time.perf_counter() - started)


def run() -> Figure:
    """Return the median of several renderings with the learner that is slowest at it."""
    total = int(os.environ.get("COLLTUNE_CONFIGURATIONS", _TOTAL))
    dataset = PerformanceDataset.of(Context("model", "openmpi", _RELEASE), _measurements(total))
    medians_ms = {}
    for learner in ("knn", "gam", "xgboost"):
        bundle = fit(dataset, learner)
        medians_ms[learner] = statistics.median(_render_ms(bundle) for _ in range(_ROUNDS))
        print(f"{learner}: {medians_ms[learner]:.1f} ms")
    slowest_ms = max(medians_ms.values())
    return Figure("render_shape_ms", slowest_ms, "ms", slowest_ms, _PROMISED_MS)
