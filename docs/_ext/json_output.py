"""What verbs print with ``--json``: a page, and a JSON Schema for each verb, made of records."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpydoc.docscrape import NumpyDocString

from colltune.bench.runner import CampaignReport
from colltune.bench.slurm import Task
from colltune.checks import CheckReport
from colltune.cli.bundles import CollectedGarbage, RegistryListing, ShownBundle
from colltune.cli.catalog import LegalityMeasured
from colltune.cli.confirm import ConfirmedBundle
from colltune.cli.convert import ConvertedFiles
from colltune.cli.evaluate import Evaluated
from colltune.cli.fit import FittedBundle
from colltune.cli.han import HanSelected
from colltune.cli.import_ import ExportedData, ImportedData
from colltune.cli.interpose import Interposing
from colltune.cli.plan import PlanWithPayback
from colltune.cli.profile import ShownProfile, WhatIsSent
from colltune.cli.retrain import PrintedUnit
from colltune.cli.select import SelectedFiles, SelectedInstances
from colltune.cli.slurm import WrittenHooks
from colltune.cli.submit import PrintedScript, SubmittedJob
from colltune.cli.token import RevokedToken
from colltune.dataset.noise import NoiseReport
from colltune.domain import Configuration, Shape
from colltune.han.choosing import HanComparison
from colltune.han.measuring import Done, Overlap
from colltune.mpi.installation_facts import CatalogueCheck
from colltune.mpi.linting import LintReport
from colltune.mpi.reference import LibraryFacts, ReleaseFacts
from colltune.page.file import WrittenPage
from colltune.plot_data.maps import Maps
from colltune.plot_data.regrets import Regrets
from colltune.plot_data.runtimes import Runtimes
from colltune.production.status import PrintedStatus
from colltune.registry import Event
from colltune.retraining.nightly import Night
from colltune.selector.bundle_diff import BundleDiff
from colltune.selector.explaining import Explanation
from colltune.selector.packing import PackManifest
from colltune.selector.selection_json import SelectedInstance, SelectionTable
from colltune.selector.what_if import NowAndThen
from colltune.server.auth.token_file import NewToken, Token
from colltune.server.slurm.job_decision import DecidedJob
from colltune.site.folder import UpgradedSite, WrittenSite
from colltune.text import computed, is_record, printed_names
from colltune.tune.pipeline import TuneResult
from colltune.verify.canary import Readability
from colltune.verify.rule_status import Proof
from docs._ext.markdown import code, heading, table, text

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

_RECORDS: dict[str, Any] = {
    "select": SelectionTable,
    "select --msize": SelectedInstance | tuple[SelectedInstance, ...],
    "select --format": SelectedFiles,
    "select --instances": SelectedInstances,
    "app pack": PackManifest,
    "env": DecidedJob,
    "app interpose": Interposing,
    "site bundles list": RegistryListing,
    "site bundles show": ShownBundle,
    "site bundles diff": BundleDiff,
    "site bundles add": tuple[str, ...],
    "site bundles promote": Event,
    "site bundles rollback": Event,
    "site bundles gc": CollectedGarbage,
    "site bundles history": tuple[Event, ...],
    "site slurm hooks": WrittenHooks,
    "data noise": NoiseReport,
    "fit": FittedBundle,
    "evaluate": Evaluated,
    "report": WrittenPage,
    "tune": TuneResult,
    "site status": PrintedStatus,
    "han measure": Done,
    "han select": HanSelected,
    "han compare": HanComparison,
    "han overlap": tuple[Overlap, ...],
    "rules catalog": ReleaseFacts,
    "rules catalog, without a library": tuple[LibraryFacts, ...],
    "rules catalog --check": CatalogueCheck,
    "rules catalog --measure-programs": LegalityMeasured,
    "plot map": Maps,
    "plot curves": Runtimes,
    "plot regret": Regrets,
    "rules explain": Explanation,
    "what-if": NowAndThen,
    "verify": Proof,
    "verify --readable-only": Readability,
    "app profile": ShownProfile,
    "app profile --what-is-sent": WhatIsSent,
    "rules lint": LintReport,
    "plan": PlanWithPayback,
    "measure": CampaignReport,
    "submit": SubmittedJob,
    "submit --print": PrintedScript,
    "submit --status": tuple[Task, ...],
    "confirm": ConfirmedBundle,
    "doctor": CheckReport,
    "site check": CheckReport,
    "site init": WrittenSite,
    "site upgrade": UpgradedSite,
    "site retrain": Night,
    "site retrain --print-unit": PrintedUnit,
    "site token add": NewToken,
    "site token list": tuple[Token, ...],
    "site token revoke": RevokedToken,
    "data import": ImportedData,
    "data export": ExportedData,
    "rules convert": ConvertedFiles,
}
"""What verbs print: a record, or a list or union of some."""

_KNOWN = {
    "collective": "collective",
    "shape": "shape",
    "nodes": "nodes",
    "ppn": "processes per node",
    "nprocs": "processes",
    "msize_bytes": "message size",
    "first_bytes": "smallest message",
    "last_bytes": "largest message; null: no end",
    "configuration": "id of the configuration",
    "launches": "launches",
    "instance": "collective, shape and message",
    "context": "what was measured",
    "objective": "statistic that was learned",
    "promise": "which programs it is for: any-legal, same-types, builtin-operations",
}
"""What these fields mean wherever nothing else is said."""
_PLAIN = {bool: "boolean", int: "integer", float: "number", NoneType: "null"}
_TEXTS = (str, Path, Shape, Configuration, datetime)
_DEFINED = "#/$defs/"

Schema = dict[str, Any]


@cache
def _declared() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Return what verbs print, by verb and option, and the types that they share, by name."""
    types: dict[str, Schema] = {}
    return {form: schema_of(record, types) for form, record in _RECORDS.items()}, types


def schema_of(hint: Any, types: dict[str, Schema]) -> Schema:
    """Return the schema of a document that is annotated with `hint`.

    The dataclasses and named tuples in it are added to `types`.
    """
    return _record(hint, types) if is_record(hint) else _hinted(hint, types)


def _record(record: Any, types: dict[str, Schema]) -> Schema:
    """Return the schema of a record as `colltune.cli.console` prints it.

    What its fields mean is told by docstrings below them, or by its numpydoc section on parameters.
    """
    names, around, meanings = printed_names(record), _typing_names(record), meanings_of(record)
    if untold := [name for name in names if not meanings.get(name)]:
        raise LookupError(f"{record.__qualname__}: no docstring is below {', '.join(untold)}")
    hints = get_type_hints(record, localns=around)
    for name in set(names) - hints.keys():
        hints[name] = get_type_hints(getattr(record, name).fget, localns=around)["return"]
    properties = {
        name: _hinted(hints[name], types) | {"description": meanings[name]} for name in names
    }
    return {"type": "object", "properties": properties, "required": [*names]}


def _typing_names(record: type) -> dict[str, Any]:
    """Return what the record's module imports for annotations only."""
    names: dict[str, Any] = {}
    for part in filter(is_record, record.__mro__):
        for line in ast.parse(inspect.getsource(sys.modules[part.__module__])).body:
            if isinstance(line, ast.If) and ast.unparse(line.test) == "TYPE_CHECKING":
                exec(ast.unparse(ast.Module(line.body, [])), names)  # noqa: S102 -- imports of ours
    return names


def meanings_of(record: type) -> dict[str, str]:
    """Return what fields mean, those of base classes too."""
    found = dict(_KNOWN) if is_record(record) else {}
    for part in filter(is_record, reversed(record.__mro__)):
        listed = NumpyDocString(inspect.getdoc(part) or "")["Parameters"]
        found |= {
            name: _within_a_row(" ".join(each.desc))
            for each in listed
            for name in each.name.split(", ")
        }
        body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        found |= {
            field.target.id: inspect.cleandoc(told.value.value)
            for field, told in zip(body.body, body.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant)
            if isinstance(told.value.value, str)
        }
        found |= {
            name: _within_a_row(inspect.getdoc(value) or "")
            for name, value in vars(part).items()
            if isinstance(value, computed)
        }
    return found


def _within_a_row(docstring: str) -> str:
    """Return a sentence as the docstrings of fields are written."""
    return docstring[:1].lower() + docstring[1:].removesuffix(".")


def _hinted(hint: Any, types: dict[str, Schema]) -> Schema:
    """Return the schema of a value that is annotated with `hint`."""
    args, origin = get_args(hint), get_origin(hint) or hint
    origin = origin if isinstance(origin, type) or args else object
    if origin is np.ndarray:
        number, origin = type(get_args(args[1])[0]().item()), list
        args = (number, NoneType) if number is float else (number,)
    if origin in (Union, UnionType):
        return {"anyOf": [_hinted(arg, types) for arg in args]}
    if origin is Literal:
        return _hinted(type(args[0]), types)
    if is_record(origin) and origin not in _TEXTS:
        return {"$ref": _DEFINED + _named(origin, types)}
    if issubclass(origin, _TEXTS):
        return {"type": "string"}
    if issubclass(origin, Collection):
        return _many(origin, [_hinted(arg, types) for arg in args if arg is not ...])
    kind = next((kind for plain, kind in _PLAIN.items() if issubclass(origin, plain)), None)
    return {"type": kind} if kind else {}


def _many(origin: type, kinds: list[Schema]) -> Schema:
    """Return the schema of a mapping, or of a list whose values may be of one kind."""
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": kinds[-1] if kinds else {}}
    several = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]] or [{}]
    return {"type": "array", "items": {"anyOf": several} if several[1:] else several[0]}


def _named(record: Any, types: dict[str, Schema]) -> str:
    """Return the name of a record in `types`; it may refer to itself."""
    name: str = record.__name__
    if name not in types:
        types[name] = {}
        types[name] |= _record(record, types)
    return name


def verbs() -> list[str]:
    """Return the verbs that are declared, in order."""
    return list(dict.fromkeys(map(_verb, _declared()[0])))


def _verb(form: str) -> str:
    """Return the verb of ``select --msize`` or of ``rules catalog, without a library``."""
    return re.split(r",| --", form)[0]


def schema(verb: str, *, strict: bool = False) -> Schema:
    """Return the JSON Schema of what `verb` prints; `strict` allows no field beyond it."""
    forms = [body for form, body in _declared()[0].items() if _verb(form) == verb]
    if not forms:
        raise LookupError(f"no verb {verb!r} is in _RECORDS")
    body = forms[0] if len(forms) == 1 else {"anyOf": forms}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"colltune {verb} --json",
        **body,
        "$defs": _used(body),
    }
    return _closed(whole) if strict else whole


def _closed(part: Any) -> Any:
    """Return a schema whose objects have no other fields than those that it names."""
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    closed = {name: _closed(each) for name, each in part.items()}
    # a field that is called "required" is no list of names
    is_record = isinstance(part.get("required"), list)
    return closed | ({"additionalProperties": False} if is_record else {})


def _used(body: Schema) -> dict[str, Schema]:
    """Return the types that `body` refers to, by whatever way."""
    found: dict[str, Schema] = {}
    left = [body]
    while left:
        for name in re.findall(rf"{re.escape(_DEFINED)}(\w+)", json.dumps(left.pop())):
            if name not in found:
                found[name] = _declared()[1][name]
                left.append(found[name])
    return found


def markdown(_argument: str) -> str:
    """Return a table of fields for every verb, and for every type that they share."""
    parts = []
    forms, types = _declared()
    for form, body in forms.items():
        # the file is written at the end, so that no page of Sphinx's is found there
        link = f'<a href="schemas/{_file(_verb(form))}">JSON Schema</a>\n\n'
        parts += [heading(2, f"colltune {form}"), link if form == _verb(form) else ""]
        parts.append(_table(body))
    parts.append(heading(2, "Types"))
    for name, body in types.items():
        parts += [heading(3, name), _table(body)]
    return "".join(parts)


def _table(body: Schema) -> str:
    rows = (
        (
            code(name) or "the document",
            _label(field),
            _unit(name, field),
            text(field.get("description", "")),
        )
        for name, field in body.get("properties", {"": body}).items()
    )
    return table(("field", "type", "unit", "meaning"), rows)


def _label(field: Schema) -> str:
    """Return the type of a field: ``Estimate|null``, linked, ``number[]`` or ``string{}``."""
    kind = _kind(field)
    name = re.sub(r"\W.*", "", kind.lstrip("("))
    return f"[{code(kind)}](#{name.lower()})" if name in _declared()[1] else code(kind)


def _kind(field: Schema) -> str:
    if "anyOf" in field:
        return "|".join(map(_kind, field["anyOf"]))
    inner = field.get("items", field.get("additionalProperties"))
    if inner is not None:
        kind = _kind(inner)
        return (f"({kind})" if "|" in kind else kind) + ("[]" if "items" in field else "{}")
    name = field.get("type", field.get("$ref", "any"))
    return str(name).removeprefix(_DEFINED)


def _unit(name: str, field: Schema) -> str:
    is_number = re.match(r"\(?(number|integer)", _kind(field))
    return next((unit for end, unit in _UNITS.items() if name.endswith(end) and is_number), "")


def _file(verb: str) -> str:
    return f"{verb.replace(' ', '-')}.json"


def write_schemas(folder: Path) -> None:
    """Write every verb's schema into `folder`, for programs that check what they read."""
    folder.mkdir(parents=True, exist_ok=True)
    for verb in verbs():
        (folder / _file(verb)).write_text(json.dumps(schema(verb), indent=1), encoding="utf-8")
