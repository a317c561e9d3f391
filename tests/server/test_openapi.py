"""What the service says of itself, held against what it does with made-up requests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import engine
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.engine import events

from colltune.server.app import create_app
from tests.server import writable

pytestmark = pytest.mark.slow

_EXAMPLES = int(os.environ.get("COLLTUNE_TEST_EXAMPLES", "3"))
_CANNOT_DESCRIBE = {
    # whether a text is a summary, a file format of that library, or a folder without ..
    ("POST /v1/summaries", 422),
    ("GET /v1/config/{library}/{release}", 422),
    ("GET /v1/job/{library}/{release}", 422),
    ("GET /v1/view/job", 422),
}


def _explored(app: Any) -> Iterator[events.ScenarioFinished]:
    """Yield what Schemathesis tries: examples, the bounds of parameters, at random, in sequence."""
    generation = GenerationConfig(deterministic=True, max_examples=_EXAMPLES, database="none")
    project = ProjectConfig(
        generation=generation, headers=writable.bearer(), continue_on_failure=True
    )
    config = SchemathesisConfig(projects=ProjectsConfig(default=project), seed=1)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    for event in engine.from_schema(schema).execute():
        assert not isinstance(event, (events.FatalError, events.NonFatalError)), event
        if isinstance(event, events.ScenarioFinished):
            yield event


def _faults(event: events.ScenarioFinished) -> Iterator[str]:
    recorder = event.recorder
    for case_id, checks in recorder.checks.items():
        answer = recorder.interactions[case_id].response
        operation = recorder.cases[case_id].value.operation.label
        for check in checks:
            if check.failure_info is None or (
                check.name == "positive_data_acceptance"
                and answer is not None
                and (operation, answer.status_code) in _CANNOT_DESCRIBE
            ):
                continue
            yield f"{check.name}: {check.failure_info.failure}\n{check.failure_info.code_sample}"


def test_the_service_does_what_its_description_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is sent, no answer is a 5xx, or of a status, type or form that is not described.

    What the description forbids is refused, what it allows is taken, and what needs a token is
    not answered without one.
    """
    monkeypatch.chdir(tmp_path)
    writable.filled(tmp_path)
    app = create_app(writable.settings(tmp_path, production=writable.recorded(tmp_path)))
    app.state.service.watcher.refresh()
    statuses: Counter[int] = Counter()
    tried, faults = set(), []
    for event in _explored(app):
        faults += list(_faults(event))
        for case in event.recorder.cases.values():
            tried.add(case.value.operation.label)
        for interaction in event.recorder.interactions.values():
            if interaction.response is not None:
                statuses[interaction.response.status_code] += 1
    assert not faults, "\n\n".join(faults[:10])
    described = app.openapi()["paths"]
    assert tried == {f"{m.upper()} {path}" for path, verbs in described.items() for m in verbs}
    assert {200, 202, 401, 404, 405, 409, 422} <= set(statuses)
    assert not any(status >= 500 for status in statuses)
