"""Share of the wall time of a measuring campaign, and of ``colltune tune``, inside timed loops."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures.figure import Figure

_CAMPAIGN_S, _TUNE_S = 60, 90


def run() -> Figure:
    """Return seconds in timed loops over the budget of a campaign on this machine."""
    report = _report("measure", _CAMPAIGN_S)
    share = report["timed_s"] / _CAMPAIGN_S
    return Figure("timed_share", share, "fraction", report["timed_s"], report["wall_s"])


def run_tune() -> Figure:
    """Return seconds in timed loops over the budget of ``colltune tune``: fitting costs, too."""
    report = _report("tune", _TUNE_S)
    share = report["timed_s"] / _TUNE_S
    return Figure("tune_timed_share", share, "fraction", report["timed_s"], report["wall_s"])


def _report(verb: str, budget_s: float) -> dict[str, Any]:
    program = str(Path(sys.executable).with_name("colltune"))
    with tempfile.TemporaryDirectory() as folder:
        command = [program, verb, "--budget", str(budget_s), "--out", folder, "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report
