"""Seconds to retrain a site of 250,000 measurements and 60 configurations on two cores.

Three collectives on 84 shapes and 12 message sizes; times are those of a latency-bandwidth model,
20 repetitions each, with noise between launches and between repetitions. A bundle of the first four
fifths of the launches is in force. Timed is the whole command, in a process of its own: reading,
drift, fitting, evaluating the candidate and the bundle in force, promoting.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import COLUMNS
from colltune.dataset.parquet import append_dataset
from colltune.domain import Collective, Context
from colltune.models.fitting import fit
from colltune.registry import Registry
from figures.figure import Figure

_MEASUREMENTS = 250_000
_CONFIGURATIONS = 20
_COLLECTIVES = (Collective.ALLREDUCE, Collective.ALLGATHER, Collective.BCAST)
_NODES = (2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 48, 64)
_PPN = (1, 4, 8, 16, 24, 32)
_MSIZES = tuple(4**k for k in range(1, 13))
_LAUNCHES, _OLD = 50, 40
_REPETITIONS = 20
_PROMISED_S = 180.0
_CONTEXT = Context("model", "openmpi", "4.1.6")


def _cells() -> tuple[pd.DataFrame, np.ndarray]:
    """Return all cells and their true seconds."""
    rng = np.random.default_rng(0)
    parts, seconds = [], []
    nodes, ppn, msize = np.array(list(product(_NODES, _PPN, _MSIZES))).T
    for collective in _COLLECTIVES:
        for k in range(_CONFIGURATIONS):
            latency_s = 1e-6 * rng.uniform(0.5, 3.0) * (nodes * ppn) ** rng.uniform(0.3, 1.0)
            second_s = 1e-10 * rng.uniform(0.5, 5.0) * msize * nodes ** rng.uniform(0.0, 0.5)
            seconds.append(latency_s + second_s)
            name = "default" if k == 0 else f"algorithm_{k:02}"
            table = {"nodes": nodes, "ppn": ppn, "msize_bytes": msize}
            parts.append(
                pd.DataFrame(table).assign(
                    collective=collective.value, algorithm=name, parameters=""
                )
            )
    return pd.concat(parts, ignore_index=True), np.concatenate(seconds)


def _write(folder: Path) -> list[PerformanceDataset]:
    """Write the launches, each a sample of the cells, and return them."""
    cells, true_s = _cells()
    rng = np.random.default_rng(1)
    now = datetime.now(UTC)
    launches = []
    for k in range(_LAUNCHES):
        rows = np.sort(rng.choice(len(cells), _MEASUREMENTS // _LAUNCHES, replace=False))
        factor = rng.lognormal(0.0, 0.1) * rng.lognormal(0.0, 0.03, len(rows))
        noise = rng.lognormal(0.0, 0.05, (len(rows), _REPETITIONS))
        times_s = (true_s[rows] * factor)[:, None] * noise
        frame = cells.iloc[rows].assign(
            launch=f"launch {k:02}",
            status="ok",
            n_reps=_REPETITIONS,
            time_s=np.median(times_s, axis=1),
            time_mean_s=times_s.mean(axis=1),
            time_min_s=times_s.min(axis=1),
            time_p90_s=np.quantile(times_s, 0.9, axis=1),
            time_max_s=times_s.max(axis=1),
        )
        frame["times_s"] = [tuple(row) for row in times_s.tolist()]
        dataset = PerformanceDataset(_CONTEXT, frame[COLUMNS].reset_index(drop=True))
        at = now + timedelta(days=1 if k >= _OLD else -1)
        append_dataset(folder, dataset, {"time_utc": at.isoformat(timespec="seconds")})
        launches.append(dataset)
    return launches


def run() -> Figure:
    """Return the wall time of one retraining, against the promise."""
    with tempfile.TemporaryDirectory(prefix="colltune-bench-") as name:
        root = Path(name)
        launches = _write(root / "data")
        old = pd.concat([launch.frame for launch in launches[:_OLD]], ignore_index=True)
        in_force = fit(PerformanceDataset(_CONTEXT, old), jobs=2)
        (root / "registry").mkdir()
        registry = Registry(root / "registry")
        registry.promote(registry.add(in_force), by="benchmark")
        site = root / "site.toml"
        site.write_text(
            '[site]\nmachine = "model"\nregistry = "registry"\n[data]\ndatasets = ["data"]\n',
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "colltune.cli", "retrain", "--config", str(site)]
        started = time.perf_counter()
        done = subprocess.run(
            [*command, "--jobs", "2"], check=False, capture_output=True, text=True
        )
        seconds = time.perf_counter() - started
        print(done.stdout + done.stderr, end="")
        if done.returncode != 0:
            raise SystemExit(f"the retraining ended with status {done.returncode}")
    return Figure("retrain_250k_seconds", seconds, "s", seconds, _PROMISED_S)
