"""Names that stand in the source as literals, read without importing what they stand for.

Registries are literal dicts. After a tab there is no time for the libraries that their modules
import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def keys(file: str, name: str) -> list[str]:
    """Return the keys of the dict, or the entries of the tuple, called `name`.

    Parameters
    ----------
    file
        The module's file, relative to the package.

    Raises
    ------
    KeyError
        If the file has no such literal, or another text in it than a literal one or a constant.
    """
    assigned = dict(_assigned(_tree(file).body))
    literal = assigned[name]
    if isinstance(literal, ast.Dict):
        return [_text(key, assigned) for key in literal.keys]
    if isinstance(literal, ast.Tuple):
        return [_text(entry, assigned) for entry in literal.elts]
    raise KeyError(name)


def members(file: str, name: str) -> list[str]:
    """Return the values of the enumeration called `name`; see `keys`."""
    for node in _tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [_text(value, {}) for _, value in _assigned(node.body)]
    raise KeyError(name)


def _tree(file: str) -> ast.Module:
    return ast.parse((_PACKAGE / file).read_text(encoding="utf-8"))


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.value is not None:
                yield node.target.id, node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _text(node: ast.expr | None, constants: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Name):
        return _text(constants[node.id], {})
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise KeyError(ast.dump(node) if node is not None else "**")
