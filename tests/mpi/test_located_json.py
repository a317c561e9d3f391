"""JSON with line numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.mpi.located_json import JsonSyntaxError, Node, parse

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _plain(node: Node) -> Any:
    if node.is_object:
        return {m.key: _plain(m.node) for m in node.members}
    return [_plain(n) for n in node.items] if node.is_array else node.plain


@given(_VALUES, st.sampled_from([None, 1]), st.booleans())
def test_reads_what_python_writes(value: Any, indent: int | None, ascii_only: bool) -> None:
    """Every document that Python's module writes is read as the same value."""
    assert _plain(parse(json.dumps(value, indent=indent, ensure_ascii=ascii_only))) == value


def test_knows_lines_and_keys_that_stand_twice() -> None:
    """Members keep their order, their line and their twins."""
    node = parse('{\n "a": 1,\n "b": [2,\n 3],\n "a": {}\n}')
    assert [(m.key, m.line) for m in node.members] == [("a", 2), ("b", 3), ("a", 5)]


def test_tells_where_it_is_no_json(subtests: pytest.Subtests) -> None:
    """Text that is no JSON is refused, with the line and what is wrong."""
    for text, line, complaint in (
        ("", 1, "ends where a value"),
        ('{"a":\n', 2, "ends where a value"),
        ('{"a": 1,\n}', 1, "a comma before '}'"),
        ("[1,\n2\n3]", 3, "'3' in the place of ']'"),
        ("\n[1] 2", 2, "after the end"),
        ("{1: 2}", 1, "in the place of a key"),
        ("[1, // no\n2]", 1, "is not JSON"),
        ("[01]", 1, "is not JSON"),
        ("\n\n}", 3, "'}' in the place of a value"),
        ("[" * 5000, 1, "100 levels"),
        ("1" * 5000, 1, "5000 digits"),
        ('"\\ud8"', 1, "is not JSON"),
    ):
        with subtests.test(text=text, line=line):
            with pytest.raises(JsonSyntaxError, match=complaint) as caught:
                parse(text)
            assert caught.value.line == line


def test_takes_trailing_commas_where_asked_to() -> None:
    """A comma before the end is taken on request, two of them are not."""
    assert _plain(parse('{"a": [1,],}', trailing_commas=True)) == {"a": [1]}
    with pytest.raises(JsonSyntaxError, match="',' in the place of"):
        parse("[1,,]", trailing_commas=True)


@given(st.text(alphabet='{}[]:,"0123456789.eE+-\\ntrufalse \n'))
def test_never_fails_otherwise(text: str) -> None:
    """Any text is either read as Python reads it or refused with a `JsonSyntaxError`."""
    try:
        found = _plain(parse(text))
    except JsonSyntaxError:
        return
    assert found == json.loads(text)
