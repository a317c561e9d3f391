"""What errors say: each code once, and each raised with the values of its text."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import colltune
from colltune import errors
from colltune.errors import Complaint

SOURCES = Path(colltune.__file__).parent


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(SOURCES.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "Complaint" in text or "complaints" in text:
            yield file, ast.parse(text)


def _complaints() -> dict[str, dict[str, Complaint]]:
    """Return the complaints of each module that makes some, by their names."""
    found = {}
    for file, _ in _modules():
        name = ".".join(("colltune", *file.relative_to(SOURCES).with_suffix("").parts))
        module = importlib.import_module(name.removesuffix(".__init__"))
        mine = {n: c for n, c in vars(module).items() if isinstance(c, Complaint)}
        if mine:
            found[name] = mine
    return found


def _fields(complaint: Complaint) -> set[str]:
    text = complaint.finding + complaint.mend
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_code_stands_once() -> None:
    """A code tells which text it is."""
    known = {id(c): c for mine in _complaints().values() for c in mine.values()}
    counts = Counter(complaint.code for complaint in known.values())
    assert len(counts) > 300
    assert [code for code, count in counts.items() if count > 1] == []


def test_every_complaint_is_raised_with_its_values() -> None:
    """Each use names the values that the text has, and no others; none is left unused."""
    unused = {(n, c.code) for mine in _complaints().values() for n, c in mine.items()}
    wrong = []
    for file, tree in _modules():
        shown = file.relative_to(SOURCES).with_suffix("")
        module = importlib.import_module(
            ".".join(("colltune", *shown.parts)).removesuffix(".__init__")
        )
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            found: object = None
            if isinstance(node.func, ast.Name):
                found = vars(module).get(node.func.id)
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                found = getattr(vars(module).get(node.func.value.id), node.func.attr, None)
            if isinstance(found, Complaint):
                given = {keyword.arg for keyword in node.keywords}
                unused = {one for one in unused if one[1] != found.code}
                if given != _fields(found):
                    wrong.append((str(shown), node.lineno, found.code))
    assert wrong == []
    assert unused == set()


def test_an_error_keeps_its_code_where_it_is_told_of_a_place() -> None:
    """A reader of a file adds file and line to what a value's own check said."""
    error = errors.unknown("thing", "x", ("a", "b"), errors.DataError)
    told = error.of("f, line 3", errors.SiteError, line=3)
    assert (told.code, told.values["name"], told.values["line"]) == ("unknown", "x", 3)
    assert str(told) == "f, line 3: unknown thing 'x'; known: a, b"
