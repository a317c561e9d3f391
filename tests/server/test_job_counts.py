"""What requests for jobs' files got, counted by day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.registry import Registry
from colltune.server import job_counts
from colltune.server.app import create_app
from colltune.server.job_counts import DAYS_KEPT, CountedRequest, JobCounts, RequestOutcome
from colltune.server.settings import ServiceSettings
from tests.server.conftest import await_ready
from tests.server.registries import bundle

SLOT = "openmpi-4.1.4"
ASKED = CountedRequest("openmpi", "4.1.4", SLOT, 8, "4", RequestOutcome.TUNED)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def test_counts_survive_a_restart_and_add_up_over_services(tmp_path: Path) -> None:
    """Whoever looks sees what all processes of all services wrote, and what it counted itself."""
    first, second = JobCounts(tmp_path), JobCounts(tmp_path)
    first.note(ASKED, 3)
    first.flush()
    second.note(ASKED)
    second.note(ASKED._replace(outcome=RequestOutcome.UNSURE))
    assert second.days() == {
        _today(): {ASKED: 4, ASKED._replace(outcome=RequestOutcome.UNSURE): 1},
    }
    second.flush()
    assert first.days() == second.days() == JobCounts(tmp_path).days()


def test_damaged_files_and_those_of_other_versions_count_nothing(tmp_path: Path) -> None:
    """A file that was cut, or is no file of counts, takes nothing from the others."""
    counts = JobCounts(tmp_path)
    counts.note(ASKED)
    counts.flush()
    (written,) = tmp_path.iterdir()
    text = written.read_text()
    for number, damaged in enumerate((text[:40], "[]", text.replace(": 1,", ": 2,"), "\xff", "{}")):
        (tmp_path / f"jobs-{_today()}-h-{number}.json").write_text(damaged)
    (tmp_path / f"jobs-{_today()}-folder.json").mkdir()
    assert counts.days() == {_today(): {ASKED: 1}}


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    """What cannot be written stays in memory, and is written when there is room again."""
    (tmp_path / "folder").write_text("in the way")
    counts = JobCounts(tmp_path / "folder")
    counts.note(ASKED, 2)
    counts.flush()
    assert counts.days() == {_today(): {ASKED: 2}}
    (tmp_path / "folder").unlink()
    counts.flush()
    assert JobCounts(tmp_path / "folder").days() == {_today(): {ASKED: 2}}


def test_room_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old days are removed; beyond so many shapes requests are counted without theirs."""
    monkeypatch.setattr(job_counts, "MOST_ROWS", 5)
    old = (datetime.now(UTC).date() - timedelta(days=DAYS_KEPT)).isoformat()
    for name in (f"jobs-{old}-h-1.json", f".jobs-{old}-h-2.json.0a1b2c3d.tmp"):
        (tmp_path / name).write_text("{}")
    counts = JobCounts(tmp_path)
    for nodes in range(1, 21):
        counts.note(ASKED._replace(nodes=nodes))
    counts.flush()
    (found,) = JobCounts(tmp_path).days().values()
    assert (len(found), found.total()) == (6, 20)
    assert found[CountedRequest("", "", SLOT, 0, "", RequestOutcome.TUNED)] == 15
    assert len(list(tmp_path.iterdir())) == 1


def test_each_request_counts_once_with_what_it_got(tmp_path: Path) -> None:
    """Tuned, or why not: warm and cold, of several shapes at once, and without a bundle."""
    registry = Registry(tmp_path / "registry")
    registry.promote(registry.add(bundle()), by="test")
    settings = ServiceSettings(registry=str(tmp_path / "registry"), demand=tmp_path / "demand")
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        await_ready(client)
        for _ in range(3):
            client.get("/v1/config/openmpi/4.1.4", params={"nodes": 8, "ppn": 4})
        for release, nodes, ppn in (
            ("4.1.5", 8, (4, 1)),
            ("4.1.4", 1, (1,)),
            ("4.1.4", 1 << 20, (1,)),
            ("3.1.6", 8, (4,)),
        ):
            asked = [("nodes", nodes), *(("ppn", one) for one in ppn), ("folder", "/f")]
            client.get(f"/v1/job/openmpi/{release}", params=asked)
        client.get("/v1/config/openmpi/4.1.4", params={"nodes": 0, "ppn": 4})
        client.get("/v1/select", params={"nodes": 8, "ppn": 4})
        metrics = client.get("/metrics").text
    assert f'colltune_jobs_total{{outcome="tuned",slot="{SLOT}"}} 4.0' in metrics
    (found,) = JobCounts(tmp_path / "demand").days().values()
    assert found == {
        ASKED: 3,
        ASKED._replace(release="4.1.5", ppn="1 4"): 1,
        ASKED._replace(nodes=1, ppn="1", outcome=RequestOutcome.ALONE): 1,
        ASKED._replace(nodes=1 << 20, ppn="1", outcome=RequestOutcome.OUTSIDE): 1,
        ASKED._replace(release="3.1.6", slot="", outcome=RequestOutcome.NO_BUNDLE): 1,
    }
