"""Docstrings as the pages show them."""

from __future__ import annotations

import re
import sys
from types import FunctionType

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_BEFORE_NAPOLEON, _AFTER_NAPOLEON = 400, 600
_VALUES = ("data", "attribute", "property")
# what numpy's names for types stand for, as Sphinx writes it
_ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[.*?\.\.\.\], ~?numpy\.dtype\[~?numpy\.(\w+)\]\]")
_ARRAY_LIKE = re.compile(r"~?numpy\._typing\._array_like\._Buffer \| .*?complex \| bytes \| str\]")


class Kept:
    """Keeps what Napoleon makes of a value's docstring from the page.

    It takes what stands before a colon for a type.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []

    def note(
        self,
        _app: Sphinx,
        _kind: str,
        _name: str,
        _thing: object,
        _options: object,
        lines: list[str],
    ) -> None:
        """Remember the docstring as it was."""
        self._lines = list(lines)

    def restore(
        self,
        _app: Sphinx,
        kind: str,
        _name: str,
        _thing: object,
        _options: object,
        lines: list[str],
    ) -> None:
        """Bring it back if it is one of a value."""
        if kind in _VALUES:
            lines[:] = self._lines


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect to Sphinx."""
    kept = Kept()
    app.connect("autodoc-process-docstring", kept.note, _BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", kept.restore, _AFTER_NAPOLEON)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("autodoc-process-signature", _short)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _skipped(
    app: Sphinx, kind: str, _name: str, member: object, _skip: bool, _options: object
) -> bool | None:
    """Leave out the fields of named tuples, and before they cost time what a module imports."""
    told = getattr(member, "__doc__", None) or ""
    if told.startswith("Alias for field number"):
        return True
    module = str(app.env.temp_data.get("autodoc:module", ""))
    return True if kind == "module" and is_imported(member, module) else None


def is_imported(member: object, module: str) -> bool:
    """Tell whether a module that names nothing in ``__all__`` has a class or function elsewhere."""
    if hasattr(sys.modules.get(module), "__all__"):
        return False
    return isinstance(member, type | FunctionType) and member.__module__ != module


def _short(
    _app: Sphinx,
    _kind: str,
    _name: str,
    _thing: object,
    _options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Call the types of arrays what the code calls them."""
    return _named(signature), _named(returned)


def _named(types: str | None) -> str | None:
    return types and _ARRAY_LIKE.sub("ArrayLike", _ARRAY.sub(r"NDArray[\1]", types))
