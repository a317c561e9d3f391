"""A class name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "colltune"
# what several formats of configuration files call alike
SHARED = {
    "Branch",
    "Content",
    "Plan",
    "Reading",
    "Setting",
    "_Planner",
    "_Reader",
}


def test_no_two_classes_share_a_name() -> None:
    """Who reads or looks for a name finds one class; only formats of files have the same words."""
    found = defaultdict(set)
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(file.relative_to(SOURCES))
    assert len(found) > 500
    several = {name: files for name, files in found.items() if len(files) > 1}
    assert several.keys() <= SHARED, several
    assert all(file.parts[0] == "mpi" for files in several.values() for file in files), several
