"""The description of the interface, in the page's own frame and style, without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from colltune.report.markup import Child, Markup, element, folded, joined, table

_NEEDS_SCRIPTS = re.compile(r"\s*<(script|noscript)\b.*?</\1\s*>", re.S)
_KEYS = {"GET": "g2", "POST": "rE"}
"""The styles of methods, of the style sheet's fields."""


def docs_page(description: Mapping[str, Any]) -> str:
    version = description["info"]["version"]
    by_tag: dict[str, list[tuple[str, str, str, Mapping[str, Any]]]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            told = operation["operationId"], method.upper(), path, operation
            by_tag.setdefault(operation["tags"][0], []).append(told)
    links = [
        element("li", tag, element("ul", *(element("li", _link(*one[:3])) for one in operations)))
        for tag, operations in by_tag.items()
    ]
    intro = element(
        "p",
        description["info"].get("description", ""),
        " The same for machines: ",
        element("a", "openapi.json", href="openapi.json"),
        ". Errors are problems (RFC 9457), application/problem+json.",
    )
    parts = (_operation(*one, description) for operations in by_tag.values() for one in operations)
    contents = element("nav", element("ul", *links), aria_label="Operations", class_="contents")
    body = element("div", contents, element("div", joined(parts)), class_="docs")
    return _framed(element("h1", f"colltune {version}: interface"), intro, body)


def _framed(*content: Markup) -> str:
    """Return the page's frame with `content` in its middle."""
    frame = files("colltune.server").joinpath("page/index.html").read_text(encoding="utf-8")
    frame = frame.replace("<title>colltune</title>", "<title>colltune: interface</title>")
    before, _, after = _NEEDS_SCRIPTS.sub("", frame).partition("</main>")
    return f"{before}{joined(content)}</main>{after}"


def _link(at: str, method: str, path: str) -> Markup:
    return element("a", f"{method} {path}", href=f"#{at}")


def _operation(
    at: str,
    method: str,
    path: str,
    operation: Mapping[str, Any],
    description: Mapping[str, Any],
) -> Markup:
    access = " Needs authentication." if operation.get("security") else ""
    answers = sorted(operation["responses"].items())
    parts = [
        element("h2", element("span", method, class_=f"key f {_KEYS[method]}"), " ", path, id=at),
        element("p", *_words(" ".join(operation.get("description", "").split()) + access)),
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


def _words(text: str) -> list[Child]:
    """Return text in which what stands in backticks is code."""
    return [element("code", one) if k % 2 else one for k, one in enumerate(text.split("`"))]


def _parameter(parameter: Mapping[str, Any]) -> list[str]:
    schema = parameter.get("schema", {})
    kinds = (parameter, schema, *schema.get("anyOf", ()))
    what = next((kind["description"] for kind in kinds if "description" in kind), "")
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
