"""`colltune site status`: of a folder, of a service, and as a month's report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colltune.retraining.site_file import load
from tests.cli.conftest import Verb
from tests.page.reading import facts_of
from tests.production import judged


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site that records production and was judged."""
    return judged.site(tmp_path / "site")


def test_it_tells_all_that_was_judged(colltune: Verb, site: Path) -> None:
    """Savings with intervals, verdicts, gains, roll-out, arms, drift, and what was not judged."""
    answer = colltune("site", "status", site)
    assert answer.status == 0
    for told in (
        "saved in 2026-11: 412 node-hours (380 to 450)",
        "2 decisions proven, 1 refuted, 1 not known yet",
        "drift of openmpi-4.1.4: all jobs are 1.20x slower",
        "0.53 (0.48-0.58)",
        "unknown bundle",
    ):
        assert told in answer.out
    arms = re.findall(r"^openmpi-4.1.4  (tuned|control|candidate) .*", answer.out, re.M)
    assert arms == ["tuned", "control", "candidate"]


def test_where_it_is_off_it_says_what_switches_it_on(colltune: Verb, site: Path) -> None:
    """That is no fault: the status is 0, and no store is made."""
    file = site / "site.toml"
    file.write_text(file.read_text().replace("record = true", "record = false"))
    store = Path(load(site / "site.toml").production.store)
    store.unlink()
    answer = colltune("site", "status", site)
    assert answer.status == 0
    assert "record = true" in answer.out
    assert not store.exists()
    refused = colltune("site", "status", site, "--report", site / "r.html")
    assert refused.status != 0
    assert not (site / "r.html").exists()


def test_before_anything_is_judged_no_store_is_made(colltune: Verb, site: Path) -> None:
    """Whoever looks may not be the one who writes it."""
    store = Path(load(site / "site.toml").production.store)
    store.unlink()
    answer = colltune("site", "status", site)
    assert "no job was judged yet" in answer.out
    assert not store.exists()


@pytest.mark.parametrize("columns", [80, 200])
def test_it_fits_the_terminal(
    colltune: Verb, site: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer; what a narrow terminal leaves out is named."""
    monkeypatch.setattr("colltune.cli.console.terminal_width", lambda *_: columns)
    lines = colltune("site", "status", site).out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any("not shown for want of width" in line for line in lines) == (columns == 80)


@pytest.mark.parametrize("month", ["", "2026-10"])
def test_a_report_is_the_page_of_a_month(
    colltune: Verb, site: Path, tmp_path: Path, month: str
) -> None:
    """It begins with the month that was asked for, by default the latest."""
    out = tmp_path / "report.html"
    words = ("--month", month) if month else ()
    assert colltune("site", "status", site, "--report", out, *words).status == 0
    facts = facts_of(out.read_text(encoding="utf-8"))
    months = facts["answers"]["v1/view/production"]["months"]
    assert months[0]["period"] == (month or "2026-11")


def test_a_month_without_jobs_has_no_report(colltune: Verb, site: Path, tmp_path: Path) -> None:
    """The error names the months that there are, and nothing is written."""
    out = tmp_path / "report.html"
    answer = colltune("site", "status", site, "--report", out, "--month", "2025-01")
    assert answer.status != 0
    assert "2026-11, 2026-10" in answer.err
    assert not out.exists()
    assert colltune("site", "status", site, "--month", "2026-11").status != 0
