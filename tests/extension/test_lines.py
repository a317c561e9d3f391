"""How little an extension takes: the exercises are counted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.extension.exercise import FOLDER, ROOT

REGISTRIES = {"learner": "LEARNERS", "library": "LIBRARIES", "backend": "BACKENDS"}
each = pytest.mark.parametrize("name", REGISTRIES)


def _statements(line: Path) -> list[ast.stmt]:
    """Return what a file does besides importing and telling what it is."""
    body = ast.parse(line.read_text(encoding="utf-8")).body
    imports = (ast.Import, ast.ImportFrom)
    return [s for s in body if not isinstance(s, imports)][1:]


@each
def test_an_extension_is_one_module_and_at_most_one_data_file(name: str) -> None:
    """Beside the line that registers it there is nothing else."""
    files = {file.name for file in (FOLDER / name).iterdir() if file.is_file()} - {"line.py"}
    modules = {file for file in files if file.endswith(".py")}
    assert len(modules) == 1
    assert len(files - modules) <= 1


@each
def test_an_extension_is_registered_by_one_line(name: str) -> None:
    """The file with the line holds one assignment, of one line, to its registry."""
    [registered] = _statements(FOLDER / name / "line.py")
    assert isinstance(registered, ast.Assign)
    assert registered.lineno == registered.end_lineno
    [target] = registered.targets
    assert isinstance(target, ast.Subscript)
    assert isinstance(target.value, ast.Name)
    assert target.value.id == REGISTRIES[name]


@each
def test_a_module_registers_nothing_by_itself(name: str) -> None:
    """Importing an extension's module changes no registry: the line is really needed."""
    [module] = [f for f in (FOLDER / name).glob("*.py") if f.name != "line.py"]
    text = module.read_text(encoding="utf-8")
    assert not any(registry in text for registry in REGISTRIES.values())


@each
def test_the_package_knows_nothing_of_an_extension(name: str) -> None:
    """No file of the package was written for an exercise."""
    [module] = [f for f in (FOLDER / name).glob("*.py") if f.name != "line.py"]
    classes = {s.name for s in _statements(module) if isinstance(s, ast.ClassDef)}
    public = {name for name in classes if not name.startswith("_")} or {module.stem}
    for file in (ROOT / "src" / "colltune").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not any(name in text for name in public), file


@each
def test_contributing_shows_the_exercise(name: str) -> None:
    """CONTRIBUTING names the exercise, and the registry that its line goes into."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"(tests/extension/{name}/)" in text
    assert f"`{REGISTRIES[name]}`" in text
