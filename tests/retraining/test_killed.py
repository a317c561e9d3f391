"""Nights that are killed: old or new bundle is in force, whole; the next night mends the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colltune.errors import NOTHING_NEW
from colltune.registry import Registry
from tests.retraining import kill_points
from tests.retraining.site import SHAPES, launch, retrain, site_of

pytestmark = pytest.mark.slow

SLOT = "openmpi-4.1.4"
_EVERY = 18
_ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_a_kill_at_any_point_leaves_one_whole_bundle_in_force(tmp_path: Path) -> None:
    """Killed before any change to a file, old or new bundle is in force; the next run ends well."""
    root = tmp_path / "site"
    launch(root / "data", "launch 0", seed=0, shapes=SHAPES[::2])
    command = [sys.executable, kill_points.__file__, str(root), str(_EVERY)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=True, env=_ENVIRONMENT
    )
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(points) > 3
    assert [point["killed"] for point in points] == [True] * (len(points) - 1) + [False]
    old, new = points[0]["after_kill"]["in_force"], points[-1]["after_kill"]["in_force"]
    assert old != new
    for point in points:
        killed, mended = point["after_kill"], point["after_mending"]
        assert killed["in_force"] in (old, new)
        assert mended == {"in_force": new, "events": 2, "damaged": []}
        assert point["mended"] in ((0,) if killed["in_force"] == old else (NOTHING_NEW,))


def test_terminated_midway_it_keeps_the_old_bundle_and_gives_the_lease_back(
    tmp_path: Path,
) -> None:
    """SIGTERM ends the command with status 130; the next one needs to take nothing over."""
    for k in range(2):
        launch(tmp_path / "data", f"launch {k}", seed=k)
    retrain(site_of(tmp_path))
    before = Registry(tmp_path / "registry").current()[SLOT].bundle_id
    launch(tmp_path / "data", "new", seed=50)
    (tmp_path / "site.toml").write_text(
        '[site]\nmachine = "made-up"\nregistry = "registry"\n[data]\ndatasets = ["data"]\n'
    )
    lease = tmp_path / "registry" / "retraining" / "00000002.json"
    command = [sys.executable, "-m", "colltune.cli", "retrain", "--config"]
    with subprocess.Popen(
        [*command, str(tmp_path / "site.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_ENVIRONMENT,
        text=True,
    ) as process:
        deadline = time.monotonic() + 300.0
        while not lease.exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60.0)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert Registry(tmp_path / "registry").current()[SLOT].bundle_id == before
    night = retrain(site_of(tmp_path))
    assert night.took_over is None
    assert night.exit_status == 0
