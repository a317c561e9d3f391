"""A real campaign, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from colltune.bench.backends import raw
from colltune.dataset import read_parquet
from colltune.dataset.parquet import read_provenance
from colltune.errors import ProgramError
from colltune.mpi import installation

pytestmark = [pytest.mark.mpi, pytest.mark.slow]
BUDGET_S = 20
CAMPAIGN = f"""
[space]
collectives = ["bcast", "allreduce"]
nodes = [1]
ppn = [4]
msizes_bytes = [8, 512, 4096]
segsizes_bytes = [0]
fanouts = [2]
[budget]
total = "{BUDGET_S}s"
"""
CELL = ["collective", "algorithm", "parameters", "msize_bytes"]


def _cells(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(frame[CELL].itertuples(index=False, name=None))


def _measure(campaign: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "colltune.cli", "measure", str(campaign), "--out", str(out)]


def _repetitions(folder: Path) -> int:
    """Return how many repetitions the raw output of all launches holds."""
    outputs = (raw.read_raw(file) for file in folder.glob("*/raw.txt"))
    return sum(len(times) for output in outputs for times in output.times_s.values())


def _spent_s(out: Path) -> list[float]:
    """Return the seconds that were spent whenever the campaign noted something."""
    journal = next((out / "campaigns").iterdir())
    spent: list[float] = pd.read_json(journal, lines=True)["at_s"].dropna().tolist()
    return spent


def test_a_killed_campaign_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    """After SIGKILL the same command keeps every repetition, and spends only what was left."""
    try:
        installation.find()
    except ProgramError as error:
        pytest.skip(str(error))
    campaign, out = tmp_path / "c.toml", tmp_path / "d"
    campaign.write_text(CAMPAIGN)
    killed = subprocess.Popen(_measure(campaign, out), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while _repetitions(out / "raw") < 100 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    time.sleep(1.0)
    before, spent_s = _repetitions(out / "raw"), _spent_s(out)
    (launch,) = (out / "raw").iterdir()
    done = subprocess.run(
        _measure(campaign, out), check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "resumed a killed run" in done.stdout
    frame = read_parquet(out).frame
    kept = frame[frame["launch"] == launch.name]
    assert int(kept["n_reps"].sum()) >= before >= 100
    later = [file for file in out.glob("*.parquet") if read_provenance(file)["phase"] == "survey"]
    again = pd.concat(read_parquet(file).frame for file in later)
    assert not set(_cells(kept)) & set(_cells(again[again["launch"] != launch.name]))
    assert 0 <= spent_s[0] <= spent_s[-1] <= min(_spent_s(out)[len(spent_s) :])
