"""What verbs print with ``--json``: a page, and a JSON Schema for each verb, of ``json.toml``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docs._ext.markdown import code, heading, table, text

_DECLARED = Path(__file__).parents[1] / "reference" / "json.toml"
_SIMPLE = ("string", "integer", "number", "boolean")
_UNITS = {
    "_s": "seconds",
    "_bytes": "bytes",
    "_hours": "hours",
    "gain": "ratio",
    "speedup": "ratio",
    "ratio": "ratio",
    "share": "0 to 1",
    "slowdown": "ratio",
    "regret": "ratio",
}
"""Units by how a field's name ends."""

Fields = Mapping[str, str]


@cache
def _declared() -> dict[str, dict[str, Fields]]:
    return tomllib.loads(_DECLARED.read_text(encoding="utf-8"))


def verbs() -> list[str]:
    """Return the verbs that are declared, in order."""
    return list(dict.fromkeys(map(_verb, _declared()["verbs"])))


def _verb(form: str) -> str:
    """Return the verb of ``select --msize`` or of ``rules catalog, without a library``."""
    return re.split(r",| --", form)[0]


def schema(verb: str, *, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of what `verb` prints; `strict` allows no field beyond it."""
    every = _declared()
    types = {name: _object(fields, strict=strict) for name, fields in every["types"].items()}
    forms = [
        _type(fields[""].partition(":")[0]) if "" in fields else _object(fields, strict=strict)
        for form, fields in every["verbs"].items()
        if _verb(form) == verb
    ]
    if not forms:
        raise LookupError(f"no verb {verb!r} is declared in {_DECLARED.name}")
    body = forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"colltune {verb} --json",
        **body,
        "$defs": _used(body, types),
    }


def _used(body: object, types: dict[str, Any]) -> dict[str, Any]:
    """Return those of `types` that `body` refers to, by whatever way."""
    found: dict[str, Any] = {}
    left = [body]
    while left:
        for name in re.findall(r"#/\$defs/(\w+)", json.dumps(left.pop())):
            if name not in found:
                found[name] = types[name]
                left.append(types[name])
    return found


def _object(fields: Fields, *, strict: bool) -> dict[str, Any]:
    properties = {
        name.removesuffix("?"): _type(kind) | {"description": meaning}
        for name, kind, meaning in _parted(fields)
    }
    needed = [name for name in fields if not name.endswith("?")]
    closed = {"additionalProperties": False} if strict else {}
    return {"type": "object", "properties": properties, "required": needed, **closed}


def _type(kind: str) -> dict[str, Any]:
    if kind.endswith("|null"):
        return {"anyOf": [_type(kind.removesuffix("|null")), {"type": "null"}]}
    if kind.endswith("[]"):
        return {"type": "array", "items": _type(kind.removesuffix("[]"))}
    if kind.endswith("{}"):
        return {"type": "object", "additionalProperties": _type(kind.removesuffix("{}"))}
    if kind == "any":
        return {}
    return {"type": kind} if kind in _SIMPLE else {"$ref": f"#/$defs/{kind}"}


def _parted(fields: Fields) -> Iterator[tuple[str, str, str]]:
    for name, told in fields.items():
        kind, _, meaning = told.partition(": ")
        yield name, kind, meaning


def markdown(_argument: str) -> str:
    """Return a table of fields for every verb, and for every type that they share."""
    every = _declared()
    parts = []
    for form, fields in every["verbs"].items():
        # the file is written at the end, so that no page of Sphinx's is found there
        link = f'<a href="schemas/{_file(_verb(form))}">JSON Schema</a>\n\n'
        parts += [heading(2, f"colltune {form}"), link if form == _verb(form) else ""]
        parts.append(_table(fields))
    parts.append(heading(2, "Types"))
    for name, fields in every["types"].items():
        parts += [heading(3, name), _table(fields)]
    return "".join(parts)


def _table(fields: Fields) -> str:
    rows = (
        (
            code(name.removesuffix("?")) or "the document",
            _linked(kind),
            _unit(name, kind),
            text(meaning) + (" (may be absent)" if name.endswith("?") else ""),
        )
        for name, kind, meaning in _parted(fields)
    )
    return table(("field", "type", "unit", "meaning"), rows)


def _linked(kind: str) -> str:
    name = re.sub(r"\W.*", "", kind)
    if name in (*_SIMPLE, "any"):
        return code(kind)
    return f"[{code(kind)}](#{name.lower()})"


def _unit(name: str, kind: str) -> str:
    ends = name.removesuffix("?")
    is_number = kind.startswith(("number", "integer"))
    return next((unit for end, unit in _UNITS.items() if ends.endswith(end) and is_number), "")


def _file(verb: str) -> str:
    return f"{verb.replace(' ', '-')}.json"


def write_schemas(folder: Path) -> None:
    """Write every verb's schema into `folder`, for programs that check what they read."""
    folder.mkdir(parents=True, exist_ok=True)
    for verb in verbs():
        (folder / _file(verb)).write_text(json.dumps(schema(verb), indent=1), encoding="utf-8")
