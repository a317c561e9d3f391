"""Share of the budget of ``colltune tune`` that is spent inside timed loops."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figure import Figure

_BUDGET_S = 90


def run() -> Figure:
    """Return seconds in timed loops over the budget of the standard tuning run."""
    program = str(Path(sys.executable).with_name("colltune"))
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "tune", "--budget", str(_BUDGET_S), "--out", folder, "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    share = report["timed_s"] / _BUDGET_S
    return Figure("timed_share", share, "fraction", report["timed_s"], report["wall_s"])
