"""The service's interface, from its OpenAPI description."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from colltune.server.app import create_app
from colltune.server.settings import ServiceSettings
from docs._ext.markdown import code, fenced, heading, table, text

Json = Mapping[str, Any]


def description() -> dict[str, Any]:
    """Return the description that the service gives of itself at ``/openapi.json``."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(ServiceSettings(registry=str(Path(folder, "registry"))))
        found: dict[str, Any] = app.openapi()
    return found


def markdown(_argument: str) -> str:
    """Return all endpoints, with parameters, answers and examples."""
    told = description()
    schemes = told["components"].get("securitySchemes", {})
    parts = [
        _operation(f"{method.upper()} {path}", operation, told)
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
    ]
    rows = ((code(name), text(scheme["description"])) for name, scheme in schemes.items())
    who = heading(2, "Who may write") + table(("credential", "what"), rows)
    return "".join(parts) + who


def _operation(name: str, operation: Json, told: Json) -> str:
    rights = " Needs a credential, see below." if operation.get("security") else ""
    parameters = (_parameter(parameter) for parameter in operation.get("parameters", ()))
    answers = (
        (status, text(answer["description"]), ", ".join(map(code, answer.get("content", {}))))
        for status, answer in sorted(operation["responses"].items())
    )
    parts = [
        heading(2, code(name)),
        *(f"{text(part)}\n\n" for part in operation["description"].split("\n\n")),
        f"{rights.strip()}\n\n" if rights else "",
        table(("parameter", "in", "needed", "values", "meaning"), parameters)
        if operation.get("parameters")
        else "",
        *_body(operation.get("requestBody", {})),
        table(("status", "answer", "as"), answers),
        *_examples(operation, told["components"]["schemas"]),
    ]
    return "".join(parts)


def _parameter(parameter: Json) -> tuple[str, ...]:
    schema = _plain(parameter.get("schema", {}))
    meaning = parameter.get("description") or schema.get("description", "")
    needed = "yes" if parameter.get("required") else ""
    return (code(parameter["name"]), parameter["in"], needed, _values(schema), text(meaning))


def _plain(schema: Json) -> Json:
    """Return a schema without its null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    return kinds[0] if len(kinds) == 1 else schema


def _values(schema: Json) -> str:
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if "pattern" in schema:
        return f"text: {code(schema['pattern'])}"
    kind = {"integer": "whole number", "string": "text"}.get(schema.get("type", ""), "")
    low, high = schema.get("minimum"), schema.get("maximum")
    return kind if low is None else f"{kind}, {low} … {high}"


def _body(body: Json) -> Iterator[str]:
    if body:
        what = text(body.get("description", ""))
        kinds = ", ".join(map(code, body.get("content", {})))
        yield f"Body: {what} ({kinds})\n\n" if what else f"Body: {kinds}\n\n"


def _examples(operation: Json, schemas: Json) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        if not status.startswith("2"):
            continue
        for media_type, content in answer.get("content", {}).items():
            found = _example(content, schemas)
            if found is None:
                continue
            shown = found if isinstance(found, str) else json.dumps(found, indent=1)
            language = "text" if isinstance(found, str) else "json"
            yield f"Example ({status}, {code(media_type)}):\n\n{fenced(shown, language)}"


def _example(content: Json, schemas: Json) -> Any:
    if "example" in content:
        return content["example"]
    schema = content.get("schema", {})
    return next(
        filter(None, (sample(kind, schemas) for kind in schema.get("anyOf", [schema]))), None
    )


def sample(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """Return an example of what a JSON schema describes, put together from those of its parts."""
    for examples in (schema.get("examples"), [schema["const"]] if "const" in schema else None):
        if examples:
            return examples[0]
    if "$ref" in schema:
        return sample(named[schema["$ref"].rpartition("/")[2]], named)
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], named)
    if "properties" in schema:
        parts = {name: sample(part, named) for name, part in schema["properties"].items()}
        unknown = [name for name, part in parts.items() if part is None]
        return None if any(not schema["properties"][n].get("examples") for n in unknown) else parts
    if schema.get("type") == "array":
        part = sample(schema.get("items", {}), named)
        return [] if part is None else [part]
    return None
