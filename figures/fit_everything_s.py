"""Seconds on one core to fit regret_trees to `_TOTAL` configurations with 3000 instances each.

As many collectives as COLLTUNE_COLLECTIVES says share the configurations (3, as in the paper's
datasets, unless it is set); times are those of a latency-bandwidth model with 5 % noise. Fitting
includes the errors out of fold. Only the time of this process is counted.
"""

from __future__ import annotations

import os
import time
from itertools import product

import numpy as np

from colltune.domain import Collective, Configuration, Context
from colltune.models.cells import CellMatrix
from colltune.models.fitting import fit_cells
from figures.figure import Figure

_TOTAL = 60
_PROMISED_S = 10.0
_NODES = (2, 3, 4, 6, 7, 8, 12, 13, 16, 19, 20, 24, 27, 28, 30, 32, 33, 35, 36, 40)
_PPN = (1, 2, 4, 8, 12, 16, 24, 28, 32, 36)
_MSIZES = tuple(4**k for k in range(15))


def _cells(collective: Collective, n_configurations: int, seed: int) -> CellMatrix:
    rng = np.random.default_rng(seed)
    nodes, ppn, msize = np.array(list(product(_NODES, _PPN, _MSIZES))).T
    columns = []
    for _ in range(n_configurations):
        latency_s = 1e-6 * rng.uniform(0.5, 3.0) * (nodes * ppn) ** rng.uniform(0.3, 1.0)
        second_s = 1e-10 * rng.uniform(0.5, 5.0) * msize * nodes ** rng.uniform(0.0, 0.5)
        columns.append(latency_s + second_s)
    time_s = np.stack(columns, axis=1)
    time_s = time_s * rng.lognormal(0.0, 0.05, time_s.shape)
    names = ["default", *(f"algorithm_{k:02}" for k in range(1, n_configurations))]
    configurations = sorted(Configuration("openmpi", collective, name) for name in names)
    slow = np.zeros(time_s.shape, np.bool_)
    return CellMatrix(collective, tuple(configurations), nodes, ppn, msize, time_s, slow)


def run() -> Figure:
    """Return the processor time of one fit, against the promise."""
    n_collectives = int(os.environ.get("COLLTUNE_COLLECTIVES", "3"))
    chosen = list(Collective)[:n_collectives]
    shares = [len(part) for part in np.array_split(np.arange(_TOTAL), n_collectives)]
    matrices = {c: _cells(c, n, k) for k, (c, n) in enumerate(zip(chosen, shares, strict=True))}
    started = time.process_time()
    fit_cells(Context("model", "openmpi", "4.1.6"), matrices, "regret_trees", jobs=1)
    seconds = time.process_time() - started
    rows = sum(len(m) for m in matrices.values())
    print(
        f"{n_collectives} collectives, {rows} instances, {_TOTAL} configurations: {seconds:.1f} s"
    )
    return Figure("fit_everything_s", seconds, "s", seconds, _PROMISED_S)
