"""The page's front: health, confirmed gains apart from predicted ones, drift, and plans."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from colltune.domain import Collective
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.page.changes import changes_view
from colltune.page.maps import map_view
from colltune.registry import Registry
from colltune.selector.configuration import selector_for, target_of
from colltune.server.app import create_app
from colltune.server.job_counts import CountedRequest, JobCounts, RequestOutcome
from colltune.server.settings import ServiceSettings
from tests.models.machines import measured
from tests.server.conftest import await_ready
from tests.server.registries import SCORE, confirmed, reported

SLOT = "openmpi-4.1.4"


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of which two decisions were confirmed, and one withdrawn."""
    return confirmed(fit(measured(), "knn"))


@pytest.fixture
def registry(bundle: Bundle, tmp_path: Path) -> Registry:
    """Return a registry in which the bundle is in force."""
    found = Registry(tmp_path / "registry")
    found.promote(found.add(bundle), by="ann", note="why not")
    return found


@pytest.fixture
def client(registry: Registry, tmp_path: Path) -> Iterator[TestClient]:
    """Return a client of a service over the registry that counts what jobs ask for."""
    folder = tmp_path / "data"
    folder.mkdir()
    settings = ServiceSettings(registry=str(registry), demand=tmp_path / "demand", data=folder)
    with TestClient(create_app(settings)) as client:
        await_ready(client)
        yield client


def _front(client: TestClient) -> dict[str, Any]:
    watcher = client.app.state.service.watcher  # type: ignore[attr-defined]
    watcher._reports_at = -1e9
    watcher.refresh()
    return dict(client.get("/v1/view/front").json())


def test_where_nothing_is_known_nothing_is_said(client: TestClient) -> None:
    """Without reports and requests there are no figures, and nothing to see to."""
    found = _front(client)
    assert (found["attention"], found["retraining_utc"], found["arrived"]) == ([], "", 0)
    assert found["requests"]["releases"] == found["requests"]["days"] == []
    (slot,) = found["slots"]
    assert {slot[name] for name in ("held_out", "drift", "campaign")} == {None}
    assert slot["outcome"] == ""


def test_confirmed_gains_come_with_their_intervals(client: TestClient) -> None:
    """What was withdrawn is counted apart; means are geometric, of gains and of ends."""
    (slot,) = _front(client)["slots"]
    assert [(one["first_bytes"], one["gain"]) for one in slot["confirmed"]] == [
        (1024, 2.0),
        (16384, 1.5),
    ]
    assert slot["withdrawn"] == 1
    root = 3**0.5
    assert slot["mean"] == pytest.approx([root, root / 1.1, root * 1.1])


def test_reports_of_retraining_are_told(client: TestClient, registry: Registry) -> None:
    """Its outcome, held-out figures of the bundle in force, drift, and the next campaign."""
    reported(registry, SLOT)
    failed = {"mpich-4.0.2": "the disk is full"}
    registry.put_report("retrain", (registry.latest_report("retrain") or {}) | {"failed": failed})
    registry.store.create("retraining/00000001.json", b"{}")
    found = _front(client)
    assert found["retraining_utc"]
    assert found["attention"] == [
        f"{SLOT}: the machine has drifted",
        "mpich-4.0.2: the latest retraining failed: the disk is full",
    ]
    (slot,) = found["slots"]
    assert slot["held_out"] == SCORE
    assert slot["drift"]["shifts"][0]["ratio"] == 1.3
    assert slot["campaign"]["nodes"] == [8, 16]
    assert 0 < len(slot["campaign"]["wanted"]) < 20
    assert (slot["outcome"], slot["reason"]) == ("kept", "worse")


@pytest.mark.parametrize("garbage", [{}, {"slots": 3}, {"slots": {SLOT: {"campaign": "x"}}}])
def test_a_report_that_is_not_understood_is_left_out(
    client: TestClient, registry: Registry, garbage: dict[str, Any]
) -> None:
    """The rest of the front stands."""
    for kind in ("retrain", "drift"):
        registry.put_report(kind, garbage)
    (slot,) = _front(client)["slots"]
    assert (slot["drift"], slot["campaign"], slot["held_out"]) == (None, None, None)


def test_measurements_that_wait_for_retraining_are_counted(
    client: TestClient, registry: Registry, tmp_path: Path
) -> None:
    """Files that came in after the latest report wait; those before it do not."""
    for name in ("a.parquet", "b.parquet", "c.csv"):
        (tmp_path / "data" / name).touch()
        os.utime(tmp_path / "data" / name, (1e9, 1e9))
    assert _front(client)["arrived"] == 2
    registry.put_report("retrain", {})
    (tmp_path / "data" / "a.parquet").touch()
    os.utime(tmp_path / "data" / "a.parquet", (1e10, 1e10))
    assert _front(client)["arrived"] == 1


def test_requests_are_told_by_release_shape_and_reason(client: TestClient, tmp_path: Path) -> None:
    """The most frequent first; how many were tuned on a shape with confirmed gains stands apart."""
    other = JobCounts(tmp_path / "demand")
    tuned = CountedRequest("openmpi", "4.1.4", SLOT, 8, "4", RequestOutcome.TUNED)
    other.note(tuned, 5)
    other.note(tuned._replace(nodes=6), 4)
    other.note(CountedRequest("openmpi", "5.0.3", "", 8, "4 8 16", RequestOutcome.NO_BUNDLE), 2)
    other.flush()
    found = _front(client)["requests"]
    assert (found["today"]["tuned"], found["today"]["kept"], found["confirmed"]) == (9, 2, 5)
    assert [(row["what"], row["tuned"], row["kept"]) for row in found["releases"]] == [
        ("Open MPI 4.1.4", 9, 0),
        ("Open MPI 5.0.3", 0, 2),
    ]
    assert [row["what"] for row in found["shapes"]] == ["8 × 4", "6 × 4", "8 × 4, 8 or 16"]
    assert found["reasons"] == [
        {"reason": RequestOutcome.NO_BUNDLE, "requests": 2, "releases": ["Open MPI 5.0.3"]}
    ]


def test_changes_stand_on_the_fields_of_the_map(bundle: Bundle) -> None:
    """A field is marked as begun or ended exactly where the two maps differ in that way."""
    without = fit(measured(collectives=(Collective.ALLREDUCE,)), "knn")
    view = map_view(selector_for(bundle, target_of(bundle)), SLOT, Collective.BCAST, without)
    kinds = Counter(change.kind for row in view.rows for change in row.changes)
    assert set(kinds) == {"begun"}
    for row in view.rows:
        marked = {k for one in row.changes for k in range(one.first, one.last + 1)}
        tuned = {k for k, at in enumerate(row.chosen) if not view.configurations[at].is_default}
        assert len(marked ^ tuned) <= 2  # the written table moves its ends by a step
    same = changes_view(bundle, bundle, SLOT)
    assert (same.ranges, same.largest, {c.share for c in same.collectives}) == (0, (), {0.0})
