"""The docstrings of what the reference describes, as numpydoc checks them, and beyond."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from numpydoc.validate import validate

from docs._ext import json_output

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "api"
MODULES = sorted(
    {
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"automodule:: (colltune[\w.]*)", page.read_text(encoding="utf-8"))
    }
)
CHECKS = frozenset(
    (
        *("GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10"),
        *("SS01", "SS02", "SS03", "SS04", "SS05", "SS06"),
        *("PR02", "PR03", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10"),
        *("RT02", "RT04", "RT05", "SA02", "SA03", "SA04"),
    )
)
_SAID_BY_TYPE = re.compile(r"^[A-Z]\w*(\[[A-Z]\w*\])?( \| None)?$")
_NOT_ENOUGH = ("Any", "ArrayLike", "Callable", "Numbers", "Path", "Progress")
_TELLING = ("Return", "Tell", "Yield", "See")


class Member(NamedTuple):
    """A public thing: where it can be found, what it is, and the class that it is of."""

    name: str
    thing: Any
    owner: type | None = None


def members(module: ModuleType) -> Iterator[Member]:
    """Yield the public functions and classes of a module, and the classes' public members."""
    listed = getattr(module, "__all__", ())
    for name in listed or vars(module):
        thing = getattr(module, name)
        ours = listed or getattr(thing, "__module__", "") == module.__name__
        if name.startswith("_") or not ours:
            continue
        if inspect.isfunction(thing):
            yield Member(f"{module.__name__}.{name}", thing)
        elif inspect.isclass(thing):
            yield Member(f"{module.__name__}.{name}", thing)
            yield from _of_class(f"{module.__name__}.{name}", thing)


def _of_class(place: str, owner: type) -> Iterator[Member]:
    for name, member in vars(owner).items():
        thing = getattr(member, "__func__", member)
        values = (property, cached_property)
        if not name.startswith("_") and (inspect.isfunction(thing) or isinstance(thing, values)):
            yield Member(f"{place}.{name}", thing, owner)


def unexplained(member: Member) -> list[str]:
    """Return the parameters that neither a word nor their type explains.

    The words may stand in a section on parameters or in the text, there or in that of the class. A
    type explains a parameter if it is a class of its own, as ``Shape`` is: a number, a text, an
    array or a collection is not. An annotated one says itself what it means, and a field may have
    a docstring below it.
    """
    thing, owner = member.thing, member.owner
    if isinstance(thing, (property, cached_property)) or _is_plain(thing):
        return []
    text = "\n".join(inspect.getdoc(known) or "" for known in (thing, owner) if known)
    told = json_output.meanings_of(thing if inspect.isclass(thing) else owner or type)
    return [
        parameter.name
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.name not in ("self", "cls")
        and not parameter.name.startswith("_")
        and parameter.name not in told
        and not _type_says(parameter.annotation)
        and not _is_named(parameter.name, text)
    ]


def _is_plain(thing: object) -> bool:
    """Tell what is not made by calling it: enumerations, errors and protocols."""
    is_protocol = getattr(thing, "_is_protocol", False)
    return inspect.isclass(thing) and (is_protocol or issubclass(thing, Enum | Exception))


def _type_says(annotation: object) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", "")
    if text.startswith("Annotated["):
        return True
    return bool(_SAID_BY_TYPE.match(text)) and not text.startswith(_NOT_ENOUGH)


def _is_named(name: str, text: str) -> bool:
    in_list = rf"^\s*(?:\w+, )*{name}(?:, \w+)*$"
    return re.search(rf"`[^`\n]*\b{name}\b[^`]*`|{in_list}", text, re.MULTILINE) is not None


def returns_unsaid(member: Member) -> bool:
    """Tell whether a function returns something that neither its text nor its type tells of.

    The text tells by how it begins, "Return …", or by the word anywhere.
    """
    thing = member.thing
    if not inspect.isfunction(thing):
        return False
    returned = inspect.signature(thing).return_annotation
    text = inspect.getdoc(thing) or ""
    said = text.startswith(_TELLING) or re.search(r"\breturn|^Returns$", text, re.MULTILINE)
    return returned not in (None, "None") and not said and not _type_says(returned)


def errors(member: Member) -> list[str]:
    """Return what is wrong with the docstring of one member, in words."""
    found = [
        f"{code}: {words}" for code, words in validate(member.name)["errors"] if code in CHECKS
    ]
    found += [f"nothing explains the parameter {name!r}" for name in unexplained(member)]
    return [*found, *["nothing tells what is returned"] * returns_unsaid(member)]


def all_errors(names: Iterable[str]) -> dict[str, list[str]]:
    """Return what is wrong in modules, by member."""
    every = (m for name in names for m in members(importlib.import_module(name)))
    return {member.name: found for member in every if (found := errors(member))}


@pytest.mark.parametrize("name", MODULES)
def test_public_things_are_documented(name: str) -> None:
    """Summary, sections, parameters, what is returned: nothing is missing, wrong or misspelt."""
    assert all_errors([name]) == {}
