"""``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from colltune.registry import Registry
from colltune.selector.demand import Demand, read_demand
from colltune.server.app import create_app
from colltune.server.auth import token_file
from colltune.server.auth.token_file import Scope, Token
from colltune.server.settings import ServiceSettings
from tests.server.conftest import await_ready
from tests.server.registries import bundle

CONFIG = "/v1/config/openmpi/4.1.4"
SHAPE = {"nodes": 8, "ppn": 4}
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def _samples(client: TestClient) -> Samples:
    text = client.get("/metrics").text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """Return a registry with a bundle in force, and reports."""
    found = Registry(tmp_path / "registry")
    found.promote(found.add(bundle()), by="test")
    return found


@pytest.fixture
def client(registry: Registry, tmp_path: Path) -> Iterator[TestClient]:
    """Return a client of a service over `registry` that notes demand."""
    app = create_app(ServiceSettings(registry=str(registry), demand=tmp_path / "demand"))
    with TestClient(app, raise_server_exceptions=False) as client:
        await_ready(client)
        yield client


def test_requests_answers_and_decisions_are_counted(client: TestClient) -> None:
    """Requests by route and status, cache hits, and collectives left to the default."""
    for _ in range(3):
        tag = client.get(CONFIG, params=SHAPE).headers["etag"]
    client.get(CONFIG, params=SHAPE, headers={"If-None-Match": tag})
    client.get(CONFIG, params={"nodes": 1, "ppn": 2, "bundle": "0000"})
    client.get("/v1/select", params={**SHAPE, "collective": "bcast", "msize": 1 << 40})
    client.get("/nowhere")
    found = _samples(client)
    route = "/v1/config/{library}/{release}"
    counted = ("colltune_http_requests_total", "GET")
    assert _value(found, counted[0], route=route, method="GET", status="200") == 3
    assert _value(found, counted[0], route=route, method="GET", status="304") == 1
    assert _value(found, counted[0], route=route, method="GET", status="404") == 1
    assert _value(found, counted[0], route="other", method="GET", status="404") == 1
    assert _value(found, "colltune_http_request_seconds_count", route=route) == 5
    assert _value(found, "colltune_answers_total", cache="miss") == 2
    assert _value(found, "colltune_answers_total", cache="hit") == 3
    decided = "colltune_decisions_total"
    assert _value(found, decided, collective="bcast", outcome="replaced") == 4
    assert _value(found, decided, collective="bcast", outcome="default") == 1


def test_bundle_and_registry_are_told(client: TestClient, registry: Registry) -> None:
    """Age, name and loads of bundles, and that the registry is there."""
    found = _samples(client)
    slot = "openmpi-4.1.4"
    bundle_id = registry.current()[slot].bundle_id
    assert _value(found, "colltune_ready") == 1
    assert _value(found, "colltune_registry_reachable") == 1
    assert _value(found, "colltune_bundle_info", slot=slot, bundle=bundle_id) == 1
    assert 0 <= _value(found, "colltune_bundle_age_seconds", slot=slot) < 3600
    assert _value(found, "colltune_bundle_loads_total", slot=slot) == 1


def test_reports_of_the_registry_become_metrics(client: TestClient, registry: Registry) -> None:
    """What drift detection and verification reported last is told; garbage is left out."""
    registry.put_report(
        "drift",
        {
            "alarm": True,
            "slots": {
                "openmpi-4.1.4": {
                    "alarm": True,
                    "ratio": 1.3,
                    "shifts": [
                        {"of": "bcast", "since": "fit", "ratio": 1.25},
                        {"of": "bcast: chain", "since": "fit", "ratio": 2.0},
                        "garbage",
                    ],
                },
                "garbage": 3,
            },
        },
    )
    counts = {"applied": 7, "ignored": 2, "overridden": 0}
    release = {"library": "openmpi", "release": "4.1.4"}
    registry.put_report("verify", {**release, "collectives": {"bcast": counts, "gather": None}})
    watcher = client.app.state.service.watcher  # type: ignore[attr-defined]
    watcher._reports_at = -1e9
    watcher.refresh()
    found = _samples(client)
    slot = "openmpi-4.1.4"
    assert _value(found, "colltune_drift_alarm", slot=slot) == 1
    assert _value(found, "colltune_drift_ratio", slot=slot, collective="") == 1.3
    assert _value(found, "colltune_drift_ratio", slot=slot, collective="bcast") == 1.25
    seen = ("colltune_verified_rules", {**release, "collective": "bcast"})
    assert _value(found, seen[0], **seen[1], status="applied") == 7
    assert _value(found, seen[0], **seen[1], status="ignored") == 2


JOB = (("nodes", "8"), ("ppn", "4"), ("ppn", "1"), ("folder", "/f"))


def test_what_jobs_ask_for_is_noted(registry: Registry, tmp_path: Path) -> None:
    """Shapes of job files are counted, warm and cold, as far as the machine may have them."""
    app = create_app(ServiceSettings(registry=str(registry), demand=tmp_path / "demand"))
    with TestClient(app) as client:
        await_ready(client)
        for _ in range(3):
            client.get("/v1/job/openmpi/4.1.4", params=JOB)
            client.get(CONFIG, params={"nodes": 8, "ppn": 2})
        beyond = {"nodes": "999983", "ppn": "7", "folder": "/f"}
        assert client.get("/v1/job/openmpi/4.1.4", params=beyond).status_code == 200
        client.get("/v1/select", params={"nodes": 3, "ppn": 3})
    assert read_demand(tmp_path / "demand") == [
        Demand("openmpi", "4.1.4", 8, 1, 3),
        Demand("openmpi", "4.1.4", 8, 4, 3),
    ]


def test_where_there_are_tokens_only_theirs_are_noted(registry: Registry, tmp_path: Path) -> None:
    """What anybody reads, with no token or a bad one, tells nothing of what jobs need."""
    secret = token_file.new_token()
    made = Token("hook", frozenset({Scope.SUMMARIES}), token_file.digest(secret))
    token_file.write(tmp_path / "tokens", [made])
    settings = ServiceSettings(
        registry=str(registry), demand=tmp_path / "demand", tokens=tmp_path / "tokens"
    )
    with TestClient(create_app(settings)) as client:
        await_ready(client)
        for told in ({}, {"Authorization": f"Bearer {secret}"}, {"Authorization": "Bearer x"}):
            for _ in range(2):
                found = client.get("/v1/job/openmpi/4.1.4", params=JOB, headers=told)
                assert found.status_code == 200
    assert read_demand(tmp_path / "demand") == [
        Demand("openmpi", "4.1.4", 8, 1, 2),
        Demand("openmpi", "4.1.4", 8, 4, 2),
    ]
