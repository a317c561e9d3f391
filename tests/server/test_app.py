"""The application as a whole: its description, its health, and garbage."""

from __future__ import annotations

import json
import logging
import math
import random
import string
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient
from pydantic import ValidationError

from colltune import process
from colltune.errors import UsageError
from colltune.server import schemas
from colltune.server.app import create_app
from colltune.server.settings import ServiceSettings
from colltune.server.supervisor import log_as_json
from docs._ext.http_interface import sample
from tests.page.reading import facts_of
from tests.refusals import refused
from tests.server.test_middleware import NOTHING, insist


def test_every_operation_has_an_example(client: TestClient) -> None:
    """Each good answer that is no page, nor made for it alone, shows what it looks like."""
    described = client.get("/openapi.json").json()
    named = described["components"]["schemas"]
    for path, operations in described["paths"].items():
        for operation in operations.values():
            assert operation["description"], path
            if path.startswith("/v1/view"):
                continue
            for status, answer in operation["responses"].items():
                if status.startswith("2") and "text/html" not in answer.get("content", {}):
                    contents = answer["content"].values()
                    kinds = [k for c in contents for k in _alternatives(c)]
                    assert any(sample(kind, named) for kind in kinds), path


def _alternatives(content: dict[str, Any]) -> list[dict[str, Any]]:
    if "example" in content:
        return [{"examples": [content["example"]]}]
    schema = content["schema"]
    return list(schema.get("anyOf", [schema]))


def test_examples_are_of_the_kind_described(client: TestClient) -> None:
    """The examples are what the service itself would take for an answer."""
    named = client.get("/openapi.json").json()["components"]["schemas"]
    for kind in (schemas.Decision, schemas.Table, schemas.Bundles, schemas.Readiness):
        example = sample(named[kind.__name__], named)
        kind.model_validate_json(json.dumps(example), strict=True)


def test_answers_are_as_described(client: TestClient) -> None:
    """What the service answers is what its description promises."""
    shape = {"nodes": 8, "ppn": 4}
    one = client.get("/v1/select", params={**shape, "collective": "bcast", "msize": 8})
    schemas.Decision.model_validate_json(one.content, strict=True, extra="forbid")
    table = client.get("/v1/select", params=shape)
    schemas.Table.model_validate_json(table.content, strict=True, extra="forbid")
    listed = client.get("/v1/bundles")
    schemas.Bundles.model_validate_json(listed.content, strict=True, extra="forbid")
    problem = client.get("/nowhere")
    schemas.ProblemOf.model_validate_json(problem.content, strict=True, extra="forbid")


def test_a_report_is_the_page_of_the_bundle(client: TestClient) -> None:
    """The report of a bundle is found by the beginning of its id, and kept by clients."""
    (told,) = client.get("/v1/bundles").json()["bundles"]
    answer = client.get(f"/v1/bundles/{told['id'][:8]}/report")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    gains = facts_of(answer.text)["answers"]["v1/view/gains"]
    assert gains == client.get("/v1/view/gains").json()
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]
    tag = {"If-None-Match": answer.headers["etag"]}
    assert client.get(f"/v1/bundles/{told['id']}/report", headers=tag).status_code == 304
    for unknown in ("0000", "..%2f..%2fetc%2fpasswd", "xyz0", "a"):
        assert client.get(f"/v1/bundles/{unknown}/report").status_code in (404, 422)


def test_garbage_is_refused_and_never_kept(client: TestClient) -> None:
    """No made-up request is an error of the service, and none takes a place in its cache."""
    answers = client.app.state.service.state.answers  # type: ignore[attr-defined]
    kept, rng = len(answers), random.Random(5)
    release = "openmpi/4.1.4"
    paths = ["/nix", "/v1/select", f"/v1/config/{release}", f"/v1/job/{release}", "/v1/bundles/x"]
    values = ["0", "-1", "nan", "9" * 40, "%00", "%ff", "a" * 5000, "", "'", "١", "1e9", "../.."]
    names = ["nodes", "ppn", "msize", "collective", "folder", "bundle", "format", "x" * 100]
    for _ in range(150):
        path = rng.choice(paths) + rng.choice(["", "", "/..%2f", "/%00", "/" + "b" * 2000])
        query = "&".join(
            f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randint(0, 5))
        )
        method = rng.choice(["GET", "HEAD", "OPTIONS", "POST", "DELETE", "PATCH", "TRACE"])
        answer = client.request(method, f"{path}?{query}", content=b"\xff" * rng.randint(0, 9))
        assert 400 <= answer.status_code < 500, (method, path, query, answer.text)
    assert len(answers) == kept


def test_addresses_have_a_longest(client: TestClient) -> None:
    """Addresses beyond all measure are refused before anybody reads them."""
    assert client.get("/v1/select", params={"collective": "a" * 5000}).status_code == 414
    assert client.get("/v1/config/" + "a" * 2000).status_code == 414


def test_an_unknown_method_is_named(client: TestClient) -> None:
    """A method that an endpoint does not have is a problem that names those it has."""
    answer = client.options("/v1/select")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_error_of_the_service_shows_nothing_of_itself(bundle_path: Path) -> None:
    """What nobody foresaw is a problem without a traceback, and logged."""
    app = create_app(ServiceSettings(bundle=bundle_path))

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("inner life")

    client = TestClient(app, raise_server_exceptions=False)
    with structlog.testing.capture_logs() as logged:
        answer = client.get("/broken")
    assert [(line["log_level"], line["route"]) for line in logged] == [("error", "/broken")]
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "inner life" not in answer.text
    insist(answer.headers, NOTHING)


def test_settings_that_make_no_sense_are_refused(subtests: pytest.Subtests) -> None:
    """Neither source, both, or numbers out of range are no settings."""
    wrong: tuple[dict[str, Any], ...] = ({"threads": 0}, {"caution": math.nan}, {"poll_s": -1})
    for given in wrong:
        with subtests.test(given=given), pytest.raises(ValidationError):
            ServiceSettings(bundle=Path("/b"), **given)
    with refused("missing", UsageError):
        ServiceSettings()
    with refused("missing", UsageError):
        ServiceSettings(registry="/a", bundle=Path("/b"))


def test_workers_get_the_settings_by_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Settings survive the way through the environment."""
    made = ServiceSettings(
        bundle=tmp_path, munge=True, munge_users=("a", "b"), caution=2.5, poll_s=0.5
    )
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    assert ServiceSettings() == made


def test_a_service_starts_light() -> None:
    """What only reports, fits and uploads need is not loaded by a worker that starts."""
    code = (
        "import sys, colltune.server.app\n"
        "heavy = {'pandas', 'pyarrow', 'scipy', 'sklearn', 'xgboost', 'matplotlib', 's3fs'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    found = process.run([sys.executable, "-c", code], timeout_s=60)
    assert found.ok, found.explain()


def test_logs_are_json_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of the service and of libraries are JSON, and what is secret is hidden."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        log_as_json("INFO")
        structlog.get_logger("x").info(
            "came", authorization="abc", note="Bearer s3cret, MUNGE:AwQ="
        )
        logging.getLogger("some.library").warning("header %s", "Authorization: bearer s3cret")
        logging.getLogger("uvicorn.access").info("not this")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
        logging.getLogger("uvicorn.access").disabled = False
    written = capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["event"][:6] for line in lines] == ["came", "header"]
    for secret in ("abc", "s3cret", "AwQ"):
        assert secret not in written
    assert all(set(line["timestamp"]) <= {*string.digits, *"-:.TZ"} for line in lines)
