"""Microseconds per decision in a compiled table, against asking the models each time."""

from __future__ import annotations

import statistics
import time

from benchmarks.figure import Figure
from benchmarks.render_shape_ms import ASKED, bundle_of
from colltune.domain import Collective, Instance
from colltune.mpi.programs import MOST_PROMISED
from colltune.selector.compiled import CompiledTable
from colltune.selector.configuration import Target, selector_for, table_for

_RELEASE = "4.1.6"
_LOOK_UPS, _ROUNDS = 20_000, 15
_MSIZES = tuple(3 * 4**k for k in range(11))


def run() -> Figure:
    """Return the median time of a look-up over rounds, each beside some answers of the models."""
    target = Target.named("openmpi", _RELEASE, programs=MOST_PROMISED)
    selector = selector_for(bundle_of("knn", 60), target)
    compiled = CompiledTable(table_for(selector, ASKED, target))
    calls = [
        (c, n, m)
        for c in (Collective.BCAST, Collective.ALLREDUCE, Collective.ALLTOALL)
        for n in (ASKED.nprocs, ASKED.nodes, ASKED.ppn, 7)
        for m in _MSIZES
    ]
    calls = (calls * (_LOOK_UPS // len(calls) + 1))[:_LOOK_UPS]
    ours_us, baseline_us = [], []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        for collective, comm_size, msize in calls:
            compiled.decide(collective, comm_size, msize)
        ours_us.append(1e6 * (time.perf_counter() - started) / len(calls))
        started = time.perf_counter()
        for msize in _MSIZES:
            selector.select(Instance(Collective.BCAST, ASKED, msize))
        baseline_us.append(1e6 * (time.perf_counter() - started) / len(_MSIZES))
    ours = statistics.median(ours_us)
    return Figure("decision_us", ours, "us", ours, statistics.median(baseline_us))
