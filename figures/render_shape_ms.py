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
from collections.abc import Sequence
from itertools import zip_longest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES
from colltune.mpi.programs import MOST_PROMISED
from colltune.selector.configuration import Target, selector_for, table_for
from figures.figure import Figure

_TOTAL = 60
_PROMISED_MS = 50.0
_RELEASE = "4.1.6"
_NODES, _PPN, _MSIZES = (4, 8, 16, 32), (1, 8, 32), tuple(4**k for k in range(11))
ASKED = Shape(34, 32)
_ROUNDS = 15


def _portfolio(total: int) -> list[Configuration]:
    """Return the defaults, then one configuration of each collective in turn."""
    library = LIBRARIES["openmpi"]
    portfolios = [library.at(_RELEASE).portfolio(c).configurations for c in Collective]
    in_turn = [c for row in zip_longest(*portfolios) for c in row if c is not None]
    return in_turn[:total]


def modelled(portfolio: Sequence[Configuration], msizes: Sequence[int]) -> list[Measurement]:
    """Return a cluster's measurements of `portfolio` as a latency-bandwidth model makes them."""
    found = []
    for k, configuration in enumerate(portfolio):
        for nodes in _NODES:
            for ppn in _PPN:
                for msize in msizes:
                    shape = Shape(nodes, ppn)
                    latency_s = 1e-6 * (1 + k % 7) * shape.nprocs**0.5
                    time_s = latency_s + msize * 1e-10 * (1 + (3 * k) % 11)
                    instance = Instance(configuration.collective, shape, msize)
                    found.append(Measurement(instance, configuration, "l", times_s=(time_s,)))
    return found


def _render_ms(bundle: Bundle) -> float:
    target = Target.named("openmpi", _RELEASE, programs=MOST_PROMISED)
    started = time.perf_counter()
    table = table_for(selector_for(bundle, target), ASKED, target, describe=False)
    target.form.write(table, _RELEASE, programs=MOST_PROMISED)
    return 1000 * (time.perf_counter() - started)


def bundle_of(learner: str, total: int) -> Bundle:
    """Return a bundle of `total` configurations of all collectives, fitted with `learner`."""
    context = Context("model", "openmpi", _RELEASE)
    return fit(PerformanceDataset.of(context, modelled(_portfolio(total), _MSIZES)), learner)


def run() -> Figure:
    """Return the median of several renderings with the learner that is slowest at it."""
    total = int(os.environ.get("COLLTUNE_CONFIGURATIONS", _TOTAL))
    medians_ms = {}
    for learner in ("knn", "gam", "xgboost"):
        bundle = bundle_of(learner, total)
        medians_ms[learner] = statistics.median(_render_ms(bundle) for _ in range(_ROUNDS))
        print(f"{learner}: {medians_ms[learner]:.1f} ms")
    slowest_ms = max(medians_ms.values())
    return Figure("render_shape_ms", slowest_ms, "ms", slowest_ms, _PROMISED_MS)
