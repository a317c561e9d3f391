"""`colltune tune` with a real MPI, from measuring to the proof."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colltune.bench import build
from colltune.dataset import read_parquet
from colltune.domain import Collective, Instance, Shape
from colltune.errors import ProgramError
from colltune.models.bundle import load
from colltune.mpi import installation, trace
from colltune.mpi.formats import FORMATS
from colltune.mpi.rules import Severity
from colltune.selector.argmin import ModelSelector
from tests.mpi.linting import lint
from tests.page.reading import facts_of

pytestmark = pytest.mark.mpi
COLLTUNE = str(Path(sys.executable).with_name("colltune"))
BUDGET_S = 30


@pytest.fixture(scope="module", autouse=True)
def mpi() -> installation.Installation:
    """Return the MPI of this environment."""
    try:
        return installation.find()
    except ProgramError as error:
        pytest.skip(str(error))


def _tune(out: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [COLLTUNE, "tune", "--out", str(out), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.quick
def test_tune_measures_selects_and_proves(tmp_path: Path) -> None:
    """One run leaves dataset, bundle, and rules that hold what was proved, and are obeyed."""
    done = _tune(tmp_path, "--budget", BUDGET_S, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {row["collective"] for row in report["rows"]} == {"bcast", "allreduce", "alltoall"}
    changed = [row for row in report["rows"] if not row["configuration"].endswith(".default")]
    told = " ".join(report["notes"])
    if not trace.unavailable():
        # on a busy machine there may be no time to look
        assert "inspected" in told or all(row["in_effect"] for row in changed)
    assert [row for row in changed if row["verdict"] != "confirmed"] == []
    assert all(row["measured_gain_lower"] > 1 for row in changed)
    dataset = read_parquet(Path(report["dataset"]))
    assert all(times for times in dataset.frame[dataset.frame["status"] == "ok"]["times_s"])
    bundle = load(Path(report["bundle"]))
    assert set(bundle.collectives) == set(dataset.collectives)
    selector = ModelSelector(bundle)
    for row in changed:
        collective, shape = Collective(row["collective"]), Shape(1, report["ppn"])
        selection = selector.select(Instance(collective, shape, row["first_bytes"]))
        assert selection.configuration.id == row["configuration"]
        assert selection.status == "confirmed"
    rules = Path(report["configuration"])
    parsed = FORMATS["openmpi-classic"].parse(rules.read_text(), str(rules), "5.0.11")
    assert not parsed.dropped
    assert not [f for f in lint(parsed) if f.severity is Severity.ERROR]
    facts = facts_of(Path(report["page"]).read_text(encoding="utf-8"))
    assert facts["answers"]["v1/view/gains"]["summary"] == report["gain"]
    line = report["job_line"]
    assert (line is None) == (not changed) == bool(report["unproven"])
    assert line is None or line.startswith("export OMPI_MCA_")


def test_a_budget_that_is_too_small_says_so(tmp_path: Path) -> None:
    """A budget of a second ends at once with status 6, and nothing is left behind."""
    done = _tune(tmp_path / "o", "--budget", 1)
    assert done.returncode == 6
    assert "--budget 1" in done.stderr
    assert not (tmp_path / "o").exists()


def test_without_a_compiler_there_is_a_clear_error(tmp_path: Path) -> None:
    """Without a C compiler nothing can be measured, which is said with the mend."""
    environment = {**os.environ, "OMPI_CC": "no-such-cc", "XDG_CACHE_HOME": str(tmp_path)}
    command = [COLLTUNE, "tune", "--out", str(tmp_path / "o")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 5
    assert "no C compiler" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_run_keeps_what_it_measured(
    mpi: installation.Installation, tmp_path: Path
) -> None:
    """SIGTERM in the middle of measuring ends with status 130; the measurements are stored."""
    build.native_benchmark(mpi)
    command = [COLLTUNE, "measure", "--out", str(tmp_path / "d"), "--budget", "60"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(300):
        time.sleep(0.1)
        raw = "".join(f.read_text() for f in (tmp_path / "d").glob("raw/*/raw.txt"))
        if raw.count("\nr ") > 20:
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the measurements are kept" in errors
    assert len(read_parquet(tmp_path / "d")) >= 5
