"""Reading Spack's recipes without Spack: their directives are called, and what they say is kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Recipe:
    """What a recipe says; ``needs`` are specs with the variants that they are for, "" for none."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)
    variants: set[str] = field(default_factory=set)
    needs: dict[str, set[str]] = field(default_factory=dict)
    build_needs: set[str] = field(default_factory=set)


def read(folder: Path) -> Recipe:
    """Return what ``package.py`` in a folder says."""
    file = folder / "package.py"
    tree = ast.parse(file.read_text())
    # the two imports that every recipe has are of Spack, which is not here
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert [node.module for node in imports] == [
        "spack_repo.builtin.build_systems.python",
        "spack.package",
    ]
    tree.body = [node for node in tree.body if node not in imports]
    recipe = Recipe(folder.name)
    names = {**_directives(recipe), "PythonPackage": type("PythonPackage", (), {})}
    exec(compile(tree, file, "exec"), names)
    title = "".join(part.capitalize() for part in folder.name.split("_"))
    recipe.attributes = {k: v for k, v in vars(names[title]).items() if not k.startswith("__")}
    return recipe


def _directives(recipe: Recipe) -> dict[str, Any]:
    defaults: list[dict[str, Any]] = []
    conditions: list[str] = []

    def depends_on(spec: str, *, type: object = None, when: str = "") -> None:
        kinds = [type, *(one.get("type") for one in reversed(defaults))]
        kind = next((one for one in kinds if one is not None), ("build", "link"))
        if kind == "build":
            recipe.build_needs.add(spec)
        else:
            assert "run" in kind
            recipe.needs.setdefault(spec, set()).add(when or "".join(conditions))

    def version(number: str, *, sha256: str | None = None) -> None:
        recipe.versions[number] = sha256

    def variant(name: str, *, default: bool, description: str) -> None:
        assert description
        assert default in (True, False)
        recipe.variants.add(name)

    @contextmanager
    def default_args(**arguments: Any) -> Iterator[None]:
        defaults.append(arguments)
        yield
        defaults.pop()

    @contextmanager
    def when(condition: str) -> Iterator[None]:
        conditions.append(condition)
        yield
        conditions.pop()

    def license(expression: str) -> None:
        assert expression

    known = (depends_on, version, variant, default_args, when, license)
    return {one.__name__: one for one in known}
