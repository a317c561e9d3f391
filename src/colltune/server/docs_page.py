"""The description of the interface as one page without scripts that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from colltune.report.markup import Markup, document, element, folded, joined, table

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1b1b1b;
background:#fff}
h2{margin-top:2.5rem;border-top:1px solid #767676;padding-top:.5rem}
code,pre{font:14px/1.4 ui-monospace,monospace}
h2 code{font-size:1.1rem}
pre{background:#f3f3f3;padding:.7rem;overflow:auto}
.table{overflow-x:auto}
table{border-collapse:collapse;width:100%}
caption{text-align:left;font-weight:600}
th,td{border:1px solid #b0b0b0;padding:.3rem .5rem;text-align:left;vertical-align:top}
a{color:#0b57a4}
@media (prefers-color-scheme:dark){body{background:#161616;color:#eee}pre{background:#262626}
a{color:#8cc4ff}}
"""


def docs_page(description: Mapping[str, Any]) -> str:
    title = f"{description['info']['title']} {description['info']['version']}"
    operations = [
        (operation["operationId"], f"{method.upper()} {path}", operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    links = [element("li", element("a", name, href=f"#{at}")) for at, name, _ in operations]
    machines = element(
        "p",
        "The same for machines: ",
        element("a", "openapi.json", href="openapi.json"),
        ". Errors are problems (RFC 9457), application/problem+json.",
    )
    body = element(
        "body",
        element("h1", title),
        element("p", description["info"].get("description", "")),
        machines,
        element("nav", element("ul", *links)),
        joined(_operation(*one, description) for one in operations),
    )
    return document(title, _STYLE, body)


def _operation(
    at: str, name: str, operation: Mapping[str, Any], description: Mapping[str, Any]
) -> Markup:
    access = " Needs authentication." if operation.get("security") else ""
    answers = operation["responses"].items()
    parts = [
        element("h2", element("code", name), id=at),
        element("p", " ".join(operation.get("description", "").split()) + access),
        table(
            "Parameters",
            ["name", "in", "needed", "type", "what"],
            (_parameter(p) for p in operation.get("parameters", ())),
        ),
        table(
            "Answers",
            ["status", "what", "content"],
            (
                [status, answer.get("description", ""), ", ".join(answer.get("content", {}))]
                for status, answer in answers
            ),
        ),
    ]
    for status, answer in answers:
        for media_type, content in answer.get("content", {}).items() if status < "3" else ():
            for found in _shown(content, description):
                text = found if isinstance(found, str) else json.dumps(found, indent=1)
                shown = element("pre", element("code", Markup(escape(text, quote=False))))
                parts.append(folded(f"Example: {status}, {media_type}", shown))
    return joined(parts)


def _parameter(parameter: Mapping[str, Any]) -> list[str]:
    schema = parameter.get("schema", {})
    what = parameter.get("description") or schema.get("description", "")
    needed = "yes" if parameter.get("required") else ""
    return [parameter["name"], parameter["in"], needed, _type(schema), what]


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        kinds = (_type(kind) for kind in schema["anyOf"] if kind.get("type") != "null")
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"several of: {_type(schema.get('items', {}))}"
    kind = str(schema.get("type", ""))
    low, high = schema.get("minimum"), schema.get("maximum")
    return kind if low is None or high is None else f"{kind}, {low} .. {high}"


def _shown(content: Mapping[str, Any], description: Mapping[str, Any]) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    schema = content.get("schema", {})
    named = description.get("components", {}).get("schemas", {})
    found = [sample(kind, named) for kind in schema.get("anyOf", [schema])]
    return [one for one in found if one is not None]


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
