"""What the page costs: processor time of ``colltune report``, and of its script's first draw."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES, Release
from figures.figure import Figure
from figures.render_shape_ms import modelled

_RELEASE = "4.1.6"
_MSIZES = tuple(4**k for k in range(11))
_ROUNDS = 9
_EIGHT = tuple(Collective)[:8]


def _fastest_last(bound: Release, collective: Collective) -> list[Configuration]:
    """Return five configurations so that the default, the last, is not the fastest."""
    return list(reversed(bound.portfolio(collective).configurations[:5]))


def _saved(folder: Path, collectives: tuple[Collective, ...]) -> Path:
    """Return a bundle of 12 shapes, 11 message sizes and 5 configurations of each collective."""
    bound = LIBRARIES["openmpi"].at(_RELEASE)
    measured = [
        measurement
        for collective in collectives
        for measurement in modelled(_fastest_last(bound, collective), _MSIZES)
    ]
    dataset = PerformanceDataset.of(Context("model", "openmpi", _RELEASE), measured)
    return fit(dataset, "knn").save(folder / f"{len(collectives)}")


def _processor_s(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    children = after.children_user + after.children_system
    return children - before.children_user - before.children_system


def _command(bundle: Path, out: Path) -> list[str]:
    program = str(Path(sys.executable).with_name("colltune"))
    return [program, "report", "--bundle", str(bundle), "--out", str(out)]


def report_s() -> Figure:
    """Return the seconds of a processor that a report of 8 collectives takes, import included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = _command(_saved(folder, _EIGHT), folder / "report.html")
        baseline = [sys.executable, "-c", "import numpy"]
        pairs = [(_processor_s(ours), _processor_s(baseline)) for _ in range(_ROUNDS)]
        size = (folder / "report.html").stat().st_size
    report, numpy = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Figure("report_s", report, "s", report, numpy, {"file_bytes": size})


def first_draw_ms() -> Figure:
    """Return the milliseconds of script until a file with all collectives is drawn, in Chromium.

    The baseline is the same for one collective.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    program = shutil.which("chromium") or shutil.which("google-chrome")
    found = {}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for collectives in (tuple(Collective)[:14], (Collective.BCAST,)):
            out = Path(name, f"{len(collectives)}.html")
            subprocess.run(_command(_saved(Path(name), collectives), out), check=True)
            times = []
            for _ in range(_ROUNDS):
                page = browser.new_page(viewport={"width": 1200, "height": 800})
                session = page.context.new_cdp_session(page)
                session.send("Performance.enable")
                page.goto(out.as_uri())
                page.wait_for_selector(".lead")
                time.sleep(0.3)
                metrics = session.send("Performance.getMetrics")["metrics"]
                spent = {one["name"]: one["value"] for one in metrics}
                times.append(1e3 * spent["ScriptDuration"])
                page.close()
            found[len(collectives)] = statistics.median(times)
        browser.close()
    return Figure("first_draw_ms", found[14], "ms", found[14], found[1])
