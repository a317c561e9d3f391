"""What verbs print with ``--json``: a page, and a JSON Schema for each verb.

They are made from the dataclass that a verb prints, or from ``json.toml`` where it has none yet.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from colltune.cli.interpose import Interposing
from colltune.cli.slurm import WrittenHooks
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

_RECORDS: dict[str, type] = {
    "app interpose": Interposing,
    "site slurm hooks": WrittenHooks,
}
"""What verbs print that are not in ``json.toml``."""
_PLAIN: dict[object, str] = {
    str: "string",
    Path: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}

Fields = Mapping[str, str]


@cache
def _declared() -> dict[str, dict[str, Fields]]:
    every: dict[str, dict[str, Fields]] = tomllib.loads(_DECLARED.read_text(encoding="utf-8"))
    every["verbs"] |= {verb: _fields(record) for verb, record in _RECORDS.items()}
    return every


def _fields(record: type) -> Fields:
    """Return a dataclass as ``json.toml`` would describe it; docstrings tell what fields mean."""
    body = ast.parse(inspect.getsource(record)).body[0]
    assert isinstance(body, ast.ClassDef)
    meanings = {
        field.target.id: inspect.cleandoc(told.value.value)
        for field, told in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant)
        if isinstance(told.value.value, str)
    }
    kinds = get_type_hints(record)
    return {name: f"{_kind(kind)}: {meanings[name]}" for name, kind in kinds.items()}


def _kind(hint: Any) -> str:
    """Return the type of a field as ``json.toml`` writes it."""
    args = get_args(hint)
    if NoneType in args:
        (other,) = (arg for arg in args if arg is not NoneType)
        return f"{_kind(other)}|null"
    if get_origin(hint) in (tuple, list):
        return f"{_kind(args[0])}[]"
    return _PLAIN[hint]


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
