"""What the service says of itself, held against what it does with made-up requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

from colltune.server.app import create_app
from tests.server import writable

_EXAMPLES = 12


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the service's description, bound to a service with two bundles."""
    folder = tmp_path_factory.mktemp("described")
    writable.filled(folder)
    app = create_app(writable.settings(folder))
    app.state.service.watcher.refresh()
    generation = GenerationConfig(deterministic=True, max_examples=_EXAMPLES, database="none")
    project = ProjectConfig(generation=generation)
    config = SchemathesisConfig(projects=ProjectsConfig(default=project))
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=config)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=_EXAMPLES,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case: Any) -> None:
    """Whatever is sent, no answer is a 5xx, or of a status or form that is not described."""
    case.call_and_validate(headers=writable.bearer())
