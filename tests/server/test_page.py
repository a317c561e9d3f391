"""The page at ``/`` and what it asks for."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.domain import Collective, Instance, Shape
from colltune.json_text import encoded
from colltune.models.bundle import load
from colltune.models.fitting import fit
from colltune.page.maps import map_view, prediction_view
from colltune.registry import Registry
from colltune.selector.configuration import Target, selector_for
from colltune.server.app import create_app
from colltune.server.settings import ServiceSettings
from tests.models.machines import measured
from tests.server.conftest import await_ready

SLOT = {"library": "openmpi", "release": "4.1.4"}
AT = {**SLOT, "collective": "bcast", "nodes": 8, "ppn": 4, "msize": 65536}
TARGET = Target.named("openmpi", "4.1.4")


def test_the_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    """The policy allows scripts and styles of the service alone, none inline."""
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_its_files_come_with_their_type_and_are_sent_once(client: TestClient) -> None:
    """A browser that has a file is told so."""
    script = client.get("/page/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = client.get("/page/app.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_nothing_else_is_given_away(client: TestClient) -> None:
    """Only the page's own files are served, whatever a path looks like."""
    for name in ("app.py", "..%2fapp.py", "%2e%2e/app.py", "a%00.js", "a" * 900):
        answer = client.get(f"/page/{name}")
        assert (answer.status_code, name) == (404, name)
        assert answer.headers["content-type"] == "application/problem+json"


def test_answers_are_the_views_of_what_is_in_force(client: TestClient, bundle_path: Path) -> None:
    """Map and predictions are those of the selector that writes the files."""
    selector = selector_for(load(bundle_path), TARGET)
    found = client.get("/v1/view/map", params={**SLOT, "collective": "bcast"})
    view = map_view(selector, "openmpi-4.1.4", Collective.BCAST)
    assert found.json() == json.loads(encoded(view))
    told = client.get("/v1/view/predictions", params=AT)
    instance = Instance(Collective.BCAST, Shape(8, 4), 65536)
    predicted = prediction_view(selector, "openmpi-4.1.4", instance, TARGET)
    assert told.json() == json.loads(encoded(predicted))


def test_a_job_is_shown_the_file_that_it_would_get(client: TestClient) -> None:
    """The text shown is byte for byte what the address beside it answers."""
    view = client.get("/v1/view/job", params={**SLOT, "nodes": 8, "ppn": 4}).json()
    assert len(view["files"]) == 1
    for file in view["files"]:
        assert client.get(f"/{file['url']}").text == file["text"]
    named = {**SLOT, "nodes": 8, "ppn": 4, "format": "openmpi-parameters"}
    file = client.get("/v1/view/job", params=named).json()["files"][0]
    assert client.get(f"/{file['url']}").text == file["text"]


def test_a_map_is_computed_once_per_bundle(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, the same is answered without computing, and not sent to who has it."""
    query = {**SLOT, "collective": "allreduce"}
    first = client.get("/v1/view/map", params=query)

    def refuse(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("colltune.server.service.map_view", refuse)
    assert client.get("/v1/view/map", params=query).content == first.content
    known = {"If-None-Match": first.headers["etag"]}
    assert client.get("/v1/view/map", params=query, headers=known).status_code == 304


def test_the_overview_follows_the_registry(tmp_path: Path, bundle_path: Path) -> None:
    """A promotion shows up with who did it and why; who has the overview is told so."""
    registry = Registry(tmp_path / "registry")
    bundle_id = registry.add(bundle_path)
    registry.promote(bundle_id, by="night", note="first")
    with TestClient(
        create_app(ServiceSettings(registry=str(tmp_path / "registry"), poll_s=0.02))
    ) as client:
        await_ready(client)
        first = client.get("/v1/view")
        assert first.json()["slots"][0]["bundle"] == bundle_id
        known = {"If-None-Match": first.headers["etag"]}
        assert client.get("/v1/view", headers=known).status_code == 304
        other = registry.add(fit(measured(noise=0.1), "knn"))
        registry.promote(other, by="day", note="better")
        history = client.get("/v1/view", headers=known).json()["history"]
        told = [(e["bundle"], e["previous"], e["by"], e["note"]) for e in history]
        assert told == [(other, bundle_id, "day", "better"), (bundle_id, None, "night", "first")]
        deadline = time.monotonic() + 120
        while not (found := client.get("/v1/view").json())["history"][0]["in_force"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert found["slots"][0]["bundle"] == other
        # what was in force before can still be looked at
        looked_at = client.get("/v1/view", params={"bundle": bundle_id[:8]}).json()["looked_at"]
        assert looked_at["bundle"] == bundle_id
        assert [one["name"] for one in looked_at["collectives"]] == ["allreduce", "bcast"]
        pinned = {"bundle": bundle_id, "nodes": 8, "ppn": 4}
        job = client.get("/v1/view/job", params=pinned).json()
        assert job["bundle"] == bundle_id
        assert client.get(f"/{job['files'][0]['url']}").text == job["files"][0]["text"]
        assert f"bundle={bundle_id}" in job["files"][0]["url"]
        assert client.get("/v1/view", params={"bundle": "0123abcd"}).status_code == 404


def test_nothing_in_force_is_told_as_not_ready(tmp_path: Path) -> None:
    """An empty registry is a problem that passes, with the reason."""
    (tmp_path / "registry").mkdir()
    with TestClient(
        create_app(ServiceSettings(registry=str(tmp_path / "registry"), poll_s=0.02))
    ) as client:
        answer = client.get("/v1/view")
        assert answer.status_code == 503
        assert answer.json()["detail"]
        assert "retry-after" in answer.headers


def test_senseless_questions_are_refused(client: TestClient) -> None:
    """Each is answered with one problem that names what is wrong."""
    questions: dict[str, dict[str, object]] = {
        "map": dict(SLOT, collective="bcast"),
        "predictions": AT,
        "job": {**SLOT, "nodes": 8, "ppn": 4},
    }
    for path, change, status in (
        ("map", {"collective": "scan"}, 404),
        ("map", {"collective": "<script>"}, 422),
        ("map", {"library": "mpich", "release": "4.0.2"}, 404),
        ("map", {"surprise": "1"}, 422),
        ("predictions", {"nodes": "0"}, 422),
        ("predictions", {"ppn": "9" * 30}, 422),
        ("predictions", {"msize": str(2**63)}, 422),
        ("predictions", {"msize": "1e6"}, 422),
        ("job", {"nodes": "-1"}, 422),
        ("job", {"format": "mpich-json"}, 422),
        ("job", {"release": "4.1.4/../.."}, 422),
    ):
        answer = client.get(f"/v1/view/{path}", params={**questions[path], **change})
        assert (answer.status_code, path, change) == (status, path, change)
        assert answer.headers["content-type"] == "application/problem+json"


def test_one_process_and_the_largest_job_are_answered(client: TestClient) -> None:
    """The ends of what may be asked for are no special cases."""
    alone = client.get("/v1/view/job", params={**SLOT, "nodes": 1, "ppn": 1})
    assert alone.json()["changes_anything"] is False
    huge = {**AT, "nodes": 1 << 20, "ppn": 1 << 12, "msize": 2**63 - 1}
    assert client.get("/v1/view/predictions", params=huge).json()["replaced"] is False


def test_bounds_of_numbers_are_described(client: TestClient) -> None:
    """Who reads the description knows which counts are refused, of every operation."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [
        parameter["schema"]
        for path in ("/v1/select", "/v1/view/predictions", "/v1/view/job")
        for parameter in paths[path]["get"]["parameters"]
        if parameter["name"] in ("nodes", "ppn")
    ]
    assert len(found) == 6
    assert all(schema["minimum"] == 1 and schema["maximum"] > 1000 for schema in found)
