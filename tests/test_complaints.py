"""What errors say: each code is raised, with the values of its text."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import colltune
from colltune import errors
from colltune.errors import complaints

SOURCES = Path(colltune.__file__).parent


def _said() -> Iterator[tuple[str, object, set[str | None]]]:
    """Yield where something is said, its code, and the names of its values."""
    for file in sorted(SOURCES.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "say(" in text else ():
            match node:
                case ast.Call(ast.Name("say"), [ast.Constant(code), *_], keywords):
                    where = f"{file.relative_to(SOURCES)}:{node.lineno}"
                    yield where, code, {keyword.arg for keyword in keywords}


def test_every_code_stands_once() -> None:
    """A code tells which text it is, whatever class of errors it stands below."""
    text = (SOURCES / "complaints.toml").read_text(encoding="utf-8")
    codes = [code for texts in tomllib.loads(text).values() for code in texts]
    assert len(codes) > 300
    assert [code for code, count in Counter(codes).items() if count > 1] == []


def test_each_code_is_raised_with_its_values() -> None:
    """A raise names the values that the text has, and no others; no text is left unused."""
    wanted = {
        code: {name for _, name, _, _ in Formatter().parse(c.finding + c.mend) if name is not None}
        for code, c in complaints().items()
    }
    said = list(_said())
    assert [each for each in said if wanted.get(str(each[1])) != each[2]] == []
    assert wanted.keys() - {code for _, code, _ in said} == set()


def test_an_error_keeps_its_code_where_it_is_told_of_a_place() -> None:
    """A reader of a file adds file and line to what a value's own check said."""
    error = errors.unknown("thing", "x", ("a", "b"), errors.DataError)
    told = error.of("f, line 3", errors.SiteError, line=3)
    assert (told.code, told.values["name"], told.values["line"]) == ("unknown", "x", 3)
    assert str(told) == "f, line 3: unknown thing 'x'; known: a, b"
